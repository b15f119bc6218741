"""The launcher's output: lines for a pipe, a progress bar on a terminal."""

import sys

import pytest

from common.events import Event
from training.training_display import TrainingDisplay

EPOCH = Event("epoch", 0.0, 0, "epoch 3/12  mse 0.1", {"epoch": 3, "epochs": 12, "metrics": {}})
SAVED = Event("checkpoint_saved", 0.0, 0, "Saved checkpoint", {"run": "hybrid", "step": 4})
STARTED = Event("worker_started", 0.0, 1, "Worker 1 of 2 started", {"workers": 2})
LOG = Event("log", 0.0, 1, "a [bold]warning[/]", {"level": "WARNING"})
PROGRESS = Event("progress", 0.0, 0, "", {"epoch": 4, "epochs": 12, "step": 1, "steps": 2})


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
        (task,) = display._bar.tasks
        assert (task.completed, task.total) == (3.5, 12)
    output = capsys.readouterr().out
    assert "epoch 3/12  mse 0.1" not in output
    assert "worker 1: a [bold]warning[/]" in output
