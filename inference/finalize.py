"""What an inference ends with: predictions and report in storage, the findings on the terminal."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console

from common import models, storage
from common.errors import write_termination_message
from common.settings import Settings
from inference import baseline, html_report, summary
from inference.gradient_variance import SAMPLES, distinct, gradient_variance
from inference.inference_input import InferenceInput
from inference.model_source import ModelSource
from inference.predictions import Predictions
from inference.results import InferenceResults
from inference.scoring import Scores

if TYPE_CHECKING:
    from qfleet.tensorflow.runtime import keras


def finalize(
    settings: Settings,
    source: ModelSource,
    question: InferenceInput,
    model: "keras.Model",
    scores: Scores,
    predictions: Predictions,
    console: Console,
) -> None:
    """Compare with classical models, publish the predictions and the report, show the findings.

    Args:
        settings: SEED is read.
        source: Which weights answered.
        question: What.
        model: The weights' model.
        scores: All answers, summed up.
        predictions: All answers, still unpublished.
        console: Where the findings are shown.
    """
    classical = []
    if question.data and question.labelled:
        train = question.data.sample("train", baseline.MAX_LOGISTIC_ROWS)
        tested = question.head(baseline.MAX_TEST_ROWS)
        assert tested.labels is not None
        classical = baseline.baselines(train, tested.angles, tested.labels, settings.data.seed)
    layers = list(models.circuit_layers(model))
    examples = question.head(SAMPLES).angles
    found = InferenceResults(
        source=source,
        question=question,
        scores=scores,
        weights=int(model.count_params()),
        circuits=layers,
        baselines=classical,
        slopes=[
            gradient_variance(layer, examples, settings.data.seed) for layer in distinct(layers)
        ],
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        notes=_notes(source, question, scores),
    )
    page = source.predictions / "report.html"
    predictions.publish()
    storage.write_atomic(page, html_report.render(found))
    summary.log_results(console, found, predictions.path, page)
    told = f": mse {scores.mse:.4f}, accuracy {scores.accuracy:.4f}" if scores.labelled else ""
    write_termination_message(f"{scores.total:,} examples answered{told}")


def _notes(source: ModelSource, question: InferenceInput, scores: Scores) -> list[str]:
    """What the reader should know first."""
    notes = [f"{source.unchecked}."] if source.unchecked else []
    said, mse = source.test_mse, scores.mse
    if not question.is_test_split or said is None or mse is None:
        return notes
    if abs(said - mse) > 1e-3:
        notes.append(
            f"Training recorded a test MSE of {said:.4f}, which is {mse:.4f} now: another"
            " version of a library or of the person's model answers here."
        )
    return notes
