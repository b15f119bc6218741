"""`make dataset`: write the data set that the settings name, for trainings to read."""

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from common import storage
from common.data.dataset import MIB, prepare
from common.errors import run_main
from common.settings import Settings

# Seconds between two lines where there is no terminal.
LINES = 10.0


class ProgressDisplay:
    """How far it is: a bar on a terminal, now and then a line elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said = time.monotonic()
        self._bar = Progress(
            TextColumn("writing examples"), BarColumn(), MofNCompleteColumn(),
            TimeRemainingColumn(), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> "ProgressDisplay":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """So many examples of so many are in storage."""
        self._bar.update(self._task, completed=done, total=total)
        if not self._console.is_terminal and time.monotonic() - self._said > LINES:
            self._said = time.monotonic()
            self._console.print(f"{done:,} of {total:,} examples are written")


def main() -> None:
    """Find the data set or make it, and say where it is and what comes next."""
    settings = Settings.from_args(sys.argv[1:])
    console = Console(highlight=False, soft_wrap=True)
    with ProgressDisplay(console) as shown:
        # What a training of these settings could read is not asked here.
        asked = settings.replace(data_memory=1_000_000)
        found = prepare(asked, storage.path(settings.job.storage) / storage.DATASETS, shown)
    rows = ", ".join(f"{found.rows(split):,} for {split}" for split in found.splits)
    shards = [shard for split in found.splits for shard in found.shards(split)]
    size = sum(shard.bytes for shard in shards) / MIB
    held = sum(map(found.size, found.splits)) / MIB
    console.print(f"data set {found.name}: {rows}", markup=False)
    console.print(
        f"{len(shards)} shards of {size:.1f} MiB, {held:.1f} MiB in memory: a worker whose"
        " DATA_MEMORY is less reads a part at a time",
        markup=False,
    )
    qubits = f" QUBITS={settings.model.qubits}" if settings.model.qubits != 8 else ""
    console.print(f"next:  make training DATA={found.path}{qubits}", markup=False)


if __name__ == "__main__":
    sys.exit(run_main(main))
