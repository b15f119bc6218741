"""The common parts of both sides of the rendezvous: times, clocks, logged waits, and the end."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self

from common.errors import (
    EXIT_BUG,
    EXIT_INTERRUPTED,
    DeadlineReached,
    PeerLost,
    QfleetError,
    RetryableError,
    RunError,
    as_qfleet_error,
    one_line,
)
from common.events import log_event
from common.waiting import Waiting
from training.group.channel import Message
from training.process.preemption import Preemption
from training.process.watchdog import Watchdog

log = logging.getLogger("qfleet")

POLL_SECONDS = 0.2
"""Pause between two looks at all connections."""

HEARTBEAT_SECONDS = 2.0
"""Interval of the messages by which both sides know that the other one is alive."""

WAITING_SILENCE_SECONDS = 10.0
"""Silence after which a connection is dropped before the start; the worker connects again."""

MAX_COUNTED_SECONDS = 1.0
"""Most that one look at the connections adds to a peer's silence: a process that was itself stopped
or starved has not listened meanwhile."""

GRACE_SECONDS = 1.0
"""Time for the main thread to report an error of its own before the loss of a peer ends it."""

LOSS_SECONDS = 3.0
"""Time for the reason of a failed call to arrive."""

LINGER_SECONDS = 1.0
"""Time for the other side to read the last message."""

# Kinds of messages.
HELLO, WAITING, START = "hello", "waiting", "start"
BEAT, END, BYE = "beat", "end", "bye"


class OnLoss(Protocol):
    """Called in the thread of the connections when the group can't continue."""

    def __call__(self, error: QfleetError) -> None:
        """Begin to end this process."""


class EndOnLoss:
    """Ends this process when the group can't continue, wherever the main thread is.

    Args:
        watchdog: Ends the process.
        preemption: After SIGTERM, its own thread does.
    """

    def __init__(self, watchdog: Watchdog, preemption: Preemption) -> None:
        self._watchdog, self._preemption = watchdog, preemption

    def __call__(self, error: QfleetError) -> None:
        """End this process after a pause; returns at once."""
        threading.Thread(target=self._end, args=(error,), name="peer lost", daemon=True).start()

    def _end(self, error: QfleetError) -> None:
        time.sleep(GRACE_SECONDS)
        if not (self._preemption.requested.is_set() or self._watchdog.is_ending):
            self._watchdog.end(error)


class PatientClock:
    """Measures silence by time in which this process did look; see MAX_COUNTED_SECONDS."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def elapsed(self) -> float:
        """Return the seconds since the last call, at most MAX_COUNTED_SECONDS."""
        now = time.monotonic()
        seconds, self._last = now - self._last, now
        return min(seconds, MAX_COUNTED_SECONDS)


class WaitLog(Waiting):
    """Logs which workers this process waits for, also while a call blocks.

    Attributes:
        missing: Ranks that are missing.
    """

    def __init__(self, what: str, missing: Sequence[int]) -> None:
        super().__init__(what)
        self.missing = missing

    def _report(self, seconds: float) -> None:
        text = f"Waiting for {self.what}"
        log_event("waiting", text, missing=[*self.missing], seconds=round(seconds, 1))


class GroupMember:
    """Abstract base of both sides: reports to the other workers how this one ends, once.

    As a context, it closes all connections at its end.

    Attributes:
        group_secret: The secret of this start, once all workers start; empty for a single worker.
    """

    def __init__(self, on_loss: OnLoss) -> None:
        self.group_secret = b""
        self._left = False
        self._on_loss = on_loss
        self._loss: QfleetError | None = None
        self._has_loss = threading.Event()

    def wait_for_loss(self) -> QfleetError | None:
        """Return why the group can't continue, as the other workers reported it.

        A call that fails because a peer ended is often earlier than that peer's last message.

        Returns:
            The reason; None where there is none within LOSS_SECONDS.
        """
        self._has_loss.wait(LOSS_SECONDS)
        return self._loss

    def _lose_group(self, error: QfleetError) -> None:
        self._loss = error
        self._has_loss.set()
        self._on_loss(error)

    def finish(self) -> None:
        """Report that this worker has done its part: from now on, its end is not a loss."""
        if not self._left:
            self._left = True
            self._send_last({"kind": BYE})

    def report(self, error: BaseException) -> None:
        """Report to the others why this worker ends."""
        if not self._left:
            self._left = True
            self._send_last(end_message(error))

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        """Report the error of the context's body, before outer contexts end."""
        try:
            yield
        except BaseException as error:
            self.report(error)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.report(error)
        self.close()

    def close(self) -> None:
        """Close all connections, after the last messages are sent."""
        raise NotImplementedError

    def _send_last(self, message: Message) -> None:
        raise NotImplementedError


def end_message(error: BaseException) -> Message:
    """Return the message that a worker sends when an error ends it."""
    known = as_qfleet_error(error)
    if known:
        return {"kind": END, "exit_code": known.exit_code, "text": one_line(known)}
    if isinstance(error, Exception):
        return {"kind": END, "exit_code": EXIT_BUG, "text": f"a bug: {type(error).__name__}"}
    return {"kind": END, "exit_code": EXIT_INTERRUPTED, "text": "interrupted"}


def verdict_message(error: QfleetError) -> Message:
    """Return the message by which the chief ends all workers with its own error."""
    return end_message(error) | {"verdict": True}


def error_of_end(message: Message, who: str) -> QfleetError:
    """Return the error that another worker's end is for this one.

    A permanent error of one worker ends all of them permanently, with its sentence. DEADLINE ends
    them all, too.

    Args:
        message: The message of kind END.
        who: The worker that sent it.
    """
    code, text = message.get("exit_code"), str(message.get("text", ""))
    is_verdict = bool(message.get("verdict"))
    if type(code) is int and 0 < code < RetryableError.exit_code:
        return RunError(text if is_verdict else f"{who} failed: {text}")
    if code == DeadlineReached.exit_code:
        return DeadlineReached(text)
    return PeerLost(text if is_verdict else f"{who} ended ({text}): all workers restart")


Stage = Callable[[], str]
