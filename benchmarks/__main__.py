"""Evidence for the simulator's speed: `make benchmark`.

    python -m benchmarks            all cells, under 20 minutes: RESULTS.md, results.json, plots
    python -m benchmarks QUICK=1    the cells of the quick bounds, under 3 minutes, into quick/
    python -m benchmarks LARGE=1    beside all cells: a whole epoch of 23 qubits, a step of 28

Ends with 1 where a bound is missed, a system failed or two systems disagree; the quick form, where
a ratio is below its floor (cells.py).
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import cases, machine, result_plots, table
from benchmarks.cases import BOUNDS, BenchmarkCell, Row
from benchmarks.rounds import Disagreement, measure
from benchmarks.subprocess_protocol import ANSWER_S, SubprocessSystem
from common.errors import EXIT_OK, SettingsError

HERE = Path(__file__).parent
ROUNDS, QUICK_ROUNDS = 5, 3
EPOCH_PATIENCE_S = 1_800.0  # a whole epoch of 23 qubits is one answer
MISSED = 1
# Of qfleet alone, each in a fresh process, whose peak of memory is the cell's.
FULL = ((BenchmarkCell("qcnn", 23, 1000, turned=1), "epoch"),)
LARGE = (*FULL, (BenchmarkCell("qcnn", 23, 32), "epoch"), (BenchmarkCell("qcnn", 28, 1), "train"))


@dataclass
class BenchmarkResults:
    """What came out: rows of results.json, who was left out and why, what went wrong."""

    rows: list[Row] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def main(words: Sequence[str]) -> int:
    """Measure, write, and hold the results to their bounds."""
    begun = time.monotonic()
    flags = read(words)
    quick = "QUICK" in flags
    facts = machine.facts()
    systems = start()
    try:
        found = measure_all(systems, cases.quick() if quick else cases.full(), quick)
        for cell, task in () if quick else (LARGE if "LARGE" in flags else FULL):
            systems["qfleet"].close()
            run([systems["qfleet"]], cell, task, 1, found)
    finally:
        for system in systems.values():
            system.close()
    facts |= {f"{s.name} is": _joined(s.versions) for s in systems.values() if s.versions}
    ways = dict.fromkeys(row["way"] for row in found.rows if row["system"] == "qfleet")
    facts["qfleet simulated with"] = "; ".join(ways) or "nothing"
    facts["the run took"] = f"{time.monotonic() - begun:.0f} s"
    limits = table.limits(found.rows, [b for b in BOUNDS if not quick or b.floor is not None])
    folder = HERE / "quick" if quick else HERE
    write(folder, found, table.results(found.rows, limits, found.left_out + found.wrong, facts))
    print(f"\nqfleet simulated with: {facts['qfleet simulated with']}\n")
    print(f"{table.limits_table(limits)}\n\nwritten to {folder}")
    sentences = found.wrong + table.missed(limits)
    for sentence in sentences:
        print(f"qfleet: {sentence}", file=sys.stderr)
    broken = [limit for limit in limits if limit.below_floor] if quick else sentences
    return MISSED if broken or found.wrong else EXIT_OK


def measure_all(
    systems: Mapping[str, SubprocessSystem],
    plan: Mapping[tuple[BenchmarkCell, str], Sequence[str]],
    quick: bool,
) -> BenchmarkResults:
    """Measure the cells of a plan, each by the systems that are named and not left out."""
    begun = time.monotonic()
    rounds = QUICK_ROUNDS if quick else ROUNDS
    found = BenchmarkResults()
    for (cell, task), names in plan.items():
        taking_part = []
        for name in names:
            elapsed = time.monotonic() - begun
            reason = cases.why_left_out(found.rows, name, task, cell, rounds, elapsed)
            if reason:
                found.left_out.append(f"{name}, {task}, {cell}: {reason}")
            else:
                taking_part.append(systems[name])
        run(taking_part, cell, task, rounds, found)
    return found


def run(
    systems: list[SubprocessSystem],
    cell: BenchmarkCell,
    task: str,
    rounds: int,
    found: BenchmarkResults,
) -> None:
    """Measure a cell, note what came out and say it."""
    begun = time.monotonic()
    try:
        rows, failures = measure(systems, cell, task, rounds)
    except Disagreement as difference:
        rows, failures = [], [str(difference)]
    found.rows += rows
    found.wrong += failures
    times = [f"{row['system']} {row['ms_per_circuit']:.3g} ms" for row in rows]
    said = ", ".join([*times, *failures])
    print(f"{task}, {cell}: {said} ({time.monotonic() - begun:.0f} s)", flush=True)


def read(words: Sequence[str]) -> set[str]:
    """The flags that are set, from words like QUICK=1.

    Raises:
        SettingsError: There is no such flag, or its value is neither 0 nor 1.
    """
    flags = set()
    for word in words:
        name, _, value = word.partition("=")
        if name not in ("QUICK", "LARGE") or value not in ("0", "1"):
            raise SettingsError(
                f"make benchmark does not take {word}: QUICK=1, LARGE=1 or nothing is allowed"
            )
        if value == "1":
            flags.add(name)
    if flags == {"QUICK", "LARGE"}:
        raise SettingsError("QUICK=1 and LARGE=1 exclude each other: give one of them")
    return flags


def start() -> dict[str, SubprocessSystem]:
    """The systems, each in the environment that it lives in."""
    peers = str(HERE.parent / ".venv-peers" / "bin" / "python")
    sides = {
        "qfleet": [sys.executable, "-m", "benchmarks.run_keras"],
        "tfq": [sys.executable, "-m", "benchmarks.run_keras"],
        "lightning": [peers, "-m", "benchmarks.run_peers"],
        "qsim": [peers, "-m", "benchmarks.run_peers"],
    }
    patience = {"qfleet": EPOCH_PATIENCE_S}
    return {
        name: SubprocessSystem(name, [*command, name], patience.get(name, ANSWER_S))
        for name, command in sides.items()
    }


def write(folder: Path, found: BenchmarkResults, text: str) -> None:
    """results.json, a row a line, RESULTS.md and the plots."""
    folder.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in found.rows)
    (folder / "results.json").write_text(f"[\n{lines}\n]\n")
    (folder / "RESULTS.md").write_text(text)
    result_plots.draw(found.rows, folder)


def _joined(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except SettingsError as error:
        print(f"qfleet: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
