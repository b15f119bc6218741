"""Structured events: emitted, parsed, rendered; over real pipes."""

import json
import logging
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from common import events
from common.events import (
    Event,
    LineSplitter,
    LogHandler,
    destinations,
    emit,
    emitter,
    parse,
    render,
    schema,
)
from tests.support.patience import seconds

LOG = logging.getLogger("qfleet")


@pytest.fixture(autouse=True)
def fresh_destination(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test starts as a new process does."""
    monkeypatch.delenv("QFLEET_EVENTS", raising=False)
    monkeypatch.setattr(emitter, "_destination", None)
    monkeypatch.setattr(emitter, "_rank", None)
    yield
    if emitter._destination is not None:
        emitter._destination.close()


class Pipe:
    """A pipe that this process emits to."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        os.environ["QFLEET_EVENTS"] = f"fd:{self.writer}"
        events.start()

    def read(self) -> list[Event]:
        lines = os.read(self.reader, 1 << 20).splitlines()
        found = [parse(line) for line in lines]
        assert None not in found
        return [event for event in found if event]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    os.close(made.reader)


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    before = LOG.handlers, LOG.level, LOG.propagate
    LOG.handlers, LOG.propagate = [], False
    LOG.setLevel(logging.DEBUG)
    yield LOG
    LOG.handlers, LOG.propagate = before[0], before[2]
    LOG.setLevel(before[1])


def test_emit_to_pipe_is_parsed_again(pipe: Pipe) -> None:
    events.start(rank=2)
    before = time.time()
    assert emit("epoch", "epoch 3/170", epoch=3, epochs=170, metrics={"mse": 0.5})
    (event,) = pipe.read()
    assert (event.kind, event.rank, event.message) == ("epoch", 2, "epoch 3/170")
    assert event.integer("epoch") == 3
    assert event.mapping("metrics") == {"mse": 0.5}
    assert before - 1 < event.time < time.time() + 1


def test_emit_converts_numpy_and_not_finite_numbers(pipe: Pipe) -> None:
    result = {"a": np.float32(0.5), "b": np.arange(2), "c": math.nan, "d": np.int64(3), 4: (1,)}
    emit("measurement", result=result)
    emit("waiting", missing=[], seconds=math.inf)
    first, second = pipe.read()
    assert first.mapping("result") == {"a": 0.5, "b": [0, 1], "c": None, "d": 3, "4": [1]}
    assert math.isnan(second.number("seconds"))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("epoh", {}),
        ("epoch", {"epoch": 3}),
        ("epoch", {"epoch": "3", "epochs": 4}),
        ("epoch", {"epoch": True, "epochs": 4}),
        ("epoch", {"epoch": 3, "epochs": 4, "loss": 1.0}),
    ],
)
def test_emit_with_wrong_fields_raises(kind: str, fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=kind):
        emit(kind, "", rank=None, **fields)


@pytest.mark.parametrize("kind", events.KINDS)
def test_kinds_use_no_reserved_field(kind: str) -> None:
    fields = {**events.KINDS[kind].required, **events.KINDS[kind].optional}
    assert not fields.keys() & set(schema.RESERVED)


def test_emit_without_destination_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert emit("log", "hello", level="INFO")
    assert emit("log", "there", level="INFO", rank=3)
    assert emit("measurement", result={})
    assert emit("error", "BATCH is wrong", exit_code=2)
    assert capsys.readouterr() == ("hello\nworker 3: there\n", "qfleet: BATCH is wrong\n")
    assert not events.is_streaming()


def test_emit_to_closed_console_returns_false(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
    assert not emit("log", "hello", level="INFO")


@pytest.mark.parametrize("value", ["fd:", "fd:x", "fd:1", "fd:9999", "fd:-1", "nonsense", "fd:1e9"])
def test_start_with_unusable_destination_prints(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("QFLEET_EVENTS", value)
    emit("log", "hello", level="INFO")
    assert capsys.readouterr().out == "hello\n"
    assert "QFLEET_EVENTS" not in os.environ


def test_start_refuses_a_file_with_the_inherited_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("data") / "precious"
    with path.open("w") as file:
        monkeypatch.setenv("QFLEET_EVENTS", f"fd:{file.fileno()}")
        emit("log", "hello", level="INFO")
    assert path.read_text() == ""


def test_start_keeps_the_pipe_from_children(pipe: Pipe) -> None:
    assert "QFLEET_EVENTS" not in os.environ
    assert not os.get_inheritable(pipe.writer)
    assert events.is_streaming()


def test_emit_to_stdout_writes_json_lines() -> None:
    code = "from common import events\nevents.emit('log', 'hello', level='INFO')\n"
    code += "import os; os.dup2(2, 1); events.emit('benchmark_ready'); print('text')"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "QFLEET_EVENTS": "stdout"}, capture_output=True, timeout=seconds(20),
    )  # fmt: skip
    found = [parse(line) for line in done.stdout.splitlines()]
    assert [event.kind for event in found if event] == ["log", "benchmark_ready"]
    assert done.stderr == b"text\n"


