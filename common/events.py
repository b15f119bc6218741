"""Structured events: what programs of qfleet report to the process that started them.

An event is one JSON object per line:

    {"event": "epoch", "time": 1767225600.1, "rank": 0, "message": "epoch 3/170", ...fields}

`message` is for people and may change at any time. Programs read only the fields of KINDS. The
environment variable QFLEET_EVENTS names the destination of a process's events:

    unset     the console: `render(event)` on stdout, errors on stderr
    fd:N      the inherited pipe N, which the parent's `ManagedProcess` reads
    stdout    JSON lines on stdout, for pods whose logs the client reads

Emitting never raises because of the destination, and waits at most STALL_SECONDS for a slow reader.
"""

import contextlib
import json
import logging
import math
import os
import select
import stat
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

ENVIRONMENT_VARIABLE = "QFLEET_EVENTS"

MAX_LINE_BYTES = 1 << 22
"""Longest line of an event. Longer ones are not emitted, and are cut where they are read."""

STALL_SECONDS = 0.2
"""Longest time in which one event may wait for a slow reader; it is buffered after that."""

MAX_BUFFER_BYTES = 2 * MAX_LINE_BYTES
"""Bytes buffered for a slow reader; further events are dropped until it catches up."""

_RESERVED = ("event", "time", "rank", "message")
_NUMBER: tuple[type, ...] = (int, float, type(None))  # null is NaN or infinite


@dataclass(frozen=True, slots=True)
class Kind:
    """The fields of one kind of event: name -> accepted JSON types."""

    required: Mapping[str, tuple[type, ...]] = field(default_factory=dict)
    optional: Mapping[str, tuple[type, ...]] = field(default_factory=dict)


