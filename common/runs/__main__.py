"""`make runs`: list the runs of STORAGE, compare some (COMPARE=a,b), delete some (DELETE=a,b)."""

import sys

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from common import runs, storage
from common.errors import RunError, run_main
from common.settings import Settings
from common.storage import StoragePath

WIDE = 120
"""Columns of what is written to a file or a pipe."""

COLOUR = {"finished": "green", "training": "cyan", "unfinished": "yellow", "damaged": "red"}


def main() -> None:
    """Do what COMPARE, DELETE or neither of them asks for."""
    settings = Settings.from_args(sys.argv[1:])
    console = Console() if sys.stdout.isatty() else Console(width=WIDE)
    root = storage.path(settings.job.storage)
    if settings.runs.compare and settings.runs.delete:
        raise RunError("COMPARE and DELETE can't be done at once: set one of them")
    if settings.runs.delete:
        remove(console, root, _names(settings.runs.delete), sure=settings.runs.yes)
    elif settings.runs.compare:
        compare(console, root, _names(settings.runs.compare))
    else:
        show(console, root)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def show(console: Console, root: StoragePath) -> None:
    """Print a table of all runs."""
    found = runs.list_runs(root)
    if not found:
        console.print(f"No runs in {escape(str(root))} yet: `make training` makes one")
        return
    table = Table(
        title=f"Runs in {escape(str(root))}",
        title_justify="left",
        box=None,
        pad_edge=False,
        collapse_padding=True,
    )
    for title in ("run", "state", "model"):
        table.add_column(title, no_wrap=True)
    for title in ("qubits", "epochs", "test MSE", "accuracy"):
        table.add_column(title, no_wrap=True, justify="right")
    table.add_column("when (UTC)", no_wrap=True)
    for run in found:
        table.add_row(
            run.name,
            f"[{COLOUR[run.state]}]{run.state}[/]",
            escape(run.model or ""),
            _shown(run.qubits),
            _shown(run.epochs),
            _shown(run.mse),
            _shown(run.accuracy),
            run.when.replace("T", " ")[:16],
        )
    console.print(table)
    for run in found:
        if run.problem:
            console.print(escape(run.problem), style="red")


def compare(console: Console, root: StoragePath, names: list[str]) -> None:
    """Print what differs between runs."""
    found = runs.compare(root, names)
    table = Table(title="Settings that differ, and metrics", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("")
    for name in found.runs:
        table.add_column(name, justify="right")
    for setting, values in found.settings:
        table.add_row(escape(setting.upper()), *map(escape, values))
    table.add_section()
    for metric, numbers in found.metrics:
        if any(number is not None for number in numbers):
            table.add_row(metric, *map(_shown, numbers))
    console.print(table)


def remove(console: Console, root: StoragePath, names: list[str], *, sure: bool) -> None:
    """Delete runs, after asking on a terminal unless `sure`."""
    for name in names:
        runs.find(root, name)
    listed = ", ".join(names)
    if not sure:
        if not sys.stdin.isatty():
            raise RunError(f"DELETE={listed} needs YES=true where nobody can be asked")
        if input(f"Delete {listed} in {root} for good? [y/N] ").strip().lower() not in ("y", "yes"):
            console.print("Nothing was deleted")
            return
    runs.delete(root, names)
    console.print(f"Deleted {escape(listed)}")


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.4g}"


if __name__ == "__main__":
    sys.exit(run_main(main))
