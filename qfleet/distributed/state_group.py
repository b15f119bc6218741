"""The state of one circuit held by several workers together: who they are.

Inside `over(group)` every simulator that `build` makes holds 1/size of the state in each member:

    with split.over(split.Group(size=2, rank=0, key=2000)):
        simulator = build(circuit, inputs, parameters, observables)

All members build the same circuits in the same order and call them with the same arguments, as
workers of one gang under a strategy that connects them. What each of them gets:

    readouts    the whole values, the same in every member
    slopes      its own part: summed over the members they are the gradient of the sum of the
                members' losses. So a loss that each member weighs with 1/size, and gradients that
                are summed over all workers, as training does, give what one worker would have
                found. That holds for what is trained before the circuit too, since all that comes
                after it on the way back is linear in the parts.

No TensorFlow here.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass

from common.errors import SettingsError


@dataclass(frozen=True)
class StateGroup:
    """The workers that hold one state.

    Attributes:
        size: How many they are, a power of two; 1 splits nothing.
        rank: Which of them this process is, in the order of their task numbers.
        key: Names the group to TensorFlow: the same in all members, and no other group's. Those
            of a gang's groups follow from their number; strategies count theirs from 1 on.
    """

    size: int
    rank: int
    key: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.size & (self.size - 1):
            raise SettingsError(
                f"STATE_SHARDS={self.size}: a state is split over a power of two of workers: use 1, 2, 4,"
                " 8, ..."
            )
        if not 0 <= self.rank < self.size:
            raise ValueError(f"rank {self.rank} in a group of {self.size}")

    @property
    def bits(self) -> int:
        """How many qubits the members' ranks stand for."""
        return self.size.bit_length() - 1


_CURRENT: contextvars.ContextVar[StateGroup | None] = contextvars.ContextVar("split", default=None)


@contextlib.contextmanager
def use_group(group: StateGroup) -> Iterator[None]:
    """What is built inside is split over this group."""
    token = _CURRENT.set(group)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_group() -> StateGroup | None:
    """The group to split over; None where nothing is to be split."""
    group = _CURRENT.get()
    return group if group is not None and group.size > 1 else None
