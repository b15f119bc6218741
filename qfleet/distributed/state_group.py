"""Groups of processes that hold each state together.

Inside `use_group(group)`, every simulator that `build_simulator` makes holds 1/size of each state
in this process:

    with use_group(StateGroup(size=2, rank=0, key=2000)):
        simulator = build_simulator(circuit, inputs, parameters, observables)

All processes of a group build the same circuits in the same order and call them with the same
arguments. Each process gets

    readouts    complete and equal in all processes
    gradients   a partial gradient: the sum over the processes is the gradient of the sum of their
                losses. Scale each process's loss by 1/size and sum the gradients over all
                processes, as data-parallel training does, to get the gradient of one process.
                This includes gradients of layers before the circuit, because backpropagation is
                linear.

No framework is imported here.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass

from qfleet.errors import ShardingError


@dataclass(frozen=True)
class StateGroup:
    """The processes that hold one state.

    Attributes:
        size: Number of processes, a power of two; 1 does not shard the state.
        rank: Index of this process in the group.
        key: Identifies the group to the framework's collectives: equal in all processes of the
            group and different from the keys of all other groups. TensorFlow's strategies use keys
            from 1 on.
        sockets: By rank in the group, the file descriptor of the connection to that process, and
            -1 for this one. Without connections, the framework's collectives are used.
        first_rank: Rank of the group's first process among all workers, for errors.

    Raises:
        ShardingError: The size is not a power of two, or the rank is not in the group.
    """

    size: int
    rank: int
    key: int
    sockets: tuple[int, ...] = ()
    first_rank: int = 0

    def __post_init__(self) -> None:
        if self.size < 1 or self.size & (self.size - 1):
            raise ShardingError(
                f"a state cannot be sharded over {self.size} processes: use a power of two (1, 2,"
                " 4, 8, ...)"
            )
        if not 0 <= self.rank < self.size:
            raise ShardingError(
                f"rank {self.rank} is not in a group of size {self.size}: use 0 to {self.size - 1}"
            )

    @property
    def bits(self) -> int:
        """Number of global qubits: the bits of the rank."""
        return self.size.bit_length() - 1


_CURRENT: contextvars.ContextVar[StateGroup | None] = contextvars.ContextVar(
    "state_group", default=None
)


@contextlib.contextmanager
def use_group(group: StateGroup) -> Iterator[None]:
    """Shard the states of all simulators that are built in this context.

    Args:
        group: The processes that hold the states.
    """
    token = _CURRENT.set(group)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_group() -> StateGroup | None:
    """Return the group to shard states over; None if states are not sharded."""
    group = _CURRENT.get()
    return group if group is not None and group.size > 1 else None
