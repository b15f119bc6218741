"""Training by the Keras layers, compared with another version of qfleet.

    python -m benchmarks.other_version FOLDER

FOLDER is another checkout, such as `git worktree add FOLDER COMMIT` makes, whose environment exists
(`cd FOLDER && ./setup.sh '' .venv worker`). Both versions run in turns. Prints a Markdown table.
"""

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import markdown
from benchmarks.cases import SpeedCase
from benchmarks.rounds import measure
from benchmarks.subprocess_protocol import SubprocessSystem
from benchmarks.systems import SYSTEMS

ROUNDS = 15
CASES = tuple(
    SpeedCase(model, qubits, batch)
    for qubits, batch in ((8, 32), (12, 32), (16, 16))
    for model in ("qcnn", "hybrid", "entangling")
)
MODULE = ["-m", "benchmarks.run_keras", "qfleet"]


def main(arguments: Sequence[str]) -> int:
    """Print the table; return 1 if a case failed."""
    (folder,) = arguments
    other = ["env", f"--chdir={folder}", str(Path(folder).resolve() / ".venv/bin/python"), *MODULE]
    systems = [
        SubprocessSystem("this", SYSTEMS["qfleet"].command),
        SubprocessSystem("other", other),
    ]
    table, failures = [], []
    for case in CASES:
        results = measure(systems, case, "train", ROUNDS)
        failures += results.failures
        if len(results.rows) == len(systems):
            this, before = (row["runs"] for row in results.rows)
            table.append([str(case), *_cells(this, before)])
    for system in systems:
        system.close()
    columns = ["case", "this, ms per circuit", "other, ms", "this / other, median", "all rounds"]
    print(markdown.table(columns, table))
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def _cells(this: Sequence[float], other: Sequence[float]) -> list[str]:
    """Return the medians and the ratios of the pairs of rounds."""
    ratios = [a / b for a, b in zip(this, other, strict=True)]
    return [
        f"{statistics.median(this):.3g}",
        f"{statistics.median(other):.3g}",
        f"{statistics.median(ratios):.2f}",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
