"""The benchmark of the simulator's speed: `make benchmark`.

    python -m benchmarks            all cases, less than 20 minutes; RESULTS.md, results.json, plots
    python -m benchmarks QUICK=1    the cases of the quick bounds, less than 3 minutes; in quick/
    python -m benchmarks LARGE=1    all cases, a whole epoch of 23 qubits, and a step of 28 qubits

The exit code is 1 if a bound is missed, a system failed or two systems disagree. In the quick form
it is 1 if a ratio is below its floor (cases.py).
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import cases, machine, result_plots, table
from benchmarks.cases import BOUNDS, Row, SpeedCase
from benchmarks.rounds import Disagreement, measure
from benchmarks.subprocess_protocol import RESPONSE_TIMEOUT_SECONDS, SubprocessSystem
from common.errors import EXIT_OK, SettingsError, run_main

HERE = Path(__file__).parent
ROUNDS, QUICK_ROUNDS = 5, 3
EPOCH_TIMEOUT_SECONDS = 1_800.0  # a whole epoch of 23 qubits is one response
EXIT_MISSED = 1
# Cases of qfleet only, each in a new process, so that the peak memory is that of the case.
FULL = ((SpeedCase("qcnn", 23, 1000, nonzero_angles=1), "epoch"),)
LARGE = (*FULL, (SpeedCase("qcnn", 23, 32), "epoch"), (SpeedCase("qcnn", 28, 1), "train"))


@dataclass
class BenchmarkResults:
    """The results of a run.

    Attributes:
        rows: Rows of results.json.
        skipped: Skipped cases with reasons.
        failures: Sentences about failed systems and disagreements.
    """

    rows: list[Row] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def main() -> int:
    """Run the benchmark, write the results, and compare them with the bounds."""
    start = time.monotonic()
    flags = parse_flags(sys.argv[1:])
    quick = "QUICK" in flags
    facts = machine.facts()
    systems = create_systems()
    try:
        results = measure_all(systems, cases.quick() if quick else cases.full(), quick)
        for case, task in () if quick else (LARGE if "LARGE" in flags else FULL):
            systems["qfleet"].close()
            measure_case([systems["qfleet"]], case, task, 1, results)
    finally:
        for system in systems.values():
            system.close()
    facts |= {
        f"{s.name} version": _format_versions(s.versions) for s in systems.values() if s.versions
    }
    methods = dict.fromkeys(row["method"] for row in results.rows if row["system"] == "qfleet")
    facts["simulator of qfleet"] = "; ".join(methods) or "none"
    facts["duration"] = f"{time.monotonic() - start:.0f} s"
    limits = table.limits(results.rows, [b for b in BOUNDS if not quick or b.floor is not None])
    folder = HERE / "quick" if quick else HERE
    text = table.results(results.rows, limits, results.skipped + results.failures, facts)
    write(folder, results, text)
    print(f"\nsimulator of qfleet: {facts['simulator of qfleet']}\n")
    print(f"{table.limits_table(limits)}\n\nwritten to {folder}")
    sentences = results.failures + table.missed(limits)
    for sentence in sentences:
        print(sentence, file=sys.stderr)
    broken = [limit for limit in limits if limit.below_floor] if quick else sentences
    return EXIT_MISSED if broken or results.failures else EXIT_OK


def measure_all(
    systems: Mapping[str, SubprocessSystem],
    plan: Mapping[tuple[SpeedCase, str], Sequence[str]],
    quick: bool,
) -> BenchmarkResults:
    """Measure the cases of a plan with their systems, except skipped ones.

    Args:
        systems: All systems by name.
        plan: Names of systems by case and task.
        quick: True for the quick form, which has fewer rounds.
    """
    start = time.monotonic()
    rounds = QUICK_ROUNDS if quick else ROUNDS
    results = BenchmarkResults()
    for (case, task), names in plan.items():
        active = []
        for name in names:
            elapsed = time.monotonic() - start
            reason = cases.skip_reason(results.rows, name, task, case, rounds, elapsed)
            if reason:
                results.skipped.append(f"{name}, {task}, {case}: {reason}")
            else:
                active.append(systems[name])
        measure_case(active, case, task, rounds, results)
    return results


def measure_case(
    systems: list[SubprocessSystem],
    case: SpeedCase,
    task: str,
    rounds: int,
    results: BenchmarkResults,
) -> None:
    """Measure a case, add it to the results and print it."""
    start = time.monotonic()
    try:
        rows, failures = measure(systems, case, task, rounds)
    except Disagreement as difference:
        rows, failures = [], [str(difference)]
    results.rows += rows
    results.failures += failures
    times = [f"{row['system']} {row['ms_per_circuit']:.3g} ms" for row in rows]
    text = ", ".join([*times, *failures])
    print(f"{task}, {case}: {text} ({time.monotonic() - start:.0f} s)", flush=True)


def parse_flags(arguments: Sequence[str]) -> set[str]:
    """Return the flags that are set by arguments such as QUICK=1.

    Raises:
        SettingsError: A flag is unknown, its value is neither 0 nor 1, or flags exclude each other.
    """
    flags = set()
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name not in ("QUICK", "LARGE") or value not in ("0", "1"):
            raise SettingsError(
                f"{argument} is not allowed in make benchmark: use QUICK=1, LARGE=1 or neither"
            )
        if value == "1":
            flags.add(name)
    if flags == {"QUICK", "LARGE"}:
        raise SettingsError("QUICK=1 and LARGE=1 exclude each other: use one of them")
    return flags


def create_systems() -> dict[str, SubprocessSystem]:
    """Return the systems, each with the Python environment that it needs."""
    peers = str(HERE.parent / ".venv-peers" / "bin" / "python")
    commands = {
        "qfleet": [sys.executable, "-m", "benchmarks.run_keras"],
        "tfq": [sys.executable, "-m", "benchmarks.run_keras"],
        "lightning": [peers, "-m", "benchmarks.run_peers"],
        "qsim": [peers, "-m", "benchmarks.run_peers"],
    }
    timeouts = {"qfleet": EPOCH_TIMEOUT_SECONDS}
    return {
        name: SubprocessSystem(name, [*command, name], timeouts.get(name, RESPONSE_TIMEOUT_SECONDS))
        for name, command in commands.items()
    }


def write(folder: Path, results: BenchmarkResults, text: str) -> None:
    """Write results.json with one row per line, RESULTS.md and the plots."""
    folder.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in results.rows)
    (folder / "results.json").write_text(f"[\n{lines}\n]\n")
    (folder / "RESULTS.md").write_text(text)
    result_plots.plot(results.rows, folder)


def _format_versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


if __name__ == "__main__":
    sys.exit(run_main(main))
