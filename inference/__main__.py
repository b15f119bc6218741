"""`make inference`: trained weights answer the run's own test split, or a table of new examples."""

import logging
import sys
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from common import storage
from common.errors import SettingsError, run_main
from common.settings import Settings
from inference import source

log = logging.getLogger("qfleet")


def main() -> None:
    """Weights -> examples -> model -> answers -> predictions, report."""
    settings = Settings.from_args(sys.argv[1:])
    if settings.target != "local":
        raise SettingsError(f"TARGET={settings.target}: inference runs with TARGET=local only")
    logging.basicConfig(format="%(message)s")
    chosen = source.choose(settings)
    with chosen.local_weights():
        pass  # compared now, before the seconds that TensorFlow takes to load

    from inference.examples import ask

    question = ask(settings, chosen)

    # TensorFlow only now: what was wrong so far has been said within a second or two.
    from common import models
    from common.tensorflow import configure
    from inference import model, predictions, report, summary
    from inference.baseline import baselines
    from inference.findings import Findings
    from inference.gradients import distinct, slopes
    from inference.scoring import score

    configure(threads=settings.threads, seed=settings.seed)
    answering = model.load(chosen)
    console = Console(highlight=False, soft_wrap=True)
    summary.announce(console, chosen, question)
    scores = score(answering, question.angles, question.labels, batch=settings.batch)
    classical = []
    if question.data and question.labels is not None:
        train = question.data.split("train")
        classical = baselines(train, question.angles, question.labels, settings.seed)
    layers = list(models.circuits(answering))
    found = Findings(
        source=chosen,
        question=question,
        scores=scores,
        weights=int(answering.count_params()),
        circuits=layers,
        baselines=classical,
        slopes=[slopes(layer, question.angles, settings.seed) for layer in distinct(layers)],
        written=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        notes=_notes(chosen, question, scores),
    )
    table = chosen.predictions / f"{question.name}.csv"
    page = chosen.predictions / "report.html"
    predictions.write(table, question, scores)
    storage.write_whole(page, report.render(found))
    summary.show(console, found, table, page)


def _notes(chosen: source.Source, question: Any, scores: Any) -> list[str]:
    """What the reader should know first."""
    notes = [f"{chosen.unchecked}."] if chosen.unchecked else []
    said = chosen.test_mse
    if question.is_test_split and said is not None and abs(said - scores.mse) > 1e-3:
        notes.append(
            f"Training recorded a test MSE of {said:.4f}, which is {scores.mse:.4f} now: another"
            " version of a library or of the person's model answers here."
        )
    return notes


if __name__ == "__main__":
    sys.exit(run_main(main))