def test_emit_after_the_reader_left_is_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    pipe = Pipe()
    os.close(pipe.reader)
    assert not emit("log", "hello", level="INFO")
    assert not emit("log", "hello", level="INFO")
    emit("error", "storage is full", exit_code=2)
    assert capsys.readouterr() == ("", "qfleet: storage is full\n")


def test_emit_to_stalled_reader_waits_once_and_keeps_order(pipe: Pipe) -> None:
    text = "x" * 10_000
    began = time.monotonic()
    for number in range(100):
        assert emit("nodes", text, nodes=[number])
    assert time.monotonic() - began < seconds(4 * events.STALL_SECONDS)  # 20 s if each waited
    found: list[int] = []
    splitter = LineSplitter()
    while len(found) < 100:
        events.flush(0.01)
        for line in splitter.feed(os.read(pipe.reader, 1 << 16)):
            event = parse(line)
            assert event
            assert event.message == text
            (index,) = event.items("nodes")
            assert isinstance(index, int)
            found.append(index)
    assert found == list(range(100))


def test_emit_beyond_the_buffer_is_dropped(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destinations, "STALL_SECONDS", 0.01)
    monkeypatch.setattr(destinations, "MAX_BUFFER_BYTES", 20_000)
    monkeypatch.setattr(destinations, "MAX_LINE_BYTES", 15_000)
    sent = [emit("log", "x" * 9_000, level="INFO") for _ in range(12)]
    assert sent[0]
    assert not sent[-1]
    assert not emit("log", "x" * 16_000, level="INFO")


def test_emit_from_threads_keeps_lines_whole(pipe: Pipe) -> None:
    def emit_some(rank: int) -> None:
        for _ in range(20):
            emit("log", "x" * 100, rank=rank, level="INFO")

    threads = [threading.Thread(target=emit_some, args=(rank,)) for rank in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pipe.read()) == 160


def test_emit_in_signal_handler_does_not_deadlock(pipe: Pipe) -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: emit("benchmark_ready"))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        for _ in range(200):
            emit("log", "hello", level="INFO")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len([event for event in pipe.read() if event.kind == "log"]) == 200


class Stopped(BaseException):
    """Raised by a signal handler."""


def test_interrupt_in_a_write_emits_the_event_once(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop() -> None:
        raise Stopped

    def write_then_signal(fd: int, data: bytes, timeout_seconds: float) -> int:
        done = events.write_available(fd, data, timeout_seconds)
        if b"first" in data:
            signal.raise_signal(signal.SIGALRM)
        return done

    monkeypatch.setattr(destinations, "write_available", write_then_signal)
    before = signal.signal(signal.SIGALRM, lambda *_: events.interrupt(stop))
    try:
        with pytest.raises(Stopped):
            emit("log", "first", level="INFO")
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)
    emit("log", "second", level="INFO")
    assert [event.message for event in pipe.read()] == ["first", "second"]


def test_emit_in_forked_child_reaches_the_pipe() -> None:
    code = """
import os, threading
from common import events
events.start()
stream = events.emitter._destination
with stream._lock:
    pid = os.fork()
    if pid == 0:
        threading.Thread(target=events.emit, args=("benchmark_ready",)).start()
if pid:
    os.waitpid(pid, 0)
"""
    reader, writer = os.pipe()
    try:
        subprocess.run(
            [sys.executable, "-S", "-c", code], env={**os.environ, "QFLEET_EVENTS": f"fd:{writer}"},
            pass_fds=[writer], timeout=seconds(20), check=True,
        )  # fmt: skip
        event = parse(os.read(reader, 1000))
        assert event
        assert event.kind == "benchmark_ready"
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "epoch 3/170  mse 0.1",
        "{",
        "[]",
        "{}",
        "1",
        "NaN",
        '"event"',
        '{"event": "benchmark_ready", "ti',
        '{"event": "benchmark_ready"}',
        '{"event": "benchmark_ready", "time": "now"}',
        '{"event": "benchmark_ready", "time": 1, "rank": "x"}',
        '{"event": ["benchmark_ready"], "time": 1}',
        '{"event": "unknown", "time": 1}',
        '{"event": "epoch", "time": 1, "epoch": 1}',
        '{"event": "epoch", "time": 1, "epoch": 1, "epochs": "2"}',
        '{"event": ' * 100_000,
        '{"a":' + "[" * 100_000,
        '{"event": "log", "time": ' + "9" * 5000 + "}",
        b"\xff\xfe",
        b'{"event": "\xff"}',
    ],
)
def test_parse_without_event_returns_none(line: str | bytes) -> None:
    assert parse(line) is None