KINDS: Mapping[str, Kind] = {
    # A log record. `stream` is set for a line of foreign text that a process printed there.
    "log": Kind({"level": (str,)}, {"stream": (str,)}),
    # Training. Epochs count from 1; `step` of run_resumed counts completed steps of that epoch.
    "run_started": Kind({"run": (str,), "storage": (str,), "attempt": (int,)}),
    "run_resumed": Kind(
        {"run": (str,), "storage": (str,), "attempt": (int,), "epoch": (int,), "step": (int,)}
    ),
    "epoch": Kind({"epoch": (int,), "epochs": (int,)}, {"metrics": (dict,)}),
    "step_rate": Kind({"examples_per_second": _NUMBER}, {"step_ms": (dict,)}),
    "waiting": Kind({"missing": (list,)}, {"seconds": _NUMBER}),  # ranks not at the rendezvous
    "checkpoint_saved": Kind({"run": (str,), "step": (int,)}),  # step of the whole run
    # `commands` are what the user may run next, such as "make inference RUN=...".
    "run_finished": Kind(
        {"run": (str,), "storage": (str,), "metrics": (dict,)},
        {"seconds": _NUMBER, "commands": (list,)},
    ),
    # Supervision. `worker` is absent from `restarting` where all workers restart together.
    "worker_lost": Kind({"worker": (int,), "exit_code": (int,)}),
    "restarting": Kind({"restart": (int,), "max_restarts": (int,)}, {"worker": (int,)}),
    # Inference. `first`, `last` and `index` count chunks from 0; `done` were predicted before.
    "chunks_assigned": Kind(
        {"worker": (int,), "first": (int,), "last": (int,), "total": (int,), "done": (int,)}
    ),
    "chunk_done": Kind(
        {"worker": (int,), "index": (int,), "total": (int,), "rate": _NUMBER, "unit": (str,)},
        {"examples": (int,)},
    ),
    # Step benchmarks and planning.
    "benchmark_ready": Kind(),
    "measurement": Kind({"result": (dict,)}),
    "nodes": Kind({"nodes": (list,)}),  # node name by rank
    "workload": Kind({"workload": (dict,)}),
    "plan": Kind({"settings": (dict,), "reason": (str,)}),
    # The end. A program emits `error`; `ManagedProcess` adds `exit`, always as the last event.
    "error": Kind({"exit_code": (int,)}),
    "exit": Kind({"exit_code": (int,), "reason": (str,)}),
}


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        kind: A key of KINDS.
        time: Unix time in seconds.
        rank: The worker that emitted it, where there are several.
        message: Text for people; may be empty.
        fields: Fields of this kind. Required ones are present and of the right type.
    """

    kind: str
    time: float
    rank: int | None = None
    message: str = ""
    fields: Mapping[str, object] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        """Return a field that holds text."""
        value = self.fields.get(name, default)
        return value if isinstance(value, str) else default

    def integer(self, name: str, default: int = 0) -> int:
        """Return a field that holds an integer."""
        value = self.fields.get(name, default)
        return value if isinstance(value, int) else default

    def number(self, name: str, default: float = math.nan) -> float:
        """Return a field that holds a number; NaN where the emitter had NaN or an infinity."""
        value = self.fields.get(name, default)
        return float(value) if isinstance(value, int | float) else math.nan

    def mapping(self, name: str) -> Mapping[str, object]:
        """Return a field that holds an object; empty where it is absent."""
        value = self.fields.get(name)
        return value if isinstance(value, dict) else {}

    def items(self, name: str) -> list[object]:
        """Return a field that holds a list; empty where it is absent."""
        value = self.fields.get(name)
        return value if isinstance(value, list) else []

    def to_json(self) -> str:
        """Return the event as one line without its line break, in strict JSON."""
        line: dict[str, object] = {"event": self.kind, "time": round(self.time, 6)}
        if self.rank is not None:
            line["rank"] = self.rank
        return json.dumps({**line, "message": self.message, **self.fields}, allow_nan=False)


def parse(line: str | bytes) -> Event | None:
    """Read a line. Never raises.

    Args:
        line: Text, or UTF-8 bytes; a line break at its end is ignored.

    Returns:
        The event; None for anything else: foreign text, a line that was cut, an unknown kind, a
        kind without its required fields. `foreign` makes a log event of such a line.
    """
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    if not text.startswith("{"):
        return None
    try:
        read: object = json.loads(text)
        plain = _plain(read)
    except (ValueError, RecursionError):
        return None
    if not isinstance(plain, dict):
        return None
    kind, when, rank, message = (plain.pop(name, None) for name in _RESERVED)
    if not isinstance(kind, str) or _problem(kind, plain, strict=False):
        return None
    if not isinstance(when, int | float) or not isinstance(rank, int | None):
        return None
    # A lone surrogate could not be printed.
    shown = message.encode("utf-8", "replace").decode() if isinstance(message, str) else ""
    return Event(kind, float(when), rank, shown, plain)


def foreign(line: str | bytes, stream: str = "stdout", *, rank: int | None = None) -> Event:
    """Return a log event for a line of text that is not an event.

    Args:
        line: The line.
        stream: Where it was printed, "stdout" or "stderr"; kept in the field `stream`.
        rank: The worker that printed it.
    """
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    return Event("log", time.time(), rank, text.rstrip("\r\n"), {"level": "INFO", "stream": stream})


class LineSplitter:
    """Cuts a byte stream into lines of at most MAX_LINE_BYTES; the rest of longer ones is dropped.

    Args:
        max_bytes: Another limit.
    """

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max = max_bytes
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes and return the lines that they complete, without line breaks."""
        *ends, rest = data.split(b"\n")
        lines = [self._complete(end) for end in ends]
        self._append(rest)
        return lines

    def finish(self) -> list[bytes]:
        """Return the last line, where it has no line break."""
        return [self._complete(b"")] if self._rest else []

    def _append(self, data: bytes) -> None:
        self._rest += data[: self._max - len(self._rest)]

    def _complete(self, end: bytes) -> bytes:
        self._append(end)
        line = bytes(self._rest)
        self._rest.clear()
        return line


def render(event: Event, *, worker_prefix: bool = True) -> str | None:
    """Return the text of an event for a console; None where there is nothing to print.

    Args:
        event: The event.
        worker_prefix: Put "worker N: " before the text of workers other than rank 0.
    """
    text = event.message
    if event.kind == "run_finished":
        commands = [str(command) for command in event.items("commands")]
        heads = ["next:  ", *["       "] * len(commands)]
        lines = [head + command for head, command in zip(heads, commands, strict=False)]
        text = "\n".join(filter(None, [text, *lines]))
    if not text:
        return None
    if worker_prefix and event.rank:
        text = f"worker {event.rank}: {text}"
    return f"qfleet: {text}" if event.kind == "error" else text


