"""A progress bar of things that are counted: examples, chunks."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column


class CountBar:
    """A bar with done, all, the time left and a rate. As a context, it leaves nothing.

    Args:
        unit: What is counted, in the plural.
        console: Where the bar is printed.
        enabled: False to print nothing.
    """

    def __init__(self, unit: str, console: Console, *, enabled: bool = True) -> None:
        self._bar = Progress(
            TextColumn(
                f"{unit} {{task.completed:,.0f}}/{{task.fields[all]}}",
                table_column=Column(no_wrap=True),
            ),
            BarColumn(bar_width=12),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[rate]}", table_column=Column(no_wrap=True, ratio=1)),
            expand=True,
            console=console,
            transient=True,
            disable=not enabled,
        )
        self._task = self._bar.add_task("", total=None, rate="", all="?")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Show the bar."""
        self._bar.start()

    def stop(self) -> None:
        """Remove the bar."""
        self._bar.stop()

    def advance(self, count: int = 1, rate: str = "") -> None:
        """Add things that are done; see `move`."""
        self._bar.update(self._task, advance=count, rate=rate)

    def move(self, done: int, total: int, rate: str = "") -> None:
        """Show another state.

        Args:
            done: Things that are done.
            total: All things.
            rate: Text at the end of the bar.
        """
        self._bar.update(self._task, completed=done, total=total, all=f"{total:,}", rate=rate)
