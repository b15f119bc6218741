"""One benchmark case: the systems prepare it, agree on the readouts, and are timed in turns."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from benchmarks.cases import Row, SpeedCase
from benchmarks.subprocess_protocol import Message, SubprocessSystem, SystemFailed

TOLERANCE = 1e-4  # TensorFlow Quantum rounds the numbers in its circuits to six digits

Readouts = Sequence[Sequence[float | None]]  # [examples, K]; None is NaN or infinite


class Disagreement(Exception):
    """Two systems compute different expectation values, so they simulate different circuits."""


def measure(
    systems: Iterable[SubprocessSystem], case: SpeedCase, task: str, rounds: int
) -> tuple[list[Row], list[str]]:
    """Time the systems in a case.

    Args:
        systems: The systems.
        case: The case.
        task: `train`, `forward` or `epoch`.
        rounds: Number of measurements per system.

    Returns:
        A row per system that succeeded, and a sentence per system that failed.

    Raises:
        Disagreement: The readouts of two systems differ.
    """
    request = {"case": asdict(case), "task": task, "rounds": rounds}
    ready: dict[SubprocessSystem, Message] = {}
    times: dict[SubprocessSystem, list[Message]] = {}
    failures = []
    for system in systems:
        try:
            ready[system] = system.request(request)
            times[system] = []
        except SystemFailed as failure:
            failures.append(f"{case}, {task}: {failure}")
    compare({system.name: response["values"] for system, response in ready.items()}, str(case))
    for _ in range(rounds):
        for system in list(times):
            try:
                times[system].append(system.request({}))
            except SystemFailed as failure:
                failures.append(f"{case}, {task}: {failure}")
                del times[system]
    rows = [_row(system, case, task, ready[system], found) for system, found in times.items()]
    return rows, failures


def compare(values: Mapping[str, Readouts], where: str) -> None:
    """Compare the readouts of the systems with those of the first system.

    Args:
        values: Readouts by system. Systems may have different numbers of examples.
        where: The case, for the error message.

    Raises:
        Disagreement: They differ by more than TOLERANCE.
    """
    first, *others = values
    for other in others:
        for expected, actual in zip(values[first], values[other], strict=False):
            for a, b in zip(expected, actual, strict=True):
                if a is None or b is None or not abs(a - b) <= TOLERANCE:
                    raise Disagreement(
                        f"{where}: {first} computes {_format(a)}, but {other} {_format(b)}"
                    )


def _format(value: float | None) -> str:
    return "NaN" if value is None else f"{value:.6f}"


def _row(
    system: SubprocessSystem,
    case: SpeedCase,
    task: str,
    ready: Message,
    responses: Sequence[Message],
) -> Row:
    runs = [response["ms"] for response in responses]
    row = {
        "system": system.name,
        "task": task,
        "model": case.model,
        "qubits": case.qubits,
        "batch": case.batch,
        "ms_per_circuit": statistics.median(runs),
        "runs": runs,
        "peak_gib": responses[-1]["peak_gib"],
    }
    if case.nonzero_angles is not None:
        row["nonzero_angles"] = case.nonzero_angles
    return row | {name: value for name, value in ready.items() if name != "values"}
