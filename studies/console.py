"""The results of a study on the terminal."""

import math
import sys
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from common.metrics import number
from studies.folder import StudyFolder
from studies.tables import StudyTables

PIPE_WIDTH = 120
"""Columns of output to a file or a pipe."""

MAX_ROWS = 40


def print_results(tables: StudyTables, folder: StudyFolder) -> None:
    """Print the mean of each combination, the differences, and where the files are."""
    console = Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)
    if len(tables.summary):
        console.print(_summary(tables))
    if len(tables.differences):
        console.print(_differences(tables))
    console.print(
        f"Tables, report.html and logs/ for TensorBoard: {folder.path}",
        soft_wrap=True,
        markup=False,
    )


def _summary(tables: StudyTables) -> Table:
    table = Table(
        title="Means with 95 % intervals over seeds of finished trials",
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    frame = tables.summary
    settings = list(frame.columns[: list(frame.columns).index("trials")])
    metrics = [name.removesuffix(" mean") for name in frame.columns if name.endswith(" mean")]
    metrics = [name for name in metrics if name.startswith("test ")]
    counts = [name for name in ("trials", "pruned") if name in frame.columns]
    for name in (*(one.upper() for one in settings), *counts, *metrics):
        table.add_column(name, justify="right")
    for index, row in enumerate(frame.head(MAX_ROWS).to_dict("records")):
        cells = [str(row[name]) for name in (*settings, *counts)]
        cells += [metric_cell(row, name) for name in metrics]
        table.add_row(*cells, style="bold" if index == tables.best else None)
    return table


def _differences(tables: StudyTables) -> Table:
    title = f"Paired differences of test {tables.metric} over equal seeds"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for name in ("from", "to"):
        table.add_column(name)
    for name in ("seeds", "difference"):
        table.add_column(name, justify="right")
    for row in tables.differences.head(MAX_ROWS).to_dict("records"):
        shown = interval(
            tables.metric, *(float(row[name]) for name in ("difference", "low", "high"))
        )
        table.add_row(str(row["from"]), str(row["to"]), str(row["seeds"]), shown)
    return table


def interval(metric: str, mean: float, low: float, high: float) -> str:
    """Return a mean with its interval as text; empty without a mean."""
    if math.isnan(mean):
        return ""
    if math.isnan(low):
        return number(metric, mean)
    return f"{number(metric, mean)} ({number(metric, low)} to {number(metric, high)})"


def metric_cell(row: Any, name: str) -> str:
    """Return the mean of a metric in a row of the summary.

    Args:
        row: The row.
        name: Split and name, such as `test mse`.
    """
    values = (float(row[f"{name} {part}"]) for part in ("mean", "low", "high"))
    return interval(name.partition(" ")[2], *values)
