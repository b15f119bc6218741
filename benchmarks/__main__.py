"""The benchmark of the simulator's speed: `make benchmark`.

    python -m benchmarks            all cases, up to 45 minutes; RESULTS.md, results.json, plots
    python -m benchmarks RESUME=1   the cases that the last run did not reach, for the same time
    python -m benchmarks QUICK=1    the cases of the quick bounds, less than 3 minutes; in quick/
    python -m benchmarks LARGE=1    all cases, a whole epoch of 23 qubits, and a step of 28 qubits
    python -m benchmarks SYSTEMS=qfleet,tfq    all cases, these systems only; in selection/

The exit code is 1 if a bound is missed, a system failed or two systems disagree. In the quick form
it is 1 if a ratio is below its floor (cases.py).
"""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import cases, machine, result_plots, table
from benchmarks.cases import BOUNDS, SpeedCase
from benchmarks.results import BenchmarkResults, Omitted, read
from benchmarks.rounds import measure
from benchmarks.subprocess_protocol import RESPONSE_TIMEOUT_SECONDS, SubprocessSystem
from benchmarks.systems import SYSTEMS
from common.errors import EXIT_OK, SettingsError, run_main

HERE = Path(__file__).parent
ROUNDS, QUICK_ROUNDS = 5, 3
EPOCH_TIMEOUT_SECONDS = 1_800.0  # a whole epoch of 23 qubits is one response
EXIT_MISSED = 1
CONTINUED = ", the last part of the run; the load before it is that of the parts before"
# Cases of qfleet only, each in a new process, so that the peak memory is that of the case.
FULL = ((SpeedCase("qcnn", 23, 1000, nonzero_angles=1), "epoch"),)
LARGE = (*FULL, (SpeedCase("qcnn", 23, 32), "epoch"), (SpeedCase("qcnn", 28, 1), "train"))


def main() -> int:
    """Run the benchmark, write the results, and compare them with the bounds."""
    start = time.monotonic()
    flags, names = parse_arguments(sys.argv[1:])
    quick = "QUICK" in flags
    facts = machine.facts()
    subfolder = "quick" if quick else "selection" if names != set(SYSTEMS) else ""
    folder = HERE / subfolder
    systems = create_systems()
    results = read(folder) if "RESUME" in flags else BenchmarkResults()
    try:
        plan = {
            case: [name for name in those if name in names]
            for case, those in (cases.quick() if quick else cases.full()).items()
        }
        measure_all(systems, plan, quick, results, folder)
        for case, task in () if quick else (LARGE if "LARGE" in flags else FULL):
            if not results.has(case, task):
                systems["qfleet"].close()
                measure_case([systems["qfleet"]], case, task, 1, results, folder)
    finally:
        for system in systems.values():
            system.close()
    facts |= {
        f"{name} version": _format_versions(found) for name, found in results.versions.items()
    }
    methods = dict.fromkeys(row["method"] for row in results.rows if row["system"] == "qfleet")
    facts["simulator of qfleet"] = "; ".join(methods) or "none"
    facts["duration"] = f"{time.monotonic() - start:.0f} s"
    if "RESUME" in flags:
        facts["duration"] += CONTINUED
    limits = table.limits(results.rows, [b for b in BOUNDS if not quick or b.floor is not None])
    omitted = [*map(str, results.omitted), *results.failures]
    (folder / "RESULTS.md").write_text(table.results(results.rows, limits, omitted, facts))
    result_plots.plot(results.rows, folder)
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
    results: BenchmarkResults,
    folder: Path,
) -> None:
    """Measure the cases of a plan that the results lack, with their systems.

    Args:
        systems: All systems by name.
        plan: Names of systems by case and task.
        quick: True for the quick form, which has fewer rounds.
        results: What is known; the measured rows are added.
        folder: Where the results are written after each case.
    """
    start = time.monotonic()
    rounds = QUICK_ROUNDS if quick else ROUNDS
    for (case, task), names in plan.items():
        if results.has(case, task):
            continue
        results.drop(case, task)
        active = []
        for name in names:
            elapsed = time.monotonic() - start
            reason = cases.skip_reason(results.rows, name, task, case, rounds, elapsed)
            if reason:
                final = not reason.startswith(cases.OUT_OF_TIME)
                results.omitted.append(Omitted(name, task, case, reason, final))
            else:
                active.append(systems[name])
        measure_case(active, case, task, rounds, results, folder)


def measure_case(
    systems: list[SubprocessSystem],
    case: SpeedCase,
    task: str,
    rounds: int,
    results: BenchmarkResults,
    folder: Path,
) -> None:
    """Measure a case, add it to the results, write them and print the case."""
    start = time.monotonic()
    found = measure(systems, case, task, rounds)
    results.add(found)
    results.write(folder)
    times = [f"{row['system']} {row['ms_per_circuit']:.3g} ms" for row in found.rows]
    omitted = [f"{each.system}: {each.reason}" for each in found.omitted]
    text = ", ".join([*times, *omitted, *found.failures])
    print(f"{task}, {case}: {text} ({time.monotonic() - start:.0f} s)", flush=True)


def parse_arguments(arguments: Sequence[str]) -> tuple[set[str], set[str]]:
    """Return the flags that are set by arguments such as QUICK=1, and the names of the systems.

    Raises:
        SettingsError: An argument or a system is unknown, or flags exclude each other.
    """
    flags, names = set(), set(SYSTEMS)
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name == "SYSTEMS":
            names = {"qfleet", *value.split(",")}
            if unknown := sorted(names - set(SYSTEMS)):
                raise SettingsError(
                    f"SYSTEMS has no {', '.join(unknown)}: use some of {', '.join(SYSTEMS)}"
                )
        elif name not in ("QUICK", "LARGE", "RESUME") or value not in ("0", "1"):
            raise SettingsError(
                f"{argument} is not allowed in make benchmark: "
                "use QUICK=1, LARGE=1, RESUME=1 or SYSTEMS=qfleet,tfq"
            )
        elif value == "1":
            flags.add(name)
    if flags >= {"QUICK", "LARGE"}:
        raise SettingsError("QUICK=1 and LARGE=1 exclude each other: use one of them")
    return flags, names


def create_systems() -> dict[str, SubprocessSystem]:
    """Return the systems, each with the Python environment that it needs."""
    timeouts = {"qfleet": EPOCH_TIMEOUT_SECONDS}
    return {
        name: SubprocessSystem(name, each.command, timeouts.get(name, RESPONSE_TIMEOUT_SECONDS))
        for name, each in SYSTEMS.items()
    }


def _format_versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


if __name__ == "__main__":
    sys.exit(run_main(main))
