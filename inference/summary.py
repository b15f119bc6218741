"""The console output of an inference: a table of scores, the files, the next commands."""

from pathlib import Path

from rich.console import Console, RenderableType
from rich.markup import escape as escape_markup
from rich.table import Table

from common import events
from common.commands import command
from common.data.description import describe_encoding
from common.data.target import PROBLEM_KINDS
from common.metrics import number, title
from common.settings.circuit_file import short_model
from common.storage import StoragePath
from common.text import plural, printable
from inference.inference_input import InferenceInput
from inference.model_source import ModelSource
from inference.results import InferenceResults
from inference.scoring import ClassScores

MAX_CLASSES = 12
"""Most classes whose confusion matrix fits into a terminal."""


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
    if scores.metrics:
        _print(_score_table(results))
    if results.column_baselines is not None and results.inputs.data is not None:
        columns = results.column_baselines
        _print(
            escape(
                ". ".join(
                    filter(None, [describe_encoding(results.inputs.data.encoding), columns.hint])
                )
            )
        )
    if isinstance(scores, ClassScores):
        _print(
            _confusion_table(results, scores) if scores.labelled else _count_table(results, scores)
        )
    for one in results.return_probabilities:
        _print(
            f"{escape(one.circuit)}: fidelity {one.fidelity:.3f}, by a return to |0...0> of"
            f" {one.returned:.3f} after circuit and reverse; mean error of readouts"
            f" {one.noisy_error:.2g}, with ZNE {one.mitigated_error:.2g}"
        )
    for measured in results.gradients:
        if measured.warning:
            _print(escape(measured.warning), style="yellow")
    _print(f"{plural(scores.total, 'example')} in {scores.seconds:.2g} s: {scores.rate}")
    _print(f"predictions  {escape(str(predictions))}")
    _print(f"report       {escape(str(report))}")
    metrics = {"examples_per_second": scores.total / max(scores.seconds, 1e-9)}
    metrics |= scores.metrics
    if scores.unmitigated is not None:
        metrics |= {f"unmitigated_{name}": v for name, v in scores.unmitigated.metrics.items()}
        metrics["circuit_fidelity"] = min(one.fidelity for one in results.return_probabilities)
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
    names, scores = list(results.scores.metrics), results.scores
    for heading in ("", *map(title, names)):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    model = escape(short_model(str(results.source.settings.get("model"))))
    table.add_row(model, *(number(name, scores.metrics[name]) for name in names), style="bold")
    if (plain := results.scores.unmitigated) is not None:
        table.add_row("without ZNE", *(number(name, plain.metrics[name]) for name in names))
    columns = results.column_baselines
    compared = [(baseline.name, baseline) for baseline in results.baselines]
    compared += [(f"{one.name}, own columns", one) for one in (columns.found if columns else [])]
    for heading, baseline in compared:
        known = baseline.metrics
        cells = [number(name, known[name]) if name in known else "–" for name in names]
        table.add_row(heading, *cells)
    if not results.baselines and results.inputs.target.task in ("classification", "regression"):
        table.caption = escape(f"no baselines: {results.missing_baselines_reason}")
    return table


def _confusion_table(results: InferenceResults, scores: ClassScores) -> Table:
    counts, classes = scores.counts, [escape(name) for name in results.inputs.target.classes]
    table = _table()
    table.add_column("")
    shown = len(classes) <= MAX_CLASSES
    for name in classes if shown else []:
        table.add_column(f"predicted {name}" if len(classes) == 2 else name, justify="right")
    for heading in ("precision", "recall"):
        table.add_column(heading, justify="right")
    rates = scores.precision_and_recall
    for i, name in enumerate(classes):
        cells = [f"{count:,}" for count in counts[i]] if shown else []
        cells += ["–" if rate is None else f"{rate:.3f}" for rate in rates[i]]
        table.add_row(f"label {name}", *cells)
    return table


def _count_table(results: InferenceResults, scores: ClassScores) -> Table:
    table = _table()
    table.add_column("")
    table.add_column("examples", justify="right")
    for count, name in zip(scores.predicted_counts, results.inputs.target.classes, strict=True):
        table.add_row(f"predicted {escape(name)}", f"{count:,}")
    return table


def _next_commands(results: InferenceResults, report: StoragePath) -> list[str]:
    """Return the commands that the user may run next."""
    run = results.source.run
    commands = [] if isinstance(report, Path) else [f"gcloud storage cp {report} ."]
    if not commands and run:
        commands = [f"{command('report')} {run.arguments}"]
    if run and results.inputs.target.kind in PROBLEM_KINDS:
        return commands
    if run and results.inputs.is_test_split:
        commands.append(f"{command('infer')} {run.arguments} INPUT=table.csv")
    elif run:
        commands.append(f"{command('infer')} {run.arguments}")
    return commands