def start(rank: int | None = None) -> None:
    """Read QFLEET_EVENTS and remove it from the environment. Call it first in a program.

    The destination belongs to this process only: a child must not take it for its own.

    Args:
        rank: Rank that every later event of this process gets; None leaves it as it is.
    """
    global _destination, _rank
    with _lock:
        if rank is not None:
            _rank = rank
        named = os.environ.pop(ENVIRONMENT_VARIABLE, "")
        if named or _destination is None:
            if _destination is not None:
                _destination.close()
            fd = _open(named)
            _destination = _Console() if fd is None else _Stream(fd)


def is_streaming() -> bool:
    """Return True where events go to a stream and not to this process's console."""
    return isinstance(_current(), _Stream)


def emit(kind: str, message: str = "", *, rank: int | None = None, **fields: object) -> bool:
    """Send an event to the destination of this process, or print it where there is none.

    Args:
        kind: A key of KINDS.
        message: Text for people.
        rank: Another rank than that given to `start`.
        fields: The kind's fields. NumPy scalars become numbers, NaN and infinities null.

    Returns:
        True where the event was sent, buffered or printed; False where its reader is gone.

    Raises:
        ValueError: The kind is unknown, or its fields are not those of KINDS.
    """
    plain = _checked(kind, fields)
    return forward(Event(kind, time.time(), _rank if rank is None else rank, message, plain))


def forward(event: Event) -> bool:
    """Send an event of another process to the destination of this one; see `emit`."""
    sent = _current().send(event)
    if not sent and event.kind == "error":
        return _Console().send(event)
    return sent


def flush(timeout_seconds: float = 1.0) -> None:
    """Send what is buffered for a slow reader. `logging.shutdown` does so by `LogHandler`."""
    _current().flush(timeout_seconds)


