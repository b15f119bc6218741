"""Lines that name what a program waits for, so that it is never silent for long."""

import sys
import threading
import time
from typing import Self

from common import events

TERMINAL_SECONDS = 4.0
"""Longest silence on a terminal."""

PIPE_SECONDS = 9.0
"""Longest silence in a file or a pipe."""


def silence_seconds() -> float:
    """Return the time after which this process's reader wants to know what it waits for."""
    return TERMINAL_SECONDS if sys.stdout.isatty() else PIPE_SECONDS


class Waiting:
    """A context that emits what it waits for, every few seconds while its body runs.

    Args:
        what: What the body waits for, as a noun phrase. It may change meanwhile.

    Attributes:
        what: The same.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._started = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="waiting", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Emit nothing from now on; the end of the body does this too."""
        self._done.set()

    def _run(self) -> None:
        while not self._done.wait(silence_seconds()):
            self._report(time.monotonic() - self._started)

    def _report(self, seconds: float) -> None:
        events.emit("log", f"Waiting: {self.what} ({seconds:.0f} s)", level="INFO")
