"""Memory of the largest generation of a search, before anything of it is compiled."""

from qfleet.engine import memory
from qfleet.errors import MemoryLimitError
from qfleet.search.data_task import DataTask
from qfleet.search.data_trainer import MOST_ROWS as DATA_ROWS
from qfleet.search.methods import SearchMethod
from qfleet.search.screening import MOST_ROWS as SCREENED_ROWS
from qfleet.search.space import Space
from qfleet.search.trainer import EXTRA_OPERATIONS
from qfleet.search.trainer import MOST_ROWS as TRAINED_ROWS

_GATE_BYTES, _ANGLE_BYTES = 8, 32  # of a tuple of numbers, which Python shares, and of a float
_COPIES = 3  # of a candidate: before and after the training, and in the order of its program
_OPTIMIZED = 36  # arrays of a point and its history: those of L-BFGS
_PROCESS_BYTES = 240 << 20  # of a process without any candidate
_EVALUATED = 5  # arrays of a row of inputs, exponents and gradients


def require_memory(
    space: Space,
    method: SearchMethod,
    *,
    starts: int = 1,
    data: DataTask | None = None,
    processes: int = 1,
) -> None:
    """Check that the largest generation of a method fits into the free memory.

    Args:
        space: The space.
        method: The method.
        starts: Starts per candidate.
        data: The data that candidates are trained for; None for a Hamiltonian.
        processes: Searches on this machine that do the same.

    Raises:
        MemoryLimitError: The message has the needed and the free bytes, and the gates that fit.
    """
    every = len(space.gates)

    def needed(gates: int) -> int:
        found = generation_bytes(space, method, gates / every, starts, data)
        return found + (_PROCESS_BYTES if processes > 1 else 0)

    whole = needed(every)
    if whole * processes <= memory.UNCHECKED_BYTES:
        return
    free = memory.available_bytes()
    if whole * processes <= free:
        return
    low, high = 0, every  # low fits, unless it is 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if needed(middle) * processes <= free else (low, middle)
    ways = [f"a space of at most {low:,} gates"] * bool(low) + ["another method"]
    where = ""
    if processes > 1:
        where = f" in each of {processes} processes"
        ways.insert(0, f"at most {max(1, free // whole)} processes")
    raise MemoryLimitError(
        f"a generation of {method.name or 'the method'} on {every:,} gates{where} takes"
        f" {whole * processes:,} bytes, but {free:,} bytes are free: use {' or '.join(ways)}"
    )


def generation_bytes(
    space: Space, method: SearchMethod, share: float, starts: int, data: DataTask | None
) -> int:
    """Predict the most bytes of a generation, if the space had a part of its gates only.

    Args:
        space: The space.
        method: The method.
        share: The part of its gates.
        starts: Starts per candidate.
        data: As for `require_memory`.
    """
    every = len(space.gates)
    gates = max(1, round(share * every))
    entangling = round(share * sum(gate.entangles for gate in space.gates))
    candidates, most = method.extent(gates, entangling)
    angles = sum(len(gate.angles) for gate in space.gates) / every  # of a gate
    columns = angles + sum(gate.switched for gate in space.gates) / every
    kept = _COPIES * candidates * most * (_GATE_BYTES + angles * _ANGLE_BYTES)
    if data is not None:
        trained, program = len(data.labels), gates
        rows = max(1, DATA_ROWS // trained) * max(trained, len(data.validation_labels))
        if getattr(method, "drawn", 1) > 1:
            rows = max(rows, SCREENED_ROWS)
    else:
        rows = min(candidates * starts, TRAINED_ROWS)
        program = min(candidates * most, gates if space.ordered else 2 * most + EXTRA_OPERATIONS)
    optimized = min(candidates * starts, TRAINED_ROWS) * program * angles * _OPTIMIZED
    evaluated = rows * program * columns * _EVALUATED
    return int(kept + 8 * (optimized + evaluated))