def log_event(kind: str, message: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Log a record of the "qfleet" logger that `LogHandler` emits as an event of another kind.

    Use it for what belongs in text logs too: other handlers see a plain record. Below INFO, the
    record is not printed on a console, but the event is still sent to a stream.

    Raises:
        ValueError: As `emit`.
    """
    extra = {"event_kind": kind, "event_fields": _checked(kind, fields)}
    logging.getLogger("qfleet").log(level, "%s", message, extra=extra)


class LogHandler(logging.Handler):
    """Emits log records as events: of kind "log", or as `log_event` says.

    Args:
        verbose: Pass plain records below INFO too.
    """

    def __init__(self, *, verbose: bool = False) -> None:
        super().__init__(logging.DEBUG)
        self._threshold = logging.DEBUG if verbose else logging.INFO

    def emit(self, record: logging.LogRecord) -> None:
        """Emit one record."""
        kind = getattr(record, "event_kind", "log")
        if record.levelno < self._threshold and (kind == "log" or not is_streaming()):
            return
        try:
            fields = getattr(record, "event_fields", {"level": record.levelname})
            emit(kind, self.format(record), **fields)
        except Exception:  # as every handler: a record that can't be formatted ends no program
            self.handleError(record)

    def flush(self) -> None:
        """Send what is buffered for a slow reader."""
        flush()


def write_available(fd: int, data: bytes, timeout_seconds: float) -> int:
    """Write to a pipe without blocking for longer than `timeout_seconds`.

    Returns:
        The number of bytes written; fewer than all where the reader is slow.

    Raises:
        OSError: The reader is gone (EPIPE).
    """
    deadline = time.monotonic() + timeout_seconds
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    done = 0
    while done < len(data):
        if not poll.poll(max(0.0, 1e3 * (deadline - time.monotonic()))):
            break
        # A writable pipe takes so many bytes without blocking.
        done += os.write(fd, data[done : done + select.PIPE_BUF])
    return done


class _Console:
    """Prints events."""

    def send(self, event: Event) -> bool:
        """Print the event's text, if it has any; False where nobody reads it."""
        text = render(event)
        if text is None:
            return True
        try:
            print(text, file=sys.stderr if event.kind == "error" else sys.stdout, flush=True)
        except (OSError, ValueError):  # the reader is gone, or the file is closed
            return False
        return True

    def flush(self, timeout_seconds: float) -> None:
        """Do nothing: each event is flushed."""

    def close(self) -> None:
        """Do nothing."""


class _Stream:
    """Writes events as lines to a file descriptor of its own.

    Args:
        fd: The descriptor; closed by `close`.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.RLock()  # a signal handler may emit while this thread holds it
        self._pending = bytearray()
        self._draining = self._stalled = self._gone = False

    def send(self, event: Event) -> bool:
        """Write the event, or keep it for later where the reader is slow."""
        line = event.to_json().encode() + b"\n"
        with self._lock:
            room = MAX_BUFFER_BYTES - len(self._pending)
            if self._gone or len(line) > min(room, MAX_LINE_BYTES):
                return False
            self._pending += line
            # Once a reader has been too slow, nobody waits for it again until it has caught up.
            self._drain(0.0 if self._stalled else STALL_SECONDS)
            return not self._gone

    def flush(self, timeout_seconds: float) -> None:
        """Write what is pending."""
        with self._lock:
            self._drain(timeout_seconds)

    def close(self) -> None:
        """Close the descriptor."""
        with self._lock, contextlib.suppress(OSError):
            self._gone = True
            os.close(self._fd)

    def reset_after_fork(self) -> None:
        """Give up locks of threads that are not in this process, and lines of the parent's."""
        self._lock = threading.RLock()
        self._pending.clear()
        self._draining = False

    def _drain(self, timeout_seconds: float) -> None:
        if self._draining or self._gone:
            return  # in a signal handler: the call that it interrupted writes this line, too
        self._draining = True
        deadline = time.monotonic() + timeout_seconds
        try:
            while self._pending:
                part = bytes(self._pending[: select.PIPE_BUF])
                done = write_available(self._fd, part, deadline - time.monotonic())
                del self._pending[:done]
                if done < len(part):
                    break
            self._stalled = bool(self._pending)
        except OSError:
            self._gone = True
            self._pending.clear()
        finally:
            self._draining = False


_lock = threading.RLock()
_destination: _Console | _Stream | None = None
_rank: int | None = None


def _current() -> _Console | _Stream:
    if _destination is None:
        start()
    assert _destination is not None
    return _destination


def _open(named: str) -> int | None:
    """Return a descriptor for a value of QFLEET_EVENTS; None for the console."""
    try:
        if named == "stdout":
            sys.stdout.flush()
            return os.dup(1)  # one that stays where stdout is redirected later; not inherited
        if named.startswith("fd:"):
            fd = int(named.removeprefix("fd:"))
            # Not inherited after all, the number may by now be that of another file.
            if fd > 2 and stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.set_inheritable(fd, False)
                return fd
    except (OSError, ValueError, OverflowError, AttributeError):
        pass
    return None


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()
    if isinstance(_destination, _Stream):
        _destination.reset_after_fork()


os.register_at_fork(after_in_child=_after_fork)


def _checked(kind: str, fields: Mapping[str, object]) -> dict[str, object]:
    plain = {name: _plain(value) for name, value in fields.items()}
    if problem := _problem(kind, plain, strict=True):
        raise ValueError(problem)
    return plain


def _problem(kind: str, fields: Mapping[str, object], *, strict: bool) -> str:
    """Return what is wrong with an event's fields, or nothing; `strict` refuses unknown ones."""
    if kind not in KINDS:
        return f"{kind!r} is not a kind of event: choose one of {', '.join(KINDS)}"
    types = {**KINDS[kind].required, **KINDS[kind].optional}
    for name in KINDS[kind].required:
        if name not in fields:
            return f"an event of kind {kind} needs the field {name}"
    for name, value in fields.items():
        if name in types:
            if not isinstance(value, types[name]) or isinstance(value, bool):
                return f"the field {name} of an event of kind {kind} can't be {value!r:.100}"
        elif strict:
            return f"an event of kind {kind} has no field {name}"
    return ""


def _plain(value: object) -> object:
    """Return the value as strict JSON has it."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if callable(convert := getattr(value, "tolist", None)):  # NumPy, without importing it
        return _plain(convert())
    return str(value)
