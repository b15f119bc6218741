"""Lines of neighbouring qubits with the lowest errors. Imports no package."""

import functools
import heapq
import math

from qfleet.devices.calibration import Calibration
from qfleet.devices.qubit_names import qubit_order
from qfleet.errors import NoiseError

MAX_LINE = 24
"""Most qubits of a circuit on a device; trajectories simulate more than density matrices."""

MAX_PART = 40
"""Most qubits of the part of a device that a run records."""

GATES_PER_QUBIT = 4
"""Two-qubit gates per pulse and readout in the estimate that compares lines."""

_BEAM = 1000
"""Lines of each length that are extended."""

Line = tuple[str, ...]


def best_lines(calibration: Calibration, longest: int = MAX_LINE) -> dict[int, Line]:
    """Find the lines of each length with the lowest estimated error, by a beam search.

    Args:
        calibration: The calibration.
        longest: Most qubits of a line.

    Returns:
        Number of qubits -> a line of that length; without the lengths that no line has.
    """
    neighbours: dict[str, list[tuple[float, str]]] = {name: [] for name in calibration.qubits}
    for (first, second), pair in calibration.pairs.items():
        neighbours[first].append((_loss(pair.error), second))
        neighbours[second].append((_loss(pair.error), first))
    costs = {name: _qubit_cost(calibration, name) for name in calibration.qubits}
    order = {name: at for at, name in enumerate(sorted(costs, key=qubit_order))}
    beam: list[tuple[float, tuple[int, ...], Line]] = [
        (cost, (order[name],), (name,)) for name, cost in costs.items()
    ]
    found: dict[int, Line] = {}
    for length in range(1, longest + 1):
        beam = heapq.nsmallest(_BEAM, beam)
        if not beam:
            break
        line = beam[0][-1]
        found[length] = min(line, line[::-1], key=lambda one: order[one[0]])
        beam = [
            (cost + loss + costs[name], (*positions, order[name]), (*line, name))
            for cost, positions, line in beam
            for loss, name in neighbours[line[-1]]
            if name not in line
        ]
    return found


def best_line(calibration: Calibration, length: int) -> Line:
    """Return the line of a length with the lowest estimated error.

    Raises:
        NoiseError: The device has no such line.
    """
    found = best_lines(calibration, length)
    if length not in found:
        raise NoiseError(
            f"the longest line of {calibration.name} has {max(found)} qubits, but the circuit has"
            f" {length}: use a narrower circuit or another device"
        )
    return found[length]


def best_part(calibration: Calibration, longest: int = MAX_LINE) -> Calibration:
    """Return the part of a device that holds its best lines of all lengths.

    At most MAX_PART qubits are kept: where that is too few, the shorter lines are those of this
    part.

    Args:
        calibration: The calibration.
        longest: Most qubits of a line.
    """
    kept: set[str] = set()
    for _, line in sorted(best_lines(calibration, longest).items(), reverse=True):
        if len(kept | {*line}) <= MAX_PART:
            kept |= {*line}
    return calibration.part(kept)


@functools.lru_cache(maxsize=16)
def inline_calibration(text: str) -> Calibration:
    """Return the calibration of a text, which is kept: settings are checked often.

    Raises:
        NoiseError: It is no such text.
    """
    return Calibration.from_text(text)


@functools.lru_cache(maxsize=16)
def longest_line(text: str) -> int:
    """Return the qubits of the longest line in the calibration of a text; raises likewise."""
    return max(best_lines(inline_calibration(text)))


def _qubit_cost(calibration: Calibration, name: str) -> float:
    qubit = calibration.qubits[name]
    return _loss(qubit.error) + _loss((qubit.p01 + qubit.p10) / 2) / GATES_PER_QUBIT


def _loss(error: float) -> float:
    return -math.log(max(1 - error, 1e-9))
