"""The part of the watchdog that needs no interpreter lock: qfleet/native/process/watchdog.cc.

A call into a library that keeps the lock, such as the loading of TensorFlow from a slow disk, stops
all Python threads. This thread continues: it touches the heartbeat file, and ends the process.
"""

import contextlib
import ctypes
import os
import threading
import time
from pathlib import Path

from common import events
from qfleet.native.libraries import process_path

NO_LIMIT_SECONDS = 1e15

TOUCH_SECONDS = 0.5
"""Interval between two touches of a heartbeat file without a watchdog."""


class NativeWatchdog:
    """A native thread that ends this process at a limit. Start at most one.

    Args:
        heartbeat_file: File that it touches while the limits hold; None for none.
        interval_seconds: Interval between two checks.

    Raises:
        OSError: The library is not built, or the thread can't be started.
    """

    def __init__(self, heartbeat_file: Path | None, interval_seconds: float) -> None:
        self._library = ctypes.CDLL(str(process_path()))
        report = (ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_int64)
        seconds = ctypes.c_double
        self._library.qfleet_watchdog_start.argtypes = (ctypes.c_char_p, seconds)
        self._library.qfleet_watchdog_enter.argtypes = (seconds, seconds, *report)
        self._library.qfleet_watchdog_deadline.argtypes = (seconds, *report)
        for name in ("enter", "progress", "deadline"):
            getattr(self._library, f"qfleet_watchdog_{name}").restype = None
        self.progress = self._library.qfleet_watchdog_progress
        file = str(heartbeat_file or "").encode()
        if code := self._library.qfleet_watchdog_start(file, interval_seconds):
            raise OSError(code, "the native watchdog can't start a thread")

    def enter(self, limit_seconds: float, grace_seconds: float, text: str, exit_code: int) -> None:
        """Begin a stage.

        Args:
            limit_seconds: Time until the next `enter` or `progress`, in which the file is touched.
            grace_seconds: Time after that until the process ends.
            text: What is reported then.
            exit_code: Exit code of the process.
        """
        limit = min(limit_seconds, NO_LIMIT_SECONDS)
        report = _report(text, exit_code)
        self._library.qfleet_watchdog_enter(limit, grace_seconds, exit_code, *report)

    def set_deadline(self, seconds: float, text: str, exit_code: int) -> None:
        """End the process after some seconds from now, plus the stage's grace."""
        seconds = min(seconds, NO_LIMIT_SECONDS)
        self._library.qfleet_watchdog_deadline(seconds, exit_code, *_report(text, exit_code))


def _report(text: str, exit_code: int) -> tuple[int, bytes, int]:
    fd, line = events.encode("error", text, exit_code=exit_code)
    return fd, line, len(line)


def start_heartbeat(heartbeat_file: str) -> None:
    """Touch a file from now on, as long as this process is not stopped; "" is none."""
    if not heartbeat_file:
        return
    file = Path(heartbeat_file)
    file.touch()
    try:
        NativeWatchdog(file, TOUCH_SECONDS)
    except OSError:  # the library is not built
        threading.Thread(target=_touch, args=(file,), name="heartbeat", daemon=True).start()


def _touch(file: Path) -> None:
    while True:
        with contextlib.suppress(OSError):
            os.utime(file)
        time.sleep(TOUCH_SECONDS)
