"""The client's console: events as lines, as a bar, and forwarded to a stream."""

import io
from collections.abc import Mapping

import pytest
from rich.console import Console

from common import events
from common.events import Event
from launch.console import ClientConsole


def event(kind: str, message: str = "", rank: int = 0, **fields: object) -> Event:
    """An event of a pod."""
    return Event(kind, 1.0, rank, message, fields)


def assigned(first: int, last: int, done: int) -> Event:
    """The assignment of chunks to worker 1."""
    return event("chunks_assigned", worker=1, first=first, last=last, total=9, done=done)


def chunk(index: int) -> Event:
    """A predicted chunk."""
    return event("chunk_done", worker=1, index=index, total=9, rate=2.0, unit="examples/s")


def terminal() -> ClientConsole:
    """A console on a terminal."""
    console = ClientConsole()
    console._console = Console(file=io.StringIO(), force_terminal=True, width=80)
    return console


def test_show_in_a_pipe_prints_messages(capsys: pytest.CaptureFixture[str]) -> None:
    console = ClientConsole()
    console.print("own line")
    console.show(event("epoch", "epoch 1/3  mse 0.5", epoch=1, epochs=3))
    console.show(event("log", "hello", rank=1, level="INFO"))
    console.show(event("checkpoint_saved", "saved", run="r", step=3))
    assert capsys.readouterr().out == "own line\nepoch 1/3  mse 0.5\nworker 1: hello\n"


@pytest.mark.parametrize("last", ["run_finished", "error", ""])
def test_bar_of_epochs_leaves_the_learning_curve(last: str) -> None:
    with terminal() as console:
        for epoch in (1, 2):
            metrics: Mapping[str, object] = {"mse": 1 / epoch, "note": "x"}
            console.show(event("epoch", "moves", epoch=epoch, epochs=3, metrics=metrics))
        assert console._epochs is not None
        (task,) = console._epochs.bar.tasks
        assert (task.completed, task.total) == (2, 3)
        if last:
            fields = {"run": "a", "storage": "b", "metrics": {}}
            console.show(event(last, "ended", **fields))
    output = console._console.file.getvalue()  # type: ignore[attr-defined]
    assert "mse 1 █▁ 0.5" in output.partition("ended")[0]
    assert "moves" not in output


def test_show_counts_chunks_of_restarted_worker_once() -> None:
    with terminal() as console:
        console.show(assigned(0, 4, done=1))
        console.show(chunk(1))
        console.show(chunk(2))
        console.show(assigned(0, 4, done=3))  # the same worker, restarted
        console.show(chunk(3))
    output = console._console.file.getvalue()  # type: ignore[attr-defined]
    assert "chunks 4/9" in output
    assert "chunks 5/9" not in output


def test_show_forwards_events_to_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Event] = []
    monkeypatch.setattr(events, "is_streaming", lambda: True)
    monkeypatch.setattr(events, "forward", sent.append)
    found = event("checkpoint_saved", run="r", step=3)
    ClientConsole().show(found)
    assert sent == [found]
