"""The launcher's output: lines for a pipe, a progress bar on a terminal."""

import sys

import pytest

from common import epoch_bar
from common.events import Event
from common.waiting import PIPE_SECONDS
from training.launcher.training_display import TrainingDisplay
from training.process import logging_setup

EPOCH = Event("epoch", 0.0, 0, "epoch 3/12  mse 0.1", {"epoch": 3, "epochs": 12, "metrics": {}})
SAVED = Event("checkpoint_saved", 0.0, 0, "Saved checkpoint", {"run": "hybrid", "step": 4})
STARTED = Event("worker_started", 0.0, 1, "Worker 1 of 2 started", {"workers": 2})
LOG = Event("log", 0.0, 1, "a [bold]warning[/]", {"level": "WARNING"})
WAITING = Event("waiting", 0.0, 0, "Waiting: the import", {"missing": [], "seconds": 9.0})
PROGRESS = Event("progress", 0.0, 0, "", {"epoch": 4, "epochs": 12, "step": 1, "steps": 2,
                                          "phase": "initialization 2 of 2"})  # fmt: skip


def test_display_prints_lines_to_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingDisplay() as display:
        for event in (STARTED, EPOCH, SAVED, PROGRESS, LOG):
            display.show(event)
    assert capsys.readouterr().out.splitlines() == [
        "epoch 3/12  mse 0.1", "worker 1: a [bold]warning[/]",
    ]  # fmt: skip


def test_display_moves_a_bar_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with TrainingDisplay() as display:
        for event in (STARTED, EPOCH, SAVED, PROGRESS, LOG):
            display.show(event)
        assert display._bar is not None
        (task,) = display._bar.bar.tasks
        assert (task.completed, task.total) == (3.5, 12)
        assert task.fields["phase"] == "initialization 2 of 2"
    output = capsys.readouterr().out
    assert "epoch 3/12  mse 0.1" not in output
    assert "worker 1: a [bold]warning[/]" in output


def test_bar_leaves_the_learning_curve_before_the_summary(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with TrainingDisplay() as display:
        for epoch in (1, 2, 3):
            metrics = {"mse": 1.0 / epoch, "accuracy": 0.5, "val_mse": 2.0 / epoch}
            display.show(
                Event("epoch", 0.0, 0, "", {"epoch": epoch, "epochs": 12, "metrics": metrics})
            )
        display.show(
            Event("run_finished", 0.0, 0, "Finished", {"run": "a", "storage": "b", "metrics": {}})
        )
    output = capsys.readouterr().out
    places = [output.index(text) for text in ("mse            1 ", "validation mse 2 ", "Finished")]
    assert places == sorted(places)


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("count", [1, 2, 7, 170])
def test_curve_of_falling_values_falls(count: int, ascii_only: bool) -> None:
    blocks = epoch_bar.ASCII_BLOCKS if ascii_only else epoch_bar.BLOCKS
    drawn = epoch_bar.curve([1 / (i + 1) for i in range(count)], ascii_only=ascii_only)
    heights = [blocks.index(one) for one in drawn]
    assert len(heights) == min(count, epoch_bar.WIDTH)
    assert heights == sorted(heights, reverse=True)
    assert drawn.isascii() == ascii_only


@pytest.mark.parametrize(("rank", "count"), [(0, 2), (1, 1)])
def test_shared_finding_is_printed_by_the_chief_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, rank: int, count: int
) -> None:
    log = logging_setup.log
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", log.propagate)
    monkeypatch.setattr(log, "level", log.level)
    logging_setup.start_console(rank, verbose=False)
    logging_setup.log_shared("the best one")
    log.info("its own")
    assert len(capsys.readouterr().out.splitlines()) == count


@pytest.mark.parametrize(
    ("event", "line"), [(PROGRESS, "epoch 4/12  step 1 of 2"), (WAITING, "Waiting: the import")]
)
def test_pipe_is_not_silent_for_long(
    capsys: pytest.CaptureFixture[str], event: Event, line: str
) -> None:
    """A line for each interval without one, and none soon after another one."""
    now = 0.0
    with TrainingDisplay(lambda: now) as display:
        for now in (1.0, 5.0, PIPE_SECONDS + 1, PIPE_SECONDS + 2, 2 * PIPE_SECONDS + 2):  # noqa: B007
            display.show(event)
    assert capsys.readouterr().out.splitlines() == [line, line]
    assert PIPE_SECONDS <= 10


def test_bar_that_moves_hides_short_waits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with TrainingDisplay() as display:
        for event in (WAITING, EPOCH, WAITING):
            display.show(event)
    assert capsys.readouterr().out.count("Waiting: the import") == 1
