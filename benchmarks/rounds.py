"""One cell: the systems get ready, agree on what they read, and take turns."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from benchmarks.cases import BenchmarkCell, Row
from benchmarks.subprocess_protocol import Message, SubprocessSystem, SystemFailed

TOLERANCE = 1e-4  # TensorFlow Quantum rounds the numbers in its circuits to six digits


class Disagreement(Exception):
    """Two systems read different expectation values: what they simulate is not the same."""


def measure(
    systems: Iterable[SubprocessSystem], cell: BenchmarkCell, task: str, rounds: int
) -> tuple[list[Row], list[str]]:
    """Time the systems in a cell.

    Args:
        systems: Who takes part.
        cell: The cell.
        task: `train` or `forward`.
        rounds: How often each is timed.

    Returns:
        A row for each system that answered, and a sentence for each that failed.

    Raises:
        Disagreement: The readouts of two systems differ.
    """
    request = {"cell": asdict(cell), "task": task, "rounds": rounds}
    ready: dict[SubprocessSystem, Message] = {}
    times: dict[SubprocessSystem, list[Message]] = {}
    failures = []
    for system in systems:
        try:
            ready[system] = system.ask(request)
            times[system] = []
        except SystemFailed as failure:
            failures.append(f"{cell}, {task}: {failure}")
    agree({system.name: answer["values"] for system, answer in ready.items()}, str(cell))
    for _ in range(rounds):
        for system in list(times):
            try:
                times[system].append(system.ask({}))
            except SystemFailed as failure:
                failures.append(f"{cell}, {task}: {failure}")
                del times[system]
    rows = [_row(system, cell, task, ready[system], answers) for system, answers in times.items()]
    return rows, failures


def agree(values: Mapping[str, list[list[float]]], where: str) -> None:
    """Compare readouts [examples, K] of the systems with the first one's, of as many as both read.

    Raises:
        Disagreement: They differ by more than TOLERANCE.
    """
    first, *others = values
    for other in others:
        for mine, theirs in zip(values[first], values[other], strict=False):
            for a, b in zip(mine, theirs, strict=True):
                if not abs(a - b) <= TOLERANCE:
                    raise Disagreement(f"{where}: {first} reads {a:.6f} and {other} {b:.6f}")


def _row(
    system: SubprocessSystem, cell: BenchmarkCell, task: str, ready: Message, answers: list[Message]
) -> Row:
    runs = [answer["ms"] for answer in answers]
    row = {
        "system": system.name,
        "task": task,
        "model": cell.model,
        "qubits": cell.qubits,
        "batch": cell.batch,
        "ms_per_circuit": statistics.median(runs),
        "runs": runs,
        "peak_gib": answers[-1]["peak_gib"],
    }
    if cell.turned is not None:
        row["turned"] = cell.turned
    return row | {name: value for name, value in ready.items() if name != "values"}
