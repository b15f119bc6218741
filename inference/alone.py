"""One process answers all examples."""

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from common.settings import Settings
from common.tensorflow import configure
from inference import model, summary
from inference.answering import Answering
from inference.conclusion import conclude
from inference.examples import Question
from inference.predictions import Predictions
from inference.scoring import Scores
from inference.source import Source


def answer(settings: Settings, source: Source, question: Question) -> None:
    """Model -> answers, block by block -> predictions, report."""
    configure(threads=settings.threads, seed=settings.seed)
    loaded = model.load(source)
    console = Console(highlight=False, soft_wrap=True)
    summary.announce(console, source, question)
    answering = Answering(loaded, question.features, settings.batch)
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
        conclude(settings, source, question, loaded, scores, predictions, console)
