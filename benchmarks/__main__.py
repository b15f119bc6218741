"""Evidence for the simulator's speed: `make benchmark`.

    python -m benchmarks            all cells, under 20 minutes: RESULTS.md, results.json, plots
    python -m benchmarks QUICK=1    the cells of the quick bounds, under 3 minutes, into quick/
    python -m benchmarks LARGE=1    beside all cells: a whole epoch of 23 qubits, a step of 28

Ends with 1 where a bound is missed, a system failed or two systems disagree.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import cells, machine, plots, table
from benchmarks.cells import BOUNDS, Cell, Row
from benchmarks.rounds import Disagreement, measure
from benchmarks.talk import System
from common.errors import DONE, SettingsError

HERE = Path(__file__).parent
ROUNDS = {"full": 5, "quick": 3}
MISSED = 1
LARGE: tuple[tuple[Cell, str], ...] = (
    (Cell("qcnn", 23, 32), "epoch"),
    (Cell("qcnn", 28, 1), "train"),
)


def main(words: Sequence[str]) -> int:
    """Measure, write, and hold the results to their bounds."""
    begun = time.monotonic()
    flags = read(words)
    form = "quick" if "QUICK" in flags else "full"
    facts = machine.facts()
    systems = start()
    rows: list[Row] = []
    left_out: list[str] = []
    wrong: list[str] = []
    try:
        for (cell, task), names in (cells.quick() if form == "quick" else cells.full()).items():
            taking_part = []
            for name in names:
                reason = cells.why_left_out(
                    rows, name, task, cell, ROUNDS[form], time.monotonic() - begun
                )
                if reason:
                    left_out.append(f"{name}, {task}, {cell}: {reason}")
                else:
                    taking_part.append(systems[name])
            rows += run(taking_part, cell, task, ROUNDS[form], wrong)
        for cell, task in LARGE if "LARGE" in flags else ():
            systems["qfleet"].close()  # a fresh process, whose peak of memory is this cell's
            rows += run([systems["qfleet"]], cell, task, 1, wrong)
    finally:
        facts |= {f"{s.name} is": _joined(s.versions) for s in systems.values() if s.versions}
        ways = {row["way"]: None for row in rows if row["system"] == "qfleet"}
        facts["qfleet simulated with"] = "; ".join(ways) or "nothing"
        for system in systems.values():
            system.close()
    bounds = [bound for bound in BOUNDS if bound.quick or form == "full"]
    facts["took"] = f"{time.monotonic() - begun:.0f} s"
    folder = HERE / "quick" if form == "quick" else HERE
    write(folder, rows, table.results(rows, left_out + wrong, facts, bounds))
    if form == "full":
        plots.draw(rows, folder)
    print(f"\nqfleet simulated with: {facts['qfleet simulated with']}\n")
    print(f"{table.bounds_table(rows, bounds)}\n\nwritten to {folder}")
    wrong += table.missed(rows, bounds)
    for sentence in wrong:
        print(f"qfleet: {sentence}", file=sys.stderr)
    return MISSED if wrong else DONE


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


def start() -> dict[str, System]:
    """The systems, each in the environment that it lives in."""
    peers = str(HERE.parent / ".venv-peers" / "bin" / "python")
    sides = {
        "qfleet": [sys.executable, "-m", "benchmarks.keras_side"],
        "tfq": [sys.executable, "-m", "benchmarks.keras_side"],
        "lightning": [peers, "-m", "benchmarks.peers_side"],
        "qsim": [peers, "-m", "benchmarks.peers_side"],
    }
    return {name: System(name, [*command, name]) for name, command in sides.items()}


def run(systems: list[System], cell: Cell, task: str, rounds: int, wrong: list[str]) -> list[Row]:
    """Measure a cell and say what came out; what went wrong is noted."""
    begun = time.monotonic()
    try:
        rows, failures = measure(systems, cell, task, rounds)
    except Disagreement as difference:
        rows, failures = [], [str(difference)]
    wrong += failures
    times = ", ".join(f"{row['system']} {row['ms_per_circuit']:.3g}" for row in rows)
    said = "; ".join([times, *failures] if times else failures)
    print(f"{task}, {cell}: {said} ms ({time.monotonic() - begun:.0f} s)", flush=True)
    return rows


def write(folder: Path, rows: Sequence[Row], text: str) -> None:
    """results.json, a row a line, and RESULTS.md."""
    folder.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in rows)
    (folder / "results.json").write_text(f"[\n{lines}\n]\n")
    (folder / "RESULTS.md").write_text(text)


def _joined(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except SettingsError as error:
        print(f"qfleet: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
