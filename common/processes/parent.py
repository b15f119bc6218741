"""The end of a process with its parent."""

import ctypes
import os
import signal
import threading
import time

PARENT_POLL_SECONDS = 1.0
"""Interval between two checks of the parent, where the kernel sends no signal when it ends."""

PR_SET_PDEATHSIG = 1


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
