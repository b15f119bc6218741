"""The progress of a search: a bar on a terminal, or a line from time to time."""

import time
from typing import Self

from rich.console import Console

from common import events
from common.count_bar import CountBar
from common.text import plural
from common.waiting import silence_seconds
from studies.search.stages import SeedSearch


class SearchDisplay:
    """Shows how much of its budget a seed has used, and the best circuit so far. A context."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._has_bar = self._console.is_terminal and not events.is_streaming()
        self._bars: dict[str, CountBar] = {}
        self._shown = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for bar in self._bars.values():
            bar.stop()

    def show(self, search: SeedSearch) -> None:
        """Show a seed after a generation."""
        budget = search.definition.budget
        results = search.results
        best = search.best
        text = (
            f"seed {search.seed}: {plural(len(results), 'circuit')}, error {best.error:.1e} with"
            f" {plural(best.two_qubit_gates, 'CNOT')}"
        )
        if self._has_bar:
            unit, done, total = "seconds", search.seconds, budget.seconds
            if total is None:
                unit, done, total = "evaluations", search.evaluations, budget.evaluations
            if unit not in self._bars:
                self._bars[unit] = CountBar(unit, self._console)
                self._bars[unit].start()
            self._bars[unit].move(round(done), round(total or 0), text)
        elif time.monotonic() - self._shown > silence_seconds():
            self._shown = time.monotonic()
            events.emit("log", f"S{text[1:]}", level="INFO")

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
