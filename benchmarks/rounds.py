"""One benchmark case: the systems prepare it, agree on the readouts, and are timed in turns."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from benchmarks import roofline
from benchmarks.cases import Row, SpeedCase
from benchmarks.machine_peaks import measure_peaks
from benchmarks.results import BenchmarkResults, Omitted
from benchmarks.subprocess_protocol import (
    Message,
    SubprocessSystem,
    SystemFailed,
    SystemRefused,
    SystemTimedOut,
)

TOLERANCE = 1e-4  # TensorFlow Quantum rounds the numbers in its circuits to six digits
COMPILATION_SECONDS = 600.0
"""Time limit of a case's compilation and first steps. A slower system is ended and omitted."""

COMPARED = ("values", "gradient")
"""Fields of a response that are compared and not stored."""

Readouts = Sequence[Sequence[float | None]]  # [examples, K]; None is NaN or infinite


class Disagreement(Exception):
    """Two systems compute different expectation values or gradients."""


def measure(
    systems: Sequence[SubprocessSystem], case: SpeedCase, task: str, rounds: int
) -> BenchmarkResults:
    """Time the systems in a case.

    Args:
        systems: The systems.
        case: The case.
        task: `train`, `forward` or `epoch`.
        rounds: Number of measurements per system.

    Returns:
        A row per system that succeeded. A system that takes too long to compile or needs too much
        memory is omitted. The results of a disagreement have no rows.
    """
    compared = len(systems) > 1
    request = {"case": asdict(case), "task": task, "rounds": rounds, "compared": compared}
    ready: dict[SubprocessSystem, Message] = {}
    times: dict[SubprocessSystem, list[Message]] = {}
    results = BenchmarkResults()
    for system in systems:
        try:
            ready[system] = system.request(
                request, max(COMPILATION_SECONDS, system.timeout_seconds)
            )
            times[system] = []
        except SystemTimedOut:
            minutes = COMPILATION_SECONDS / 60
            reason = f"compilation and first step > {minutes:.0f} min"
            results.omitted.append(Omitted(system.name, task, case, reason))
        except SystemRefused as refusal:
            results.omitted.append(Omitted(system.name, task, case, str(refusal)))
        except SystemFailed as failure:
            results.failures.append(f"{case}, {task}: {failure}")
    if not ready:
        return results
    try:
        _compare_responses({system.name: each for system, each in ready.items()}, str(case))
    except Disagreement as difference:
        results.failures.append(str(difference))
        for system in times:
            system.close()  # it waits for the rounds
        return results
    for _ in range(rounds):
        for system in list(times):
            try:
                response = system.request({})
                peaks = None
                if "tile_bytes" in ready[system]:
                    tile = ready[system]["tile_bytes"]
                    peaks = asdict(measure_peaks(roofline.array_bytes(tile)))
                times[system].append(response | {"peaks": peaks})
            except SystemFailed as failure:
                results.failures.append(f"{case}, {task}: {failure}")
                del times[system]
    results.rows = [
        _row(system, case, task, ready[system], found) for system, found in times.items()
    ]
    results.versions = {system.name: system.versions for system in times}
    return results


def _compare_responses(ready: Mapping[str, Message], where: str) -> None:
    """Compare readouts, and the gradients of the systems that train."""
    compare({name: response["values"] for name, response in ready.items()}, where)
    gradients = {
        name: [response["gradient"]] for name, response in ready.items() if response.get("gradient")
    }
    if gradients:
        compare(gradients, f"gradient, {where}")


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
    if "tile_bytes" in ready:
        for rate in roofline.COSTS:
            row[f"peak_{rate}"] = statistics.median(each["peaks"][rate] for each in responses)
    if case.nonzero_angles is not None:
        row["nonzero_angles"] = case.nonzero_angles
    return row | {name: value for name, value in ready.items() if name not in COMPARED}
