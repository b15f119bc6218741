"""The page of `qfleet runs compare`: one self-contained file, in the style of a run's report."""

from collections.abc import Mapping
from pathlib import Path

from common.metrics import is_higher_better, number, title
from common.runs import RunComparison
from common.storage import StoragePath
from inference.html_text import page
from studies.plots import learning_curves

TEMPLATE = Path(__file__).with_name("comparison.html")
MAX_CARDS = 3
"""Most metrics with a card of their own."""

Curves = Mapping[str, Mapping[str, list[float]]]
"""Loss -> run -> values by epoch."""


def render(comparison: RunComparison, curves: Curves, root: StoragePath) -> str:
    """Return the page.

    Args:
        comparison: Settings that differ, and metrics.
        curves: The learning curves.
        root: STORAGE.
    """
    drawn = {name for values in curves.values() for name in values}
    return page(
        TEMPLATE,
        heading="Comparison of runs",
        lead=f"{', '.join(comparison.runs)} in {root}",
        warnings=[],
        cards=[("runs", str(len(comparison.runs)), ""), *_best(comparison)],
        footer=f"Created by qfleet from {root}",
        runs=comparison.runs,
        differing=[[name.upper(), *values] for name, values in comparison.settings],
        results=[
            [name, *(_text(name, value) for value in values)]
            for name, values in comparison.metrics
            if any(value is not None for value in values)
        ],
        plots=[
            learning_curves(
                {name: [one] for name, one in values.items()},
                loss.removeprefix("val_"),
                "validation" if loss.startswith("val_") else "training",
            )
            for loss, values in curves.items()
        ],
        left_out=[name for name in comparison.runs if name not in drawn] if drawn else [],
    )


def _best(comparison: RunComparison) -> list[tuple[str, str, str]]:
    """Return the best value of each test metric, and the run that has it."""
    cards = []
    for name, values in comparison.metrics:
        split, _, metric = name.partition(" ")
        known = [
            (value, run)
            for value, run in zip(values, comparison.runs, strict=True)
            if value is not None
        ]
        if split == "test" and known:
            choose = max if is_higher_better(metric) else min
            value, run = choose(known, key=lambda one: one[0])
            cards.append((f"best test {title(metric)}", number(metric, value), run))
    return cards[:MAX_CARDS]


def _text(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    if name in ("epochs", "seconds"):
        return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"
    return number(name.partition(" ")[2], value)
