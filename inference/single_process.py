"""Inference in this process."""

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from common.settings import Settings
from inference import model_loading, summary
from inference.finalize import finalize
from inference.inference_input import InferenceInput
from inference.model_source import ModelSource
from inference.prediction_table import PredictionTable
from inference.predictor import Predictor
from inference.scoring import Scores
from qfleet.tensorflow.runtime import configure


def predict_in_process(settings: Settings, source: ModelSource, inputs: InferenceInput) -> None:
    """Compute all predictions block by block; write the predictions and the report.

    Args:
        settings: BATCH, THREADS and SEED are used.
        source: The model.
        inputs: The examples.
    """
    configure(threads=settings.training.threads, seed=settings.data.seed)
    model = model_loading.load(source)
    summary.log_start(source, inputs)
    predictor = Predictor(model, inputs.features, settings.training.batch)
    scores = Scores(predictor.readouts, inputs.labelled, predictor.circuits)
    show_progress = sys.stdout.isatty() and inputs.total > predictor.batch_rows
    progress = Progress(
        TextColumn("examples"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=Console(highlight=False), transient=True, disable=not show_progress,
    )  # fmt: skip
    with PredictionTable(source.predictions, inputs, predictor.readouts) as table:
        with progress:
            task = progress.add_task("", total=inputs.total)
            for rows, angles, labels in inputs.blocks():
                predictions, readouts, seconds = predictor.predict(
                    angles, rows, lambda count: progress.advance(task, count)
                )
                scores.seconds += seconds
                scores.add(predictions, readouts, labels)
                table.add(rows, predictions, readouts, labels)
        finalize(settings.data.seed, source, inputs, model, scores, table)
