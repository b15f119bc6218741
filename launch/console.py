"""Output of the client: a progress bar and tables on a terminal, plain lines in a pipe.

The client's own lines and the events of a job's pods both go to the destination of this process's
events (common/events), so another program can read what the client prints.
"""

import sys
from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.table import Table
from rich.text import Text

from common import events
from common.count_bar import CountBar
from common.epoch_bar import EpochBar
from common.events import Event

UNPRINTED_KINDS = events.LOG_ONLY_KINDS | {"benchmark_ready", "measurement", "nodes", "exit"}
"""Kinds of events that are forwarded to a stream but not printed."""


class ClientConsole:
    """Prints lines, tables and a job's events.

    As a context, it ends its bar; the bar of epochs leaves a learning curve.
    """

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True, markup=False)
        self._bar: CountBar | None = None
        self._epochs: EpochBar | None = None
        self._chunks: set[int] = set()  # chunks of inference that were predicted meanwhile
        self._earlier_chunks: dict[int, int] = {}  # worker -> chunks that were predicted before

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None
        self._end_epochs()

    def print(self, text: str) -> None:
        """Print a line of the client's own."""
        if events.is_streaming():
            events.emit("log", text, level="INFO")
        else:
            self._console.print(Text(text))

    def show(self, event: Event) -> None:
        """Print an event of the job; epochs and chunks move a bar on a terminal."""
        if events.is_streaming():
            events.forward(event)
            return
        if event.kind == "chunks_assigned":
            self._count_earlier_chunks(event)
        elif event.kind == "chunk_done":
            self._chunks.add(event.integer("index"))
        if self._console.is_terminal and self._advance(event):
            return
        if event.kind in events.LAST_KINDS:
            self._end_epochs()
        if event.kind not in UNPRINTED_KINDS and (text := events.render(event)) is not None:
            self._console.print(Text(text))

    def _count_earlier_chunks(self, event: Event) -> None:
        """Count chunks that were predicted before, except those counted here already."""
        assigned = range(event.integer("first"), event.integer("last") + 1)
        counted = sum(index in assigned for index in self._chunks)
        self._earlier_chunks[event.integer("worker")] = max(0, event.integer("done") - counted)

    def _advance(self, event: Event) -> bool:
        """Move the bar; False if the event is not about progress."""
        if event.kind in ("epoch", "progress"):
            self._epochs = self._epochs or EpochBar(self._console)
            return self._epochs.move(event)
        if event.kind != "chunk_done":
            return False
        if self._bar is None:
            self._bar = CountBar("chunks", self._console)
            self._bar.start()
        rate = f"{event.number('rate'):,.0f} {event.text('unit')}"
        done = sum(self._earlier_chunks.values()) + len(self._chunks)
        self._bar.move(done, event.integer("total"), rate)
        return True

    def _end_epochs(self) -> None:
        if self._epochs:
            self._epochs.end()
            self._epochs = None

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print rows under heads."""
        if self._console.is_terminal:
            table = Table(*heads, box=None, pad_edge=False)
            for row in rows:
                table.add_row(*map(Text, row))
            self._console.print(table)
            return
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        for row in (heads, *rows):
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print("  ".join(cells).rstrip())
        sys.stdout.flush()
