"""The console output of an inference: a table of scores, the files, the next commands."""

from pathlib import Path

from rich.console import Console, RenderableType
from rich.markup import escape as escape_markup
from rich.table import Table

from common import events
from common.storage import StoragePath
from common.text import plural, printable
from inference.inference_input import InferenceInput
from inference.model_source import ModelSource
from inference.results import InferenceResults


def escape(recorded: str) -> str:
    """Return recorded text for a terminal, which must not obey it."""
    return escape_markup(printable(recorded))


def log_start(source: ModelSource, inputs: InferenceInput) -> None:
    """Print the model and the examples before the computation, which may take long."""
    count = plural(inputs.total, "example")
    _print(f"Predicting {count} ({escape(inputs.title)}) with [bold]{escape(source.title)}[/]")


def log_results(results: InferenceResults, predictions: StoragePath, report: StoragePath) -> None:
    """Print the results.

    Args:
        results: The results.
        predictions: Path of the predictions.
        report: Path of the report.
    """
    scores, source = results.scores, results.source
    for note in results.notes:
        _print(escape(note), style="yellow")
    if scores.labelled:
        _print(_score_table(results))
        _print(_confusion_table(results))
    else:
        _print(_count_table(results))
    for measured in results.gradients:
        if measured.warning:
            _print(escape(measured.warning), style="yellow")
    _print(f"{plural(scores.total, 'example')} in {scores.seconds:.2g} s: {scores.rate}")
    _print(f"predictions  {escape(str(predictions))}")
    _print(f"report       {escape(str(report))}")
    metrics = {"examples_per_second": scores.total / max(scores.seconds, 1e-9)}
    if scores.mse is not None and scores.accuracy is not None:
        metrics |= {"mse": scores.mse, "accuracy": scores.accuracy}
    events.emit(
        "run_finished",
        run=source.name,
        storage=str(source.predictions),
        metrics=metrics,
        seconds=scores.seconds,
        commands=_next_commands(results, report),
    )


def _print(content: RenderableType, style: str | None = None) -> None:
    """Print to the console, or emit a log event if the events of this process are streamed."""
    console = Console(highlight=False, soft_wrap=True)
    if not events.is_streaming():
        console.print(content, style=style)
        return
    with console.capture() as captured:
        console.print(content, style=style)
    events.emit("log", captured.get().rstrip("\n"), level="INFO")


def _table() -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))


def _score_table(results: InferenceResults) -> Table:
    table = _table()
    for title in ("", "MSE", "accuracy"):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    name, scores = str(results.source.settings.get("model")), results.scores
    table.add_row(escape(name), f"{scores.mse:.4f}", f"{scores.accuracy:.4f}", style="bold")
    for baseline in results.baselines:
        mse = "–" if baseline.mse is None else f"{baseline.mse:.4f}"
        table.add_row(baseline.name, mse, f"{baseline.accuracy:.4f}")
    if not results.baselines:
        table.caption = f"no baselines: {results.missing_baselines_reason}"
    return table


def _confusion_table(results: InferenceResults) -> Table:
    counts, classes = results.scores.confusion, [escape(name) for name in results.inputs.classes]
    assert counts is not None
    table = _table()
    table.add_column("")
    for name in classes:
        table.add_column(f"predicted {name}", justify="right")
    for i, name in enumerate(classes):
        table.add_row(f"label {name}", *(f"{count:,}" for count in counts[i]))
    return table


def _count_table(results: InferenceResults) -> Table:
    table = _table()
    table.add_column("")
    table.add_column("examples", justify="right")
    counts = results.scores.predicted_counts
    for count, name in zip(counts, results.inputs.classes, strict=True):
        table.add_row(f"predicted {escape(name)}", f"{count:,}")
    return table


def _next_commands(results: InferenceResults, report: StoragePath) -> list[str]:
    """Return the commands that the user may run next."""
    local = isinstance(report, Path)
    commands = [f"open {report}" if local else f"gcloud storage cp {report} ."]
    run = results.source.run
    if run and results.inputs.is_test_split:
        commands.append(f"make inference {run.arguments} INPUT=table.csv")
    elif run:
        commands.append(f"make inference {run.arguments}")
    return commands
