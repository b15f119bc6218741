"""Inference in this process."""

import sys

from rich.console import Console

from common.count_bar import CountBar
from common.settings import Settings
from common.waiting import Waiting
from inference import model_loading, normalization, summary
from inference.finalize import finalize
from inference.inference_input import InferenceInput
from inference.mitigation import predictor_for
from inference.model_source import ModelSource
from inference.prediction_table import PredictionTable
from inference.scoring import scores_for
from qfleet.tensorflow.runtime import configure


def predict_in_process(settings: Settings, source: ModelSource, inputs: InferenceInput) -> None:
    """Compute all predictions block by block; write the predictions and the report.

    Args:
        settings: BATCH, THREADS and SEED are used.
        source: The model.
        inputs: The examples.
    """
    with Waiting("the model"):
        configure(threads=settings.training.threads, seed=settings.data.seed)
        model = model_loading.load(source, settings.training.batch)
        normalization.adapt(model, source, inputs)
    summary.log_start(source, inputs)
    predictor = predictor_for(model, inputs.features, source, settings.training.batch)
    scores = scores_for(
        *(inputs.target, predictor.readouts, inputs.labelled, predictor.circuits),
        is_mitigated=predictor.is_mitigated,
    )
    show_progress = sys.stdout.isatty() and inputs.total > predictor.batch_rows
    bar = CountBar("examples", Console(highlight=False))
    bar.move(0, inputs.total)
    with PredictionTable(
        source.predictions, inputs, predictor.readouts, is_mitigated=predictor.is_mitigated
    ) as table:
        text = f"the predictions of {inputs.total:,} examples"
        with bar if show_progress else Waiting(text):
            for rows, angles, labels, origin in inputs.blocks():
                found = predictor.predict(angles, rows, bar.advance)
                scores.seconds += found.seconds
                known = found.outputs, found.readouts, labels, found.unmitigated, origin
                scores.add(*known)
                table.add(rows, *known)
        finalize(settings.data.seed, source, inputs, model, predictor, scores, table)
