"""The end of an inference: predictions and report in storage, results on the terminal."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from common import models, storage
from common.data import Examples
from common.errors import write_termination_message
from common.metrics import line, number, title
from common.models.kernel_machine import weight_count
from common.models.pulse_model import pulse_values
from common.settings import Settings
from common.settings.groups.experiment import KERNEL
from common.text import plural
from common.waiting import Waiting
from inference import baseline, html_report, own_columns, pulse_figures, summary
from inference.gradient_variance import SAMPLES, distinct_layers, measure_gradient_variance
from inference.inference_input import InferenceInput
from inference.kernel_figures import KernelFigures, measure_kernel
from inference.mitigation import TRUST_SAMPLES
from inference.model_source import ModelSource
from inference.prediction_table import PredictionTable
from inference.predictor import Predictor
from inference.results import InferenceResults
from inference.scoring import Scores

if TYPE_CHECKING:
    from qfleet.tensorflow.runtime import keras

MAX_LOSS_DIFFERENCE = 1e-3
"""Difference between the recorded and the measured test loss above which a note is added, relative
to losses above 1."""


def finalize(
    seed: int,
    source: ModelSource,
    inputs: InferenceInput,
    model: "keras.Model",
    predictor: Predictor,
    scores: Scores,
    table: PredictionTable,
) -> None:
    """Compute baselines, publish the predictions and the report, and print the results.

    Args:
        seed: SEED.
        source: The model's origin.
        inputs: The examples.
        model: The model.
        predictor: What computed the predictions.
        scores: Statistics of all predictions.
        table: All predictions, not yet published.
    """
    with Waiting("the baselines and the report"):
        results = _results(seed, source, inputs, model, predictor, scores)
        page = source.predictions / "report.html"
        table.publish()
        if results.pulse:
            pulse_figures.export(results.pulse, source.predictions)
        storage.write_atomic(page, html_report.render(results))
    summary.log_results(results, table.path, page)
    detail = f": {line(scores.metrics)}" if scores.metrics else ""
    write_termination_message(f"{plural(scores.total, 'prediction')} written{detail}")


def _results(
    seed: int,
    source: ModelSource,
    inputs: InferenceInput,
    model: "keras.Model",
    predictor: Predictor,
    scores: Scores,
) -> InferenceResults:
    baselines, columns = [], None
    if inputs.data and inputs.labelled and inputs.target.task in ("classification", "regression"):
        train = inputs.data.sample("train", baseline.MAX_ROWS)
        head = inputs.head(baseline.MAX_TEST_ROWS)
        assert head.labels is not None
        tested = Examples(head.angles, head.labels)
        own = weight_count(model)
        baselines = baseline.fit_baselines(inputs.target, train, tested, own, seed)
        columns = own_columns.compare(source, inputs, inputs.data, own, seed)
    layers, is_kernel = list(models.circuit_layers(model)), source.settings["model"] == KERNEL
    angles = inputs.head(SAMPLES).angles
    kernel = _kernel(source, inputs, seed) if is_kernel else None
    pulse = None
    if inputs.target.kind == "gate":
        recorded = Settings.from_record(source.settings).model
        pulse = pulse_figures.measure_pulse(recorded, inputs.target, pulse_values(model))
    warnings = [kernel.warning] if kernel and kernel.warning else []
    return InferenceResults(
        source=source,
        inputs=inputs,
        scores=scores,
        weight_count=weight_count(model),
        circuits=layers,
        baselines=baselines,
        column_baselines=columns,
        gradients=[
            measure_gradient_variance(layer, angles, seed)
            for layer in distinct_layers([] if is_kernel else layers)
        ],
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        notes=[*_notes(source, inputs, scores), *warnings],
        return_probabilities=predictor.measure_return_probabilities(
            inputs.head(TRUST_SAMPLES).angles
        ),
        kernel=kernel,
        pulse=pulse,
    )


def _kernel(source: ModelSource, inputs: InferenceInput, seed: int) -> KernelFigures | None:
    """Return the figures of the kernel; None without its training data."""
    if inputs.data is None:
        return None
    model = Settings.from_record(source.settings).model
    return measure_kernel(model, source.described["bandwidth"], inputs.data, seed)


def _notes(source: ModelSource, inputs: InferenceInput, scores: Scores) -> list[str]:
    """Return the sentences that the reader needs before the numbers."""
    notes = [f"{source.unverified}."] if source.unverified else []
    recorded, measured = source.test_loss, scores.metrics
    if not inputs.is_test_split or recorded is None or not measured:
        return notes
    name, before = recorded
    now = measured.get(name)
    if now is not None and abs(before - now) > MAX_LOSS_DIFFERENCE * max(1.0, abs(before)):
        notes.append(
            f"Training recorded a test {title(name)} of {number(name, before)}, but it is"
            f" {number(name, now)} now: a library or the user model has another version."
        )
    return notes
