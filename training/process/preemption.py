"""SIGTERM: a preempted machine, a deleted pod, or Ctrl-C in the terminal.

A thread of its own waits for the signal. Python runs signal handlers in the main thread only, which
may be in a call into TensorFlow for long, and TensorFlow installs a handler of its own. So SIGTERM
must be blocked before TensorFlow starts its threads.
"""

import signal
import threading

from common.errors import Preempted
from training.process.watchdog import BOUNDARY_TIMEOUT_SECONDS, Watchdog


class Preemption:
    """SIGTERM of this worker, and the exit after it.

    A worker other than the chief exits at once, and so does the chief before it trains. A training
    chief sets `requested`, and its training loop writes a checkpoint at the next step boundary. If
    that boundary does not come in time, for example because peers are gone, the watchdog commits
    the state of the last one.

    Args:
        watchdog: Ends the process.
        is_chief: Let the training loop write a checkpoint.
        boundary_timeout_seconds: Time for the training loop to do so.

    Attributes:
        requested: Set after SIGTERM.
        watchdog: Ends the process.
    """

    def __init__(
        self,
        watchdog: Watchdog,
        *,
        is_chief: bool,
        boundary_timeout_seconds: float = BOUNDARY_TIMEOUT_SECONDS,
    ) -> None:
        self.watchdog = watchdog
        self.is_chief = is_chief
        self.requested = threading.Event()
        self._boundary_timeout_seconds = boundary_timeout_seconds

    def watch(self) -> None:
        """Block SIGTERM in this thread and all later ones, and wait for it in a thread."""
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=self._wait, name="preemption", daemon=True).start()

    def _wait(self) -> None:
        signal.sigwait({signal.SIGTERM})
        self.requested.set()
        if self.is_chief and self.watchdog.can_commit:
            # Normally, the main thread ends the process in the meantime.
            threading.Event().wait(self._boundary_timeout_seconds)
        self.watchdog.end(Preempted("stopped by SIGTERM"))
