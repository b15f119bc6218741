"""What inference prints: a short table, where the files went, what to say next."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from common.storage import StoragePath
from inference.inference_input import InferenceInput
from inference.model_source import ModelSource
from inference.results import InferenceResults


def log_start(console: Console, source: ModelSource, question: InferenceInput) -> None:
    """Say what begins, which may take long."""
    examples = f"{question.total:,} examples"
    console.print(f"[bold]{escape(source.title)}[/] answers {examples}: {escape(question.title)}")


def log_results(
    console: Console, found: InferenceResults, predictions: StoragePath, report: StoragePath
) -> None:
    """Print the findings."""
    scores = found.scores
    for note in found.notes:
        console.print(escape(note), style="yellow")
    if scores.labelled:
        console.print(_scores(found))
        console.print(_confusion(found))
    else:
        console.print(_counts(found))
    for measured in found.slopes:
        if measured.warning:
            console.print(escape(measured.warning), style="yellow")
    console.print(f"{scores.total:,} examples in {scores.seconds:.2g} s: {scores.rate}")
    console.print(f"predictions  {escape(str(predictions))}")
    console.print(f"report       {escape(str(report))}")
    console.print(f"next:  {escape(_next(found, report))}")


def _scores(found: InferenceResults) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("", "MSE", "accuracy"):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    ours, scores = str(found.source.settings.get("model")), found.scores
    table.add_row(escape(ours), f"{scores.mse:.4f}", f"{scores.accuracy:.4f}", style="bold")
    for other in found.baselines:
        mse = "–" if other.mse is None else f"{other.mse:.4f}"
        table.add_row(other.name, mse, f"{other.accuracy:.4f}")
    if not found.baselines:
        reason = found.question.missing or "the training split holds one class alone"
        table.caption = f"no baselines: {reason}"
    return table


def _confusion(found: InferenceResults) -> Table:
    counts, classes = found.scores.confusion, [escape(name) for name in found.question.classes]
    assert counts is not None
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("")
    for name in classes:
        table.add_column(f"answered {name}", justify="right")
    for i, name in enumerate(classes):
        table.add_row(f"label {name}", *(f"{count:,}" for count in counts[i]))
    return table


def _counts(found: InferenceResults) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("")
    table.add_column("examples", justify="right")
    for count, name in zip(found.scores.predicted, found.question.classes, strict=True):
        table.add_row(f"answered {escape(name)}", f"{count:,}")
    return table


def _next(found: InferenceResults, report: StoragePath) -> str:
    """The next command: a browser, new examples, or the training curves."""
    said = [f"open {report}" if isinstance(report, Path) else f"gcloud storage cp {report} ."]
    run = found.source.run
    if run and found.question.is_test_split:
        said.append(f"make inference {run.arguments} INPUT=table.csv")
    elif run:
        said.append(f"make inference {run.arguments}")
    return "\n       ".join(said)
