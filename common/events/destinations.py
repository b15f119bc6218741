"""Destinations of events: the console or a byte stream; and lines in byte streams."""

import contextlib
import os
import select
import stat
import sys
import threading
import time
from collections.abc import Callable

from common.events.schema import Event
from common.text import printable

MAX_LINE_BYTES = 1 << 22
"""Longest line of an event. Longer ones are not emitted, and are cut where they are read."""

STALL_SECONDS = 0.2
"""Longest time in which one event may wait for a slow reader; it is buffered after that."""

MAX_BUFFER_BYTES = 2 * MAX_LINE_BYTES
"""Bytes buffered for a slow reader; further events are dropped until it catches up."""


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
    text = printable(event.message, keep="\n\t")
    if event.kind == "run_finished":
        commands = [printable(str(command)) for command in event.items("commands")]
        lines = ["Next steps:", *(f"  {command}" for command in commands)] if commands else []
        text = "\n".join(filter(None, [text, *lines]))
    if not text:
        return None
    if worker_prefix and event.rank:
        text = f"worker {event.rank}: {text}"
    return f"qfleet: {text}" if event.kind == "error" else text


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
        # A writable pipe takes PIPE_BUF bytes without blocking.
        done += os.write(fd, data[done : done + select.PIPE_BUF])
    return done


class Console:
    """Prints events."""

    def send(self, event: Event) -> bool:
        """Print the event's text, if it has any; False where its reader is gone."""
        text = render(event)
        if text is None:
            return True
        try:
            print(text, file=sys.stderr if event.kind == "error" else sys.stdout, flush=True)
        except (OSError, ValueError):  # the reader is gone, or the file is closed
            return False
        return True

    def interrupt(self, action: Callable[[], None]) -> None:
        """Call `action` at once: a line that was printed is not printed again."""
        action()

    def encode(self, event: Event) -> tuple[int, bytes]:
        """Return the file descriptor and the bytes of `send`."""
        text = render(event)
        return 2 if event.kind == "error" else 1, f"{text}\n".encode() if text else b""

    def flush(self, timeout_seconds: float) -> None:
        """Do nothing: each event is flushed."""

    def close(self) -> None:
        """Do nothing."""


class Stream:
    """Writes events as lines to a file descriptor of its own.

    Args:
        fd: The descriptor; closed by `close`.
        inherited: It is the pipe that the parent process reads.
    """

    def __init__(self, fd: int, *, inherited: bool = False) -> None:
        self._fd, self.inherited = fd, inherited
        self._lock = threading.RLock()  # a signal handler may emit while this thread holds it
        self._pending = bytearray()
        self._writer: int | None = None  # the thread that is writing
        self._stalled = self._gone = False
        self._interrupt: Callable[[], None] | None = None

    def send(self, event: Event) -> bool:
        """Write the event, or keep it for later where the reader is slow."""
        _, line = self.encode(event)
        with self._lock:
            room = MAX_BUFFER_BYTES - len(self._pending)
            if self._gone or len(line) > min(room, MAX_LINE_BYTES):
                return False
            self._pending += line
            # After one stall, later events do not wait until the reader has caught up.
            self._drain(0.0 if self._stalled else STALL_SECONDS)
            return not self._gone

    def encode(self, event: Event) -> tuple[int, bytes]:
        """Return the file descriptor and the bytes of `send`."""
        return self._fd, event.to_json().encode() + b"\n"

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
        """Replace locks that threads of the parent may hold, and drop its pending lines."""
        self._lock = threading.RLock()
        self._pending.clear()
        self._writer = None

    def interrupt(self, action: Callable[[], None]) -> None:
        """Call `action`, which may raise, as soon as this thread is not writing.

        An exception between the write of a line and its removal would write the line twice.

        Args:
            action: The rest of a signal handler.
        """
        if self._writer == threading.get_ident():
            self._interrupt = action
        else:
            action()

    def _drain(self, timeout_seconds: float) -> None:
        if self._writer is not None or self._gone:
            return  # in a signal handler: the interrupted call writes this line, too
        self._writer = threading.get_ident()
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
            self._writer = None
            action, self._interrupt = self._interrupt, None
            if action:
                action()


def open_destination(named: str) -> Console | Stream:
    """Return the destination for a value of QFLEET_EVENTS; the console where it can't be used."""
    try:
        if named == "stdout":
            sys.stdout.flush()
            # A copy stays where it is when stdout is redirected later; children don't inherit it.
            return Stream(os.dup(1))
        if named.startswith("fd:"):
            fd = int(named.removeprefix("fd:"))
            # Where the pipe was not inherited, the number may belong to another file by now.
            if fd > 2 and stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.set_inheritable(fd, False)
                return Stream(fd, inherited=True)
    except (OSError, ValueError, OverflowError, AttributeError):
        pass
    return Console()
