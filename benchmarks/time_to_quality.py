"""Seconds from the command to a quality: `python -m benchmarks.time_to_quality [--write]`.

Each goal is a training with default settings on this machine, from the start of `qfleet train` to
the end of the first epoch that reaches it, imports and the start of the workers included. --write
adds a row for this version to benchmarks/time_to_quality.json, and writes the table of
docs/benchmarks.md.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine
from benchmarks.markdown import replace_block, table

RECORD = Path(__file__).with_suffix(".json")
PAGE = Path("docs/benchmarks.md")
LIMIT_SECONDS = 600.0
SEEDS = (0, 1, 2)
"""The median of these is the figure."""


@dataclass(frozen=True)
class Goal:
    """A training, and the quality that ends it.

    Attributes:
        title: Column of the table.
        settings: Settings as NAME=value.
        reached: Returns True for the row of an epoch, a line of metrics.jsonl.
    """

    title: str
    settings: tuple[str, ...]
    reached: Callable[[Mapping[str, float]], bool]


GOALS = (
    Goal("0.99 on `excitations`", (), lambda row: row.get("val_accuracy", 0) >= 0.99),
    Goal(
        "0.90 on ten digits",
        ("CONFIG=examples/tasks/ten_digits.yaml",),
        lambda row: row.get("val_accuracy", 0) >= 0.90,
    ),
    Goal(
        "1.6 mHa on H<sub>2</sub>",
        ("CONFIG=examples/tasks/hydrogen.yaml",),
        lambda row: abs(row.get("energy_error", 1)) <= 1.6e-3,
    ),
    Goal(
        "1.6 mHa on H<sub>2</sub>O",
        ("TASK=energy", "DATA=h2o:0.958", "MODEL=uccsd", "EPOCHS=150", "INITIALIZATIONS=1"),
        lambda row: abs(row.get("energy_error", 1)) <= 1.6e-3,
    ),
)


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="record a row, and write the table")
    options = parser.parse_args()
    seconds: dict[str, float | None] = {}
    for goal in GOALS:
        times = sorted(seconds_to(goal, seed) for seed in SEEDS)
        median = times[len(times) // 2]
        seconds[goal.title] = None if median >= LIMIT_SECONDS else round(median, 1)
        print(f"{goal.title}: {', '.join(f'{one:.1f}' for one in times)} s", flush=True)
    if options.write:
        rows = json.loads(RECORD.read_text()) if RECORD.is_file() else []
        rows = [row for row in rows if row["version"] != version()]
        rows.append(
            {
                "version": version(),
                "date": f"{datetime.now(UTC):%Y-%m-%d}",
                "machine": machine.facts(),
                "seconds": seconds,
            }
        )
        RECORD.write_text(json.dumps(rows, indent=1) + "\n")
        command = "python -m benchmarks.time_to_quality --write"
        block = replace_block(PAGE.read_text(), "quality", command, rows_table(rows), str(PAGE))
        PAGE.write_text(block)


def seconds_to(goal: Goal, seed: int) -> float:
    """Return the seconds to a goal; LIMIT_SECONDS if it is not reached.

    Raises:
        SystemExit: The training fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        words = [f"SEED={seed}", f"STORAGE={folder}", "RUN=quality", *goal.settings]
        start = time.monotonic()
        with subprocess.Popen(
            [sys.executable, "-m", "qfleet", "train", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as job:
            try:
                found = _wait_for(goal, Path(folder, "quality", "metrics.jsonl"), job, start)
            finally:
                if job.poll() is None:
                    os.killpg(job.pid, signal.SIGINT)
                _, errors = job.communicate()
        if found is None and job.returncode not in (0, 130):
            raise SystemExit(f"{goal.title} ended with code {job.returncode}: {errors}")
    return LIMIT_SECONDS if found is None else found


def _wait_for(
    goal: Goal, metrics: Path, job: "subprocess.Popen[str]", start: float
) -> float | None:
    while time.monotonic() - start < LIMIT_SECONDS:
        is_over = job.poll() is not None
        if metrics.is_file():
            lines = metrics.read_text().splitlines(keepends=True)
            if any(goal.reached(json.loads(line)) for line in lines if line.endswith("\n")):
                return time.monotonic() - start
        if is_over:
            return None
        time.sleep(0.05)
    return None


def version() -> str:
    """Return the version, with a + between releases."""
    name = Path("VERSION").read_text().strip()
    tag = subprocess.run(
        ["git", "describe", "--exact-match", "--tags"], capture_output=True, text=True
    ).stdout.strip()
    return name if tag.removeprefix("v") == name else f"{name}+"


def rows_table(rows: list[dict]) -> str:
    """Return the Markdown table, the newest row first."""
    titles = [goal.title for goal in GOALS]
    lines = []
    for row in reversed(rows):
        cells = [cell(row["seconds"], title) for title in titles]
        place = f"{row['machine']['CPU']}, cores: {row['machine']['cores']}"
        lines.append([row["version"], row["date"], *cells, place])
    return table(["version", "date", *titles, "machine"], lines)


def cell(seconds: Mapping[str, float | None], title: str) -> str:
    """Return the text of a figure, which an older version may not have."""
    if title not in seconds:
        return "not measured"
    figure = seconds[title]
    return "not reached" if figure is None else f"{figure:.1f} s"


if __name__ == "__main__":
    main()
