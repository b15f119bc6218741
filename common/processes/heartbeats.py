"""Heartbeat files: a process touches its file while it runs (common/native_watchdog.py)."""

import time
from collections.abc import Mapping
from pathlib import Path

MAX_POLL_SECONDS = 1.0
"""Most seconds that count between two checks; more have passed where this process did not run."""


class Heartbeats:
    """The heartbeat files of workers, as their supervisor sees them.

    Time in which the supervisor itself did not run does not count.

    Args:
        files: By name of the process.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = dict(files)
        self._touched = dict.fromkeys(files, 0)  # time of the last change, in ns
        self._ages = dict.fromkeys(files, 0.0)
        self._checked = time.monotonic()

    def stale(self, limit_seconds: float) -> list[str]:
        """Return the processes whose file was not touched for longer than the limit."""
        now = time.monotonic()
        passed = min(now - self._checked, MAX_POLL_SECONDS)
        self._checked = now
        for name, file in self._files.items():
            try:
                touched = file.stat().st_mtime_ns
            except OSError:  # removed by another process, such as a cleaner of temporary folders
                touched = 0
            fresh = touched != self._touched[name]
            self._ages[name] = 0.0 if fresh else self._ages[name] + passed
            self._touched[name] = touched
        return [name for name, age in self._ages.items() if age > limit_seconds]
