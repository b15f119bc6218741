"""`make runs`: list the runs of STORAGE, or the trials of STUDY.

SHOW=a prints one, COMPARE=a,b compares some, also as a PAGE, EXPORT=a,b writes some to a folder of
MLflow, DELETE=a,b or DELETE=failed deletes some, and PROMOTE=a AS=production names one.
"""

import shlex
import sys
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from common import runs, storage
from common.commands import command
from common.epoch_bar import curve, losses
from common.errors import RunError, run_main
from common.metrics import line
from common.runs.mlflow_store import VIEW_COMMAND, MlflowStore
from common.runs.run import Run
from common.settings import Settings
from common.settings.options import RunsOptions
from common.storage import StoragePath
from common.text import printable
from common.waiting import Waiting

PIPE_WIDTH = 120
"""Columns of output to a file or a pipe."""

COLORS = {
    "finished": "green",
    "training": "cyan",
    "unfinished": "yellow",
    "failed": "red",
    "damaged": "red",
}


def main() -> None:
    """Show, compare, export, promote or delete runs, or list them all."""
    settings, options = Settings.with_options(sys.argv[1:], "runs", RunsOptions)
    console = Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)
    root = storage.path(settings.job.storage)
    if options.delete:
        remove(console, root, _names(options.delete), confirmed=options.yes)
    elif options.show:
        show(console, runs.find(root, options.show))
    elif options.promote:
        run = runs.find(root, options.promote)
        runs.promote(run, options.alias)
        console.print(f"{options.alias} is now run {run.name}")
    elif options.compare:
        compare(console, root, _names(options.compare), options.page)
    elif options.export:
        export(console, root, _names(options.export), options.store)
    else:
        print_runs(console, root, settings.job.study)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def print_runs(console: Console, root: StoragePath, study: str = "") -> None:
    """Print a table of all runs, or of the trials of a study."""
    found = runs.list_runs(root, study)
    if study and not found:
        raise RunError(
            f"there is no study {study} with trials in {root}: start it with `{command('study')}"
            f" NAME={study}`"
        )
    if not found:
        console.print(f"No runs in {escape(str(root))} yet: create one with `{command('train')}`")
        return
    table = Table(
        title=f"Runs in {escape(str(root))}",
        title_justify="left",
        box=None,
        pad_edge=False,
        collapse_padding=True,
    )
    for title in ("run", "state", "task", "model"):
        table.add_column(title, no_wrap=True)
    for title in ("qubits", "epochs"):
        table.add_column(title, no_wrap=True, justify="right")
    table.add_column("test")
    table.add_column("when (UTC)", no_wrap=True)
    for run in found:
        table.add_row(
            run.name,
            f"[{COLORS[run.state]}]{run.state}[/]",
            _shown(run.task or ""),
            _shown(run.model or ""),
            _text(run.qubits),
            _text(run.epochs),
            _shown(line(run.metrics)),
            _shown(run.when.replace("T", " ")[:16]),
        )
    console.print(table)
    for alias, target in runs.aliases(root).items():
        console.print(f"{escape(alias)} = {escape(target.name)}")
    if any(run.state == runs.FAILED for run in found):
        console.print(
            f"A failed run has no checkpoint to resume from: `{command('runs')} DELETE=failed`"
            " deletes all"
        )
    for run in found:
        if run.problem:
            console.print(_shown(run.problem), style="red")


def show(console: Console, run: Run) -> None:
    """Print where a run is, the settings that it was created with, and its result."""
    record = run.record()
    result = run.result() if run.finished() else {}
    console.print(f"{escape(run.name)} in {escape(str(run.path))}", soft_wrap=True)
    table = Table(box=SIMPLE_HEAD)
    table.add_column("setting")
    table.add_column("value")
    for name, value in {**record["settings"], **record["other"]}.items():
        if value is not None and value != "":
            table.add_row(_shown(name.upper()), _shown(str(value)))
    table.add_section()
    for split, metrics in result.get("metrics", {}).items():
        table.add_row(_shown(split), _shown(line(metrics)))
    if result:
        table.add_row("epochs", _text(result["epochs"]))
    console.print(table)
    print_curves(console, [run])
    if not result:
        console.print(f"It is not finished: `{command('train')} {run.arguments}` continues it")


