"""One process answers all examples."""

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from common.settings import Settings
from inference import model_loading, summary
from inference.finalize import finalize
from inference.inference_input import InferenceInput
from inference.model_source import ModelSource
from inference.predictions import Predictions
from inference.predictor import Predictor
from inference.scoring import Scores
from qfleet.tensorflow.runtime import configure


def predict_in_process(settings: Settings, source: ModelSource, question: InferenceInput) -> None:
    """Model -> answers, block by block -> predictions, report."""
    configure(threads=settings.training.threads, seed=settings.data.seed)
    loaded = model_loading.load(source)
    console = Console(highlight=False, soft_wrap=True)
    summary.log_start(console, source, question)
    answering = Predictor(loaded, question.features, settings.training.batch)
    scores = Scores(answering.readouts, question.labelled, answering.circuits)
    show = sys.stdout.isatty() and question.total > answering.rows
    bar = Progress(
        TextColumn("answering"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        transient=True, disable=not show,
    )  # fmt: skip
    with Predictions(source.predictions, question, answering.readouts) as predictions:
        with bar:
            task = bar.add_task("", total=question.total)
            for rows, angles, labels in question.blocks():
                answers, readouts, seconds = answering.answer(
                    angles, rows, lambda count: bar.advance(task, count)
                )
                scores.seconds += seconds
                scores.add(answers, readouts, labels)
                predictions.add(rows, answers, readouts, labels)
        finalize(settings, source, question, loaded, scores, predictions, console)
