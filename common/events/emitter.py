"""The events of this process: `emit`, and the handler that emits log records."""

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable

from common.events.destinations import Console, Stream, open_destination
from common.events.schema import Event, checked_fields

ENVIRONMENT_VARIABLE = "QFLEET_EVENTS"

_lock = threading.RLock()
_destination: Console | Stream | None = None
_rank: int | None = None


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
            _destination = open_destination(named)


def is_streaming() -> bool:
    """Return True where events go to a stream and not to this process's console."""
    return isinstance(_current(), Stream)


def is_read_by_parent() -> bool:
    """Return True where the parent process reads the events from a pipe (`ManagedProcess`)."""
    destination = _current()
    return isinstance(destination, Stream) and destination.inherited


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
    plain = checked_fields(kind, fields)
    return forward(Event(kind, time.time(), _rank if rank is None else rank, message, plain))


def encode(kind: str, message: str = "", **fields: object) -> tuple[int, bytes]:
    """Return the file descriptor and the bytes with which native code emits an event."""
    event = Event(kind, time.time(), _rank, message, checked_fields(kind, fields))
    return _current().encode(event)


def forward(event: Event) -> bool:
    """Send an event of another process to the destination of this one; see `emit`."""
    sent = _current().send(event)
    if not sent and event.kind == "error":
        return Console().send(event)
    return sent


def flush(timeout_seconds: float = 5.0) -> None:
    """Send what is buffered for a slow reader. Call it before `os._exit`; a normal exit does."""
    if _destination is not None:
        _destination.flush(timeout_seconds)


def interrupt(action: Callable[[], None]) -> None:
    """Call `action` from a signal handler; use it for handlers that raise.

    Where the signal came in the middle of an event, the call follows that event.
    """
    if _destination is None:
        action()
    else:
        _destination.interrupt(action)


def log_event(kind: str, message: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Log a record of the "qfleet" logger that `LogHandler` emits as an event of another kind.

    Use it for what belongs in text logs too: other handlers see a plain record. Below INFO, the
    record is not printed on a console, but the event is still sent to a stream.

    Raises:
        ValueError: As `emit`.
    """
    extra = {"event_kind": kind, "event_fields": checked_fields(kind, fields)}
    logging.getLogger("qfleet").log(level, "%s", message, extra=extra)


class LogHandler(logging.Handler):
    """Emits log records as events: of kind "log", or of the kind given to `log_event`.

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
        except Exception:  # a record that can't be formatted must not end the program
            self.handleError(record)

    def flush(self) -> None:
        """Send what is buffered for a slow reader."""
        flush()


def _current() -> Console | Stream:
    if _destination is None:
        start()
    assert _destination is not None
    return _destination


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()
    if isinstance(_destination, Stream):
        _destination.reset_after_fork()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(flush)
