"""`make dataset`: generate the data set of the settings, for later trainings."""

import sys
import time

from rich.console import Console

from common import storage
from common.commands import command
from common.count_bar import CountBar
from common.data.dataset import MIB
from common.data.loading import prepare
from common.errors import run_main
from common.settings import Settings
from common.text import plural

PROGRESS_INTERVAL_SECONDS = 10.0
"""Time between two lines of progress without a terminal."""

DEFAULT_QUBITS = Settings.fields()["qubits"].default


class ProgressDisplay:
    """Progress: a bar on a terminal, otherwise a line from time to time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_line = time.monotonic()
        self._bar = CountBar("examples written", console, enabled=console.is_terminal)

    def __enter__(self) -> "ProgressDisplay":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Report the examples in storage, and all examples."""
        self._bar.move(done, total)
        if (
            not self._console.is_terminal
            and time.monotonic() - self._last_line > PROGRESS_INTERVAL_SECONDS
        ):
            self._last_line = time.monotonic()
            self._console.print(f"{done:,} of {total:,} examples written")


def main() -> None:
    """Find or generate the data set, and print its location and the next command."""
    settings = Settings.from_args(sys.argv[1:], "data")
    console = Console(highlight=False, soft_wrap=True)
    with ProgressDisplay(console) as progress:
        # DATA_MEMORY limits trainings, and the table that is read.
        unlimited = settings.replace(data_memory=1_000_000)
        root = storage.path(settings.job.storage) / storage.DATASETS
        found = prepare(unlimited, root, progress, table_memory=settings.data.data_memory)
    rows = ", ".join(f"{found.rows(split):,} for {split}" for split in found.splits)
    shards = [shard for split in found.splits for shard in found.shards(split)]
    size = sum(shard.bytes for shard in shards) / MIB
    memory = sum(map(found.size, found.splits)) / MIB
    console.print(f"data set {found.name}: {rows}", markup=False)
    console.print(
        f"{plural(len(shards), 'shard')} of {size:.1f} MiB in total, {memory:.1f} MiB in memory:"
        " workers with less DATA_MEMORY stream the shards",
        markup=False,
    )
    qubits = f" QUBITS={settings.model.qubits}" if settings.model.qubits != DEFAULT_QUBITS else ""
    console.print(f"Next steps:\n  {command('train')} DATA={found.path}{qubits}", markup=False)


if __name__ == "__main__":
    sys.exit(run_main(main))
