"""SIGTERM: a preempted machine, a deleted pod, or Ctrl-C in the terminal.

A thread of its own waits for the signal. Python runs signal handlers in the main thread only, which
may be in a call into TensorFlow for long, and TensorFlow installs a handler of its own. So SIGTERM
must be blocked before TensorFlow starts its threads.
"""

import ctypes
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from common import events
from common.errors import Preempted, write_termination_message

log = logging.getLogger("qfleet")

LOG_UPLOAD_TIMEOUT_SECONDS = 3.0
"""Longest time for the upload of logs after SIGTERM."""

BOUNDARY_TIMEOUT_SECONDS = 5.0
"""Time for the chief to reach its next step boundary after SIGTERM."""

PARENT_POLL_SECONDS = 1.0
"""Interval between two checks of the parent, where the kernel sends no signal when it ends."""

PR_SET_PDEATHSIG = 1


class Preemption:
    """SIGTERM of this worker, and the exit after it.

    A worker other than the chief exits at once, and so does the chief before it trains. A training
    chief sets `requested`, and its training loop writes a checkpoint at the next step boundary. If
    that boundary does not come in time, for example because peers are gone, `on_stuck` commits the
    state of the last one.

    Args:
        is_chief: Let the training loop write a checkpoint.
        boundary_timeout_seconds: Time until `on_stuck` is called.

    Attributes:
        requested: Set after SIGTERM.
        on_stuck: Commits the newest state; None before training begins.
        upload_logs: Called before this thread ends the process.
    """

    def __init__(
        self, *, is_chief: bool, boundary_timeout_seconds: float = BOUNDARY_TIMEOUT_SECONDS
    ) -> None:
        self.is_chief = is_chief
        self.requested = threading.Event()
        self.on_stuck: Callable[[], None] | None = None
        self.upload_logs: Callable[[], None] | None = None
        self._boundary_timeout_seconds = boundary_timeout_seconds

    def watch(self) -> None:
        """Block SIGTERM in this thread and all later ones, and wait for it in a thread."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=self._wait, name="preemption", daemon=True).start()

    def _wait(self) -> None:
        signal.sigwait({signal.SIGTERM})
        self.requested.set()
        if not self.is_chief or self.on_stuck is None:
            self._exit()
        # Normally, the main thread ends the process in the meantime.
        threading.Event().wait(self._boundary_timeout_seconds)
        try:
            self.on_stuck()
        finally:
            self._exit()

    def _exit(self) -> NoReturn:
        """End the process; upload its logs before, for a limited time."""
        log.warning("stopped by SIGTERM")
        write_termination_message("stopped by SIGTERM")
        if self.upload_logs:
            upload = threading.Thread(target=self.upload_logs, daemon=True)
            upload.start()
            upload.join(LOG_UPLOAD_TIMEOUT_SECONDS)
        events.flush(timeout_seconds=1.0)
        os._exit(Preempted.exit_code)


def exit_with_parent() -> None:
    """Send this process SIGTERM when its parent ends.

    The kernel does it on Linux. On other systems a thread checks the parent every second.
    """
    parent = os.getppid()
    try:
        if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM) == 0:
            return
    except (OSError, AttributeError):
        pass

    def poll_parent() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    if parent != 1:  # the first process of a container has no parent to lose
        threading.Thread(target=poll_parent, name="parent", daemon=True).start()
