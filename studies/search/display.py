"""The progress of a search: a live table on a terminal, or a line from time to time."""

import time
from typing import Self

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from common import events
from common.text import plural
from common.waiting import silence_seconds
from qfleet.search import pareto_front
from studies.search.stages import SeedSearch, rounded

UPDATE_SECONDS = 0.5
MAX_ROWS = 12


class SearchDisplay:
    """Shows the front of the seed that runs and how much of its budget it has used. A context.

    Args:
        console: Where it is shown; the terminal of this process unless given.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._is_live = self._console.is_terminal and not events.is_streaming()
        self._live = Live(console=self._console, transient=True, auto_refresh=False)
        self._shown = time.monotonic()

    def __enter__(self) -> Self:
        if self._is_live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, search: SeedSearch) -> None:
        """Show a seed after a generation."""
        pause = UPDATE_SECONDS if self._is_live else silence_seconds()
        if time.monotonic() - self._shown <= pause:
            return
        self._shown = time.monotonic()
        if self._is_live:
            self._live.update(_progress(search), refresh=True)
            return
        best = search.best
        text = (
            f"Seed {search.seed}: {plural(len(search.results), 'circuit')}, error {best.error:.1e}"
            f" with {plural(best.two_qubit_gates, 'CNOT')}"
        )
        events.emit("log", text, level="INFO")

    def end(self, search: SeedSearch) -> None:
        """Print what a seed has found."""
        results = search.results
        best = search.best
        text = (
            f"Seed {search.seed}: {plural(len(results), 'circuit')} in {search.seconds:,.0f} s and"
            f" {search.evaluations:,} evaluations; lowest error {best.error:.2e} with"
            f" {plural(best.two_qubit_gates, 'CNOT')}"
        )
        self._shown = time.monotonic()
        events.emit("log", text, level="INFO")


def _progress(search: SeedSearch) -> Group:
    """Return what a seed has used, and its front so far, the smallest errors first."""
    budget, results = search.definition.budget, search.results
    used = f"{search.evaluations:,} evaluations"
    if budget.seconds is not None:
        used = f"{search.seconds:,.0f} of {budget.seconds:,.0f} s, {used}"
    elif budget.evaluations is not None:
        used = f"{search.evaluations:,} of {budget.evaluations:,} evaluations"
    title = f"Seed {search.seed}: {plural(len(results), 'circuit')}, {used}"
    table = Table(box=SIMPLE_HEAD)
    for name in ("error", "CNOTs", "depth"):
        table.add_column(name, justify="right")
    front = pareto_front([(rounded(one.error), one.two_qubit_gates) for one in results])
    best = sorted((results[at] for at in front), key=lambda one: one.error)
    for one in best[:MAX_ROWS]:
        table.add_row(f"{one.error:.2e}", str(one.two_qubit_gates), str(one.depth))
    return Group(Text(title, no_wrap=True), table)
