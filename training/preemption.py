"""SIGTERM: a machine that is wanted back, a pod that is deleted, Ctrl-C in the terminal.

The signal is taken by a thread of its own, because Python runs handlers between two steps of its
main thread only, and that one may sit in a call into TensorFlow for long; and because TensorFlow
would else take the signal for itself. So it must be blocked before TensorFlow starts its threads.
"""

import contextlib
import ctypes
import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import NoReturn

from common.errors import Preempted, write_termination_message

log = logging.getLogger("qfleet")

PR_SET_PDEATHSIG = 1
LOG_UPLOAD_TIMEOUT_SECONDS = 3.0


class Preemption:
    """Whether this worker is to leave, and what it does then.

    A worker that is not the chief leaves at once, and so does the chief before it trains. Later
    the chief leaves a checkpoint at the next step boundary: `requested` tells its training loop.
    Where that boundary does not come within `patience` seconds (its peers may be gone, and their
    exchange with them), `on_stuck` is called, which commits the state of the last boundary.
    Who leaves from here has `farewell` called first, which sends the logs.
    """

    def __init__(self, *, is_chief: bool, patience: float = 5.0) -> None:
        self.is_chief = is_chief
        self.patience = patience
        self.requested = threading.Event()
        self.on_stuck: Callable[[], None] | None = None
        self.farewell: Callable[[], None] | None = None

    def watch(self) -> None:
        """Block SIGTERM in this thread and all that it starts from now on, and wait for it."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=self._wait, name="preemption", daemon=True).start()

    def _wait(self) -> None:
        signal.sigwait({signal.SIGTERM})
        self.requested.set()
        if not self.is_chief or self.on_stuck is None:
            self._leave()
        # Training is left by the main thread; this one is left only if that never happens.
        threading.Event().wait(self.patience)
        try:
            self.on_stuck()
        finally:
            self._leave()

    def _leave(self) -> NoReturn:
        """End the process, with its logs sent if that takes no longer than FAREWELL seconds."""
        log.warning("stopped by SIGTERM")
        write_termination_message("stopped by SIGTERM")
        if self.farewell:
            sending = threading.Thread(target=self.farewell, daemon=True)
            sending.start()
            sending.join(LOG_UPLOAD_TIMEOUT_SECONDS)
        os._exit(Preempted.exit_code)


def exit_with_parent() -> None:
    """Ask the kernel for SIGTERM when the process that started this one dies (Linux only)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
