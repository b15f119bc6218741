"""The watchdog of a worker: a limit for everything that can block, and one way out of a thread.

The main thread names the stage that it is in. A daemon thread ends the process when a stage makes
no progress within its limit, and when DEADLINE passes, also while the main thread is inside
TensorFlow, a socket or the storage client. A second one does the same a little later without
Python's interpreter lock (common/native_watchdog.py), where a library keeps that lock.

While all limits hold, the heartbeat file is touched. A supervisor (local_launcher.py, or the
kubelet) kills a process whose file is not: one that is stopped, or can't end.

Time in which this process did not run (SIGSTOP, a suspended machine) does not count as waiting.
"""

import contextlib
import functools
import logging
import math
import os
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from common import events
from common.errors import (
    DeadlineReached,
    QfleetError,
    RetryableError,
    Stalled,
    as_qfleet_error,
    one_line,
    write_termination_message,
)
from common.native_watchdog import NativeWatchdog
from common.waiting import silence_seconds

log = logging.getLogger("qfleet")

TICK_SECONDS = 0.5
"""Interval between two checks, and between two touches of the heartbeat file."""

MAX_TICK_SECONDS = 2.0
"""Most seconds that count between two checks; more have passed where this process did not run."""

REPORT_SECONDS = 20.0
"""Interval between two log lines about a stage without progress; the chief's is shorter."""

STALL_FACTOR = 20.0
"""Limit of a repeated call, as a multiple of the slowest recent one."""

RECENT_CALLS = 50
"""Calls of a kind whose durations are kept."""

STORAGE_SECONDS = 240.0
"""Limit of a stage with several requests to storage, each of which is retried for a minute."""

EXIT_SECONDS = 150.0
"""Limit of the orderly end of a worker: the last uploads, and the release of the run."""

BOUNDARY_TIMEOUT_SECONDS = 5.0
"""Time for the chief to reach its next step boundary after SIGTERM or DEADLINE."""

DEADLINE_GRACE_SECONDS = 10.0
"""Further time of the other workers after DEADLINE, in which the chief usually ends first."""

COMMIT_TIMEOUT_SECONDS = 12.0
CAUSE_TIMEOUT_SECONDS = 3.0
UPLOAD_TIMEOUT_SECONDS = 3.0
LOG_TIMEOUT_SECONDS = 1.0
"""Longest times of the parts of `end`."""

END_SECONDS = 22.0
"""Longest time of `end`, after which the native thread ends the process."""


@dataclass(frozen=True, eq=False)
class _Stage:
    name: str
    limit_seconds: float
    text: str
    exit_code: int