def test_parse_accepts_nan_and_unknown_fields() -> None:
    line = '{"event": "waiting", "time": 1, "missing": [], "seconds": NaN, "new": 1}\r\n'
    event = parse(line)
    assert event
    assert math.isnan(event.number("seconds"))


def test_parse_makes_the_message_printable() -> None:
    event = parse('{"event": "log", "time": 1, "level": "INFO", "message": "a\\ud800b"}')
    assert event
    assert event.message == "a?b"
    assert parse('{"event": "benchmark_ready", "time": 1, "message": 3}') is not None


def test_to_json_is_strict_and_parsed_again() -> None:
    event = Event("epoch", 12.5, 1, 'a "b"\n\ud800', {"epoch": 1, "epochs": 2})
    assert "\n" not in event.to_json()
    assert json.loads(event.to_json())["rank"] == 1
    again = parse(event.to_json().encode())
    assert again
    assert (again.fields, again.message) == (event.fields, 'a "b"\n?')


def test_foreign_keeps_text_and_stream() -> None:
    event = events.foreign(b"caf\xc3\xa9 \xff\r\n", "stderr", rank=1)
    assert (event.kind, event.message) == ("log", "caf\xe9 \ufffd")
    assert event.fields == {"level": "INFO", "stream": "stderr"}


def test_line_splitter_joins_parts_and_cuts_long_lines() -> None:
    splitter = LineSplitter(max_bytes=5)
    assert splitter.feed(b"ab") == []
    assert splitter.feed(b"c\n\n123456789") == [b"abc", b""]
    assert splitter.feed(b"123\nx") == [b"12345"]
    assert splitter.finish() == [b"x"]
    assert splitter.finish() == []


def test_render_adds_prefixes_and_next_commands() -> None:
    fields = {"run": "r", "storage": "s", "metrics": {}, "commands": ["make a", "make b"]}
    event = Event("run_finished", 0, message="done", fields=fields)
    assert render(event) == "done\nNext steps:\n  make a\n  make b"
    assert render(Event("benchmark_ready", 0, rank=1)) is None
    log = Event("log", 0, rank=1, message="x")
    assert render(log) == "worker 1: x"
    assert render(log, worker_prefix=False) == "x"
    assert render(Event("log", 0, rank=0, message="x")) == "x"
    assert render(Event("error", 0, rank=1, message="x")) == "qfleet: worker 1: x"


def test_log_handler_prints_from_info(
    log: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    log.addHandler(LogHandler())
    log.debug("hidden")
    log.info("this is %s", "shown")
    events.log_event("epoch", "hidden, too", level=logging.DEBUG, epoch=1, epochs=2)
    events.log_event("epoch", "100 % shown", epoch=1, epochs=2)
    assert capsys.readouterr().out == "this is shown\n100 % shown\n"
    log.handlers = [LogHandler(verbose=True)]
    log.debug("shown")
    assert capsys.readouterr().out == "shown\n"


def test_log_handler_streams_records(log: logging.Logger, pipe: Pipe) -> None:
    log.addHandler(LogHandler())
    log.debug("hidden")
    log.warning("careful")
    events.log_event("epoch", "epoch 1/2", level=logging.DEBUG, epoch=1, epochs=2)
    first, second = pipe.read()
    assert (first.text("level"), first.message) == ("WARNING", "careful")
    assert (second.kind, second.message) == ("epoch", "epoch 1/2")


def test_log_event_with_wrong_fields_raises(log: logging.Logger) -> None:
    with pytest.raises(ValueError, match="epochs"):
        events.log_event("epoch", "epoch 1", epoch=1)


def test_log_handler_survives_a_bad_record(
    log: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    log.addHandler(LogHandler())
    log.info("%d", "no number")


def test_forward_keeps_time_and_rank(pipe: Pipe) -> None:
    events.start(rank=5)
    assert events.forward(Event("log", 12.5, 1, "x", {"level": "INFO"}))
    (event,) = pipe.read()
    assert (event.time, event.rank) == (12.5, 1)
