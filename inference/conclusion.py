"""What an inference ends with: predictions and report in storage, the findings on the terminal."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console

from common import models, storage
from common.errors import leave_word
from common.settings import Settings
from inference import baseline, report, summary
from inference.examples import Question
from inference.findings import Findings
from inference.gradients import DRAWS, distinct, slopes
from inference.predictions import Predictions
from inference.scoring import Scores
from inference.source import Source

if TYPE_CHECKING:
    from common.tensorflow import keras


def conclude(
    settings: Settings,
    source: Source,
    question: Question,
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
        train = question.data.sample("train", baseline.MOST_FOR_LOGISTIC)
        tested = question.head(baseline.MOST_TESTED)
        assert tested.labels is not None
        classical = baseline.baselines(train, tested.angles, tested.labels, settings.seed)
    layers = list(models.circuits(model))
    examples = question.head(DRAWS).angles
    found = Findings(
        source=source,
        question=question,
        scores=scores,
        weights=int(model.count_params()),
        circuits=layers,
        baselines=classical,
        slopes=[slopes(layer, examples, settings.seed) for layer in distinct(layers)],
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        notes=_notes(source, question, scores),
    )
    page = source.predictions / "report.html"
    predictions.publish()
    storage.write_whole(page, report.render(found))
    summary.show(console, found, predictions.path, page)
    told = f": mse {scores.mse:.4f}, accuracy {scores.accuracy:.4f}" if scores.labelled else ""
    leave_word(f"{scores.total:,} examples answered{told}")


def _notes(source: Source, question: Question, scores: Scores) -> list[str]:
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