class Watchdog:
    """Limits of one worker's main thread. Create it before any slow import.

    Args:
        rank: Rank of this worker.
        stall_timeout_min: Shortest limit of a repeated call, in seconds (STALL_TIMEOUT_MIN).
        stall_timeout_max: Longest limit of a repeated call, and that of its first one, in seconds
            (STALL_TIMEOUT_MAX).
        heartbeat_file: File that is touched while all limits hold; None for none.
        tick_seconds: Interval between two checks.

    Attributes:
        is_ending: True while the main thread ends this worker because of an error of its own.
    """

    def __init__(
        self,
        rank: int = 0,
        *,
        stall_timeout_min: float = 60.0,
        stall_timeout_max: float = 1800.0,
        heartbeat_file: Path | None = None,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        self.is_ending = False
        self._commit: Callable[[], None] | None = None
        self._record: Callable[[str, int], None] | None = None
        self._upload: Callable[[], None] | None = None
        self._rank = rank
        self._min, self._max = stall_timeout_min, stall_timeout_max
        self._heartbeat_file = heartbeat_file
        self._tick = tick_seconds
        self._native: NativeWatchdog | None = None
        self._deadline: float | None = None
        self._progress = 0  # counts calls of `progress`
        self._recent: dict[str, deque[float]] = {}
        self._ending = threading.Lock()
        self._current = self._stage("start", stall_timeout_max, Stalled)

    @property
    def stage(self) -> str:
        """The stage that the main thread is in, for log lines and heartbeats."""
        return self._current.name

    @property
    def can_commit(self) -> bool:
        """True where `end` commits the state of the last step boundary."""
        return self._commit is not None

    def at_end(
        self,
        *,
        commit: Callable[[], None] | None = None,
        record: Callable[[str, int], None] | None = None,
        upload: Callable[[], None] | None = None,
    ) -> None:
        """Let `end` call these functions, besides those that were given before.

        Args:
            commit: Commits the state of the last step boundary; the chief's, while it trains.
            record: Records the cause and the exit code of this start.
            upload: Uploads the text logs.
        """
        self._commit = commit or self._commit
        self._record = record or self._record
        self._upload = upload or self._upload

    def start(self) -> None:
        """Watch in daemon threads from now on."""
        if self._heartbeat_file:
            self._heartbeat_file.touch()
        with contextlib.suppress(OSError):  # no native library: the Python thread does it all
            self._native = NativeWatchdog(self._heartbeat_file, self._tick)
        self._begin(self._current)
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def enter(
        self, stage: str, limit_seconds: float, error: type[RetryableError] = Stalled
    ) -> None:
        """Begin a stage; only the main thread calls this.

        Args:
            stage: What the worker does or waits for, as a noun phrase.
            limit_seconds: Time until the next `enter` or `progress`, at most.
            error: The kind of error that ends the process at the limit: its exit code.
        """
        self._begin(self._stage(stage, limit_seconds, error))

    def progress(self) -> None:
        """Restart the limit of the current stage; it is cheap enough for inner loops."""
        self._progress += 1
        if self._native:
            self._native.progress()

    @contextlib.contextmanager
    def within(
        self, stage: str, limit_seconds: float, error: type[RetryableError] = Stalled
    ) -> Iterator[None]:
        """Be in a stage in the body, and in the one before it again afterwards."""
        outer = self._current
        self.enter(stage, limit_seconds, error)
        yield
        self._begin(outer)

    @contextlib.contextmanager
    def call(self, stage: str) -> Iterator[float]:
        """Be in a stage for a call that repeats; its limit follows from the recent ones.

        Yields:
            The limit in seconds.
        """
        limit = self.limit(stage)
        began = time.monotonic()
        with self.within(stage, limit):
            yield limit
            duration = time.monotonic() - began
        self._recent.setdefault(stage, deque(maxlen=RECENT_CALLS)).append(duration)

    def limit(self, stage: str) -> float:
        """Return the limit of the next call of a stage, in seconds."""
        recent = self._recent.get(stage)
        if not recent:
            return self._max
        return min(self._max, max(self._min, STALL_FACTOR * max(recent)))

    def allow(self, seconds: float) -> None:
        """Let each repeated call take this much longer, for requests to storage in it."""
        self._min += seconds

    def set_deadline(self, deadline: float | None) -> None:
        """Set the `time.monotonic()` at which the process is to end; None for no such time."""
        self._deadline = deadline
        if self._native:
            seconds = math.inf if deadline is None else self._deadline_limit(deadline)
            self._native.set_deadline(
                seconds - time.monotonic(), "DEADLINE reached", DeadlineReached.exit_code
            )

    @contextlib.contextmanager
    def orderly_end(self) -> Iterator[None]:
        """Limit what runs after an error in the body; it keeps that error's exit code."""
        try:
            yield
        except BaseException as error:
            self.is_ending = True
            known = as_qfleet_error(error)
            text = one_line(known) if known else f"did not end after {error!r}"
            code = known.exit_code if known else Stalled.exit_code
            self._begin(_Stage("the end of this worker", EXIT_SECONDS, text, code))
            raise

    def end(self, error: QfleetError) -> NoReturn:
        """End this process with the error's exit code. Any thread may call this.

        The chief commits the last step boundary. The cause is logged and recorded, and the logs
        are uploaded. Each part has a limit, since storage may hang.
        """
        self._end(one_line(error), error.exit_code)

    def _stage(self, name: str, limit_seconds: float, error: type[RetryableError]) -> _Stage:
        text = (
            f"worker {self._rank} made no progress in {limit_seconds:.0f} seconds, the limit of"
            f" this stage: {name}; it exits, so that all workers restart"
        )
        return _Stage(name, limit_seconds, text, error.exit_code)

    def _begin(self, stage: _Stage) -> None:
        if self._ending.locked():
            return  # the limit is that of `end` now
        self._current = stage
        if self._native:
            self._native.enter(stage.limit_seconds, END_SECONDS, stage.text, stage.exit_code)

    def _end(self, text: str, exit_code: int) -> NoReturn:
        if not self._ending.acquire(blocking=False):
            threading.Event().wait()  # another thread ends the process
        try:
            if self._native:
                self._native.enter(END_SECONDS, 0.0, text, exit_code)
            self._touch()
            if threading.current_thread() is not threading.main_thread():
                self._bounded("", _log_main_stack, LOG_TIMEOUT_SECONDS)
            self._bounded("", lambda: _report(text, exit_code), LOG_TIMEOUT_SECONDS)
            if self._commit:
                self._bounded("the checkpoint", self._commit, COMMIT_TIMEOUT_SECONDS)
            if record := self._record:
                self._bounded("the cause", lambda: record(text, exit_code), CAUSE_TIMEOUT_SECONDS)
            if self._upload:
                self._bounded("logs", self._upload, UPLOAD_TIMEOUT_SECONDS)
            self._bounded("", lambda: events.flush(LOG_TIMEOUT_SECONDS), LOG_TIMEOUT_SECONDS)
        finally:
            os._exit(exit_code)

    def _bounded(self, what: str, action: Callable[[], None], seconds: float) -> None:
        """Run an action in a thread, and give up on it after some time."""

        def act() -> None:
            try:
                action()
            except Exception as error:
                if what:
                    log.warning(f"{what} could not be written: {one_line(error)}")

        thread = threading.Thread(target=act, name="end", daemon=True)
        thread.start()
        thread.join(seconds)

    def _watch(self) -> None:
        seen: tuple[_Stage, int] | None = None
        waited, next_report = 0.0, 0.0
        last = time.monotonic()
        while not self._ending.locked():
            time.sleep(self._tick)
            now = time.monotonic()
            waited += min(now - last, MAX_TICK_SECONDS)
            last = now
            stage, progress = self._current, self._progress
            if (stage, progress) != seen:
                seen, waited, next_report = (stage, progress), 0.0, self._report_interval
            if waited >= stage.limit_seconds:
                self._end(stage.text, stage.exit_code)
            if self._deadline is not None and now >= self._deadline_limit(self._deadline):
                self.end(
                    DeadlineReached(
                        f"DEADLINE reached, in the stage: {stage.name}; the same command resumes"
                        " from the newest checkpoint, if there is one"
                    )
                )
            self._touch()
            if waited >= next_report:
                next_report += self._report_interval
                self._report_wait(stage, waited)

    def _deadline_limit(self, deadline: float) -> float:
        """Return when to end, if the main thread does not: it may be close to a boundary."""
        grace = 0.0 if self.can_commit else DEADLINE_GRACE_SECONDS
        return deadline + BOUNDARY_TIMEOUT_SECONDS + grace

    @property
    def _report_interval(self) -> float:
        return REPORT_SECONDS if self._rank else min(REPORT_SECONDS, silence_seconds())

    def _report_wait(self, stage: _Stage, waited: float) -> None:
        limit = "" if math.isinf(stage.limit_seconds) else f" of at most {stage.limit_seconds:.0f}"
        text = f"Waiting: {stage.name} ({waited:.0f}{limit} seconds)"
        report = functools.partial(
            events.log_event, "waiting", text, missing=[], seconds=round(waited, 1)
        )
        self._bounded("", report, LOG_TIMEOUT_SECONDS)

    def _touch(self) -> None:
        if self._heartbeat_file and not self._native:
            with contextlib.suppress(OSError):
                os.utime(self._heartbeat_file)


def _log_main_stack() -> None:
    """Log where the main thread is; in the log files only, for whoever looks for the cause."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is not None:
        log.debug("The main thread is here:\n" + "".join(traceback.format_stack(frame)))


def _report(text: str, exit_code: int) -> None:
    write_termination_message(text)
    events.log_event("error", text, level=logging.ERROR, exit_code=exit_code)