def compare(console: Console, root: StoragePath, names: list[str], page: str = "") -> None:
    """Print the differences between runs, and write them to a page if its path is given."""
    found = runs.compare(root, names)
    table = Table(title="Settings that differ, and metrics", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("")
    for name in found.runs:
        table.add_column(name, justify="right")
    for setting, values in found.settings:
        table.add_row(_shown(setting.upper()), *map(_shown, values))
    table.add_section()
    for metric, numbers in found.metrics:
        if any(number is not None for number in numbers):
            table.add_row(_shown(metric), *map(_text, numbers))
    console.print(table)
    chosen = [runs.find(root, name) for name in found.runs]
    print_curves(console, chosen)
    if page:
        from cli import comparison_page  # matplotlib takes a second to import

        storage.write_atomic(
            storage.path(page), comparison_page.render(found, learning_curves(chosen), root)
        )
        console.print(f"Page: {escape(page)}", soft_wrap=True)


def export(console: Console, root: StoragePath, names: list[str], folder: str) -> None:
    """Write runs to a folder of MLflow."""
    chosen = [runs.find(root, name) for name in dict.fromkeys(names)]
    with Waiting("the import of MLflow"):
        store = MlflowStore(storage.path(folder))
    for run in chosen:
        action = "Updated" if store.write(run) else "Exported"
        console.print(f"{action} {escape(run.name)}", soft_wrap=True)
    shown = f"{VIEW_COMMAND} --backend-store-uri {shlex.quote(folder)}"
    console.print(f"MLflow shows the runs: {escape(shown)}", soft_wrap=True)


def learning_curves(chosen: Sequence[Run]) -> dict[str, dict[str, list[float]]]:
    """Return the losses of runs by epoch: loss -> run -> values.

    The losses are those of the first run that has an epoch; runs without them are left out.
    """
    rows = {run.name: run.metrics() for run in chosen}
    last = next((found[-1] for found in rows.values() if found), {})
    curves = {}
    for loss in losses({name: value for name, value in last.items() if name != "epoch"}):
        values = {
            name: [float(row[loss]) for row in found if row.get(loss) is not None]
            for name, found in rows.items()
        }
        if shown := {name: one for name, one in values.items() if one}:
            curves[loss] = shown
    return curves


def print_curves(console: Console, chosen: Sequence[Run]) -> None:
    """Print the losses of runs by epoch, each loss on one scale for all runs."""
    for loss, shown in learning_curves(chosen).items():
        ends = [extreme(one) for one in shown.values() for extreme in (min, max)]
        console.print(f"{_shown(loss)} by epoch, from {min(ends):.4g} to {max(ends):.4g}")
        width = max(map(len, shown))
        for name, one in shown.items():
            drawn = curve(one, bounds=ends, ascii_only=console.options.ascii_only)
            console.print(f"  {escape(name):<{width}} {drawn} {one[-1]:.4g}", soft_wrap=True)


def remove(console: Console, root: StoragePath, names: list[str], *, confirmed: bool) -> None:
    """Delete runs, after a question on the terminal unless `confirmed`; see `runs.expand`."""
    names = runs.expand(root, names)
    for name in names:
        runs.find(root, name)
    if not names:
        console.print(f"{escape(str(root))} has no failed runs")
        return
    listed = ", ".join(names)
    if not confirmed:
        if not sys.stdin.isatty():
            raise RunError(
                f"DELETE={listed} needs YES=true, since there is no terminal for the question"
            )
        if input(f"Permanently delete {listed} in {root}? [y/N] ").strip().lower() not in (
            "y",
            "yes",
        ):
            console.print("Nothing was deleted")
            return
    runs.delete(root, names)
    console.print(f"Deleted {escape(listed)}")


def _shown(recorded: str) -> str:
    """Return recorded text for a terminal, which must not obey it."""
    return escape(printable(recorded))


def _text(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.4g}"


if __name__ == "__main__":
    sys.exit(run_main(main))
