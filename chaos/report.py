"""The report of all campaigns: one JSON line per job, and a page that is made from them."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chaos.campaign import JobResult, describe
from common.errors import RunError

LINES, PAGE = "results.jsonl", "RESULTS.md"
MAX_SILENCE_SECONDS = 60.0
"""Longest time that a job may wait without a line that names the reason."""


@dataclass(frozen=True)
class Entry:
    """A job of a campaign, as it is stored.

    Attributes:
        date: Day (UTC) of the job.
        place: Where it ran.
        version: Version of qfleet.
        seed: Seed of its campaign.
        job: Number in the campaign.
        workers: WORKERS.
        faults: Its faults that found a target, as text.
        passed: True if it finished with the weights of the undisturbed job and all metrics.
        outcome: One line.
        seconds: Time from start to end.
        recoveries: Seconds from a fault to the next progress.
        repeated_epochs: Epochs that were computed more than once.
        silence: Longest time without a line, in seconds.
    """

    date: str
    place: str
    version: str
    seed: int
    job: int
    workers: int
    faults: list[str]
    passed: bool
    outcome: str
    seconds: float
    recoveries: list[float]
    repeated_epochs: int
    silence: float


class Report:
    """The report in a folder. Every campaign appends to it.

    Args:
        folder: The folder; created if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lines, self._page = folder / LINES, folder / PAGE

    def entries(self) -> list[Entry]:
        """Return all jobs, in order of time.

        Raises:
            RunError: The file is damaged.
        """
        if not self._lines.exists():
            return []
        try:
            return [Entry(**json.loads(line)) for line in self._lines.read_text().splitlines()]
        except (ValueError, TypeError) as error:
            raise RunError(f"{self._lines} is damaged ({error}): move it away") from None

    def next_job(self, place: str, seed: int) -> int:
        """Return the number of the first job that a campaign has not run."""
        done = [e.job for e in self.entries() if (e.place, e.seed) == (place, seed)]
        return max(done, default=-1) + 1

    def add(self, place: str, version: str, seed: int, result: JobResult) -> None:
        """Append a job, and write the page again."""
        entry = Entry(
            date=datetime.now(UTC).date().isoformat(),
            place=place,
            version=version,
            seed=seed,
            job=result.schedule.job,
            workers=result.schedule.workers,
            faults=[str(fault) for fault in result.applied],
            passed=result.passed,
            outcome=describe(result),
            seconds=round(result.seconds, 1),
            recoveries=[round(seconds, 1) for seconds in result.recoveries],
            repeated_epochs=result.repeated_epochs,
            silence=round(result.silence, 1),
        )
        with self._lines.open("a") as file:
            file.write(json.dumps(asdict(entry)) + "\n")
        self._page.write_text(page(self.entries()))


def summary(entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the figures of some jobs."""
    recoveries = [seconds for entry in entries for seconds in entry.recoveries]
    return {
        "jobs": len(entries),
        "passed": sum(entry.passed for entry in entries),
        "faults": sum(len(entry.faults) for entry in entries),
        "restarts": len(recoveries),
        "median seconds to recover": _rounded(statistics.median(recoveries) if recoveries else 0),
        "longest": _rounded(max(recoveries, default=0)),
        "epochs repeated": sum(entry.repeated_epochs for entry in entries),
        "longest silence": _rounded(max((entry.silence for entry in entries), default=0)),
    }


def page(entries: Sequence[Entry]) -> str:
    """Return the page as Markdown."""
    groups: dict[tuple[str, str, str, int], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.date, entry.place, entry.version, entry.seed), []).append(entry)
    lines = [
        "# Fault campaigns",
        "",
        "Each job gets 1 to 4 random faults. It passes if it finishes with the weights and the",
        "optimizer state of an undisturbed job, bit for bit, and with the metrics of all epochs.",
        "Times are seconds.",
        "`make chaos JOBS=20 SEED=1` appends to this page; `SEED` and the number of a job give its",
        "faults.",
        "",
    ]
    for number, (key, group) in enumerate(groups.items()):
        numbers = summary(group)
        if number == 0:
            titles = ["date", "place", "version", "seed", *numbers]
            lines += [_row(titles), _row(["---"] * len(titles))]
        lines.append(_row([*map(str, key), *map(str, numbers.values())]))
    failed = [entry for entry in entries if not entry.passed]
    if failed:
        lines += ["", "## Jobs that did not pass", ""]
    for entry in failed:
        faults = "; ".join(entry.faults) or "no faults"
        lines.append(
            f"- {entry.date}, {entry.place}, seed {entry.seed}, job {entry.job},"
            f" {entry.workers} workers: {faults}. {entry.outcome}"
        )
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rounded(seconds: float) -> float:
    return round(float(seconds), 1)
