"""The end of an inference: predictions and report in storage, results on the terminal."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from common import models, storage
from common.errors import write_termination_message
from common.text import plural
from inference import baseline, html_report, summary
from inference.gradient_variance import SAMPLES, distinct_layers, measure_gradient_variance
from inference.inference_input import InferenceInput
from inference.model_source import ModelSource
from inference.prediction_table import PredictionTable
from inference.results import InferenceResults
from inference.scoring import Scores

if TYPE_CHECKING:
    from qfleet.tensorflow.runtime import keras

MAX_MSE_DIFFERENCE = 1e-3
"""Difference between the recorded and the measured test MSE above which a note is added."""


def finalize(
    seed: int,
    source: ModelSource,
    inputs: InferenceInput,
    model: "keras.Model",
    scores: Scores,
    table: PredictionTable,
) -> None:
    """Compute baselines, publish the predictions and the report, and print the results.

    Args:
        seed: SEED.
        source: The model's origin.
        inputs: The examples.
        model: The model.
        scores: Statistics of all predictions.
        table: All predictions, not yet published.
    """
    results = _results(seed, source, inputs, model, scores)
    page = source.predictions / "report.html"
    table.publish()
    storage.write_atomic(page, html_report.render(results))
    summary.log_results(results, table.path, page)
    detail = f": mse {scores.mse:.4f}, accuracy {scores.accuracy:.4f}" if scores.labelled else ""
    write_termination_message(f"{plural(scores.total, 'prediction')} written{detail}")


def _results(
    seed: int,
    source: ModelSource,
    inputs: InferenceInput,
    model: "keras.Model",
    scores: Scores,
) -> InferenceResults:
    baselines = []
    if inputs.data and inputs.labelled:
        train = inputs.data.sample("train", baseline.MAX_LOGISTIC_ROWS)
        tested = inputs.head(baseline.MAX_TEST_ROWS)
        assert tested.labels is not None
        baselines = baseline.fit_baselines(train, tested.angles, tested.labels, seed)
    layers = list(models.circuit_layers(model))
    angles = inputs.head(SAMPLES).angles
    return InferenceResults(
        source=source,
        inputs=inputs,
        scores=scores,
        weight_count=int(model.count_params()),
        circuits=layers,
        baselines=baselines,
        gradients=[
            measure_gradient_variance(layer, angles, seed) for layer in distinct_layers(layers)
        ],
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        notes=_notes(source, inputs, scores),
    )


def _notes(source: ModelSource, inputs: InferenceInput, scores: Scores) -> list[str]:
    """Return the sentences that the reader needs before the numbers."""
    notes = [f"{source.unverified}."] if source.unverified else []
    recorded, measured = source.test_mse, scores.mse
    if not inputs.is_test_split or recorded is None or measured is None:
        return notes
    if abs(recorded - measured) > MAX_MSE_DIFFERENCE:
        notes.append(
            f"Training recorded a test MSE of {recorded:.4f}, but it is {measured:.4f} now:"
            " a library or the user model has another version."
        )
    return notes
