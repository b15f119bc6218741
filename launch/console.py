"""What a person sees: on a terminal a bar and tables, in a pipe plain lines."""

import re
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

EPOCH = re.compile(r"epoch (\d+)/(\d+)  (.*)")
"""The chief's line after an epoch: which, of how many, the numbers."""

PIECE = re.compile(r"worker \d+: piece (\d+)/(\d+)  (.*)")
"""A worker's line after a piece of inference: likewise."""

BEFORE = re.compile(r"worker \d+: pieces (\d+)-(\d+) of \d+, (\d+) of them answered before")


class ClientConsole:
    """A context: leaving it takes the bar away."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True, markup=False)
        self._bar: Progress | None = None
        self._pieces: set[str] = set()  # answered while this was looked at
        self._before = 0  # and before

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None

    def say(self, text: str) -> None:
        """A line of the client's own."""
        self._console.print(Text(text))

    def relay(self, line: str) -> None:
        """A line of the job's; what it says of epochs, or pieces, moves a bar on a terminal."""
        epoch, piece, before = (one.fullmatch(line) for one in (EPOCH, PIECE, BEFORE))
        if before:  # of a worker that has started again they have been counted
            first, last, there = map(int, before.groups())
            self._before += max(0, there - sum(first <= int(n) <= last for n in self._pieces))
        if not self._console.is_terminal or not (epoch or piece):
            self.say(line)
        elif epoch:
            done, total, numbers = epoch.groups()
            self._show("epoch", int(done), int(total), numbers)
        elif piece:
            number, total, numbers = piece.groups()
            self._pieces.add(number)
            self._show("piece", self._before + len(self._pieces), int(total), numbers)

    def _show(self, unit: str, done: int, total: int, numbers: str) -> None:
        if self._bar is None:
            self._bar = Progress(
                TextColumn(
                    f"{unit} {{task.completed}}/{{task.total}}", table_column=Column(no_wrap=True)
                ),
                BarColumn(bar_width=12),
                TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
                TextColumn("{task.fields[numbers]}", table_column=Column(no_wrap=True, ratio=1)),
                expand=True,
                console=self._console,
                transient=True,
            )
            self._task = self._bar.add_task("", numbers="")
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total, numbers=numbers)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Rows under heads."""
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
