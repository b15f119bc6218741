"""results.json and run.json: what a benchmark has measured so far, written after every case.

results.json has the rows, run.json the versions of the systems and the omitted cases.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.cases import Row, SpeedCase

ROWS, RUN = "results.json", "run.json"


@dataclass(frozen=True)
class Omitted:
    """A system that was not timed in a case.

    Attributes:
        system: Its name.
        task: `train` or `forward`.
        case: The case.
        reason: Why, for the reader.
        final: False if another run could measure it, because only time was short.
    """

    system: str
    task: str
    case: SpeedCase
    reason: str
    final: bool = True

    def __str__(self) -> str:
        return f"{self.system}, {self.task}, {self.case}: {self.reason}"


@dataclass
class BenchmarkResults:
    """The results of a run.

    Attributes:
        rows: One row per case, task and system.
        omitted: Systems that were not timed.
        failures: Sentences about failed systems and disagreements.
        versions: Versions of each system's packages.
    """

    rows: list[Row] = field(default_factory=list)
    omitted: list[Omitted] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    versions: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def has(self, case: SpeedCase, task: str) -> bool:
        """Return True if a case needs no further measurement."""
        wanted = (task, case)
        if any((each.task, each.case) == wanted and not each.final for each in self.omitted):
            return False
        return any((row["task"], row_case(row)) == wanted for row in self.rows)

    def drop(self, case: SpeedCase, task: str) -> None:
        """Remove what is known about a case, before it is measured again."""
        wanted = (task, case)
        self.rows = [row for row in self.rows if (row["task"], row_case(row)) != wanted]
        self.omitted = [each for each in self.omitted if (each.task, each.case) != wanted]

    def add(self, found: "BenchmarkResults") -> None:
        """Add the results of a case."""
        self.rows += found.rows
        self.omitted += found.omitted
        self.failures += found.failures
        self.versions |= found.versions

    def write(self, folder: Path) -> None:
        """Write both files, with one row per line."""
        folder.mkdir(exist_ok=True)
        versions = json.dumps(self.versions)
        omitted = _lines([asdict(each) for each in self.omitted])
        _replace(folder / RUN, f'{{"versions": {versions},\n"omitted": {omitted}}}\n')
        _replace(folder / ROWS, f"{_lines(self.rows)}\n")


def read(folder: Path) -> BenchmarkResults:
    """Return the results of a folder; none if nothing was measured there."""
    if not (folder / RUN).exists():
        return BenchmarkResults()
    rows, run = (json.loads((folder / name).read_text()) for name in (ROWS, RUN))
    omitted = [Omitted(**each | {"case": SpeedCase(**each["case"])}) for each in run["omitted"]]
    return BenchmarkResults(rows, omitted, versions=run["versions"])


def row_case(row: Row) -> SpeedCase:
    """Return the case of a row."""
    return SpeedCase(row["model"], row["qubits"], row["batch"], row.get("nonzero_angles"))


def _replace(path: Path, text: str) -> None:
    """Write a file at once, so that an interruption leaves the last version."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.replace(path)


def _lines(items: Sequence[Mapping[str, object]]) -> str:
    return "[\n" + ",\n".join(json.dumps(item) for item in items) + "\n]"
