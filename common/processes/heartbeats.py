"""Heartbeat files: a process touches its file while it runs (common/native_watchdog.py)."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from common import events
from common.processes.managed import ManagedProcess

LIVENESS_SECONDS = 20.0
"""Time without a touch of its heartbeat file after which a process is killed. A thread of the
process touches the file every second while the main thread makes progress."""

MAX_POLL_SECONDS = 1.0
"""Most seconds that count between two checks; more have passed where this process did not run."""

QUIET_SECONDS = 2.0
"""Silence from which on the state of a process is read; a healthy one touches its file earlier."""

STARVED_FACTOR = 10.0
"""Longest silence of a process that waits for a processor or its disk, in limits."""


@dataclass
class _Heartbeat:
    process: ManagedProcess
    file: Path
    touched: int = 0  # time of the last change, in ns
    silence: float = 0.0  # seconds since then
    age: float = 0.0  # the part of the silence that counts
    cpu: float = 0.0  # processor time used before the last look at the process, in seconds

    def check(self, passed: float) -> None:
        """Look at the file and the process, some seconds after the last time."""
        touched = _modified(self.file)
        if touched != self.touched:
            self.touched, self.silence, self.age = touched, 0.0, 0.0
            return
        self.silence += passed
        self.age += passed if self.silence < QUIET_SECONDS else self._not_starved(passed)

    def _not_starved(self, passed: float) -> float:
        """Return the part of the time in which the process waited for no processor and no disk."""
        if sys.platform != "linux":
            return passed
        before, self.cpu = self.cpu, _cpu_seconds(self.process.pid)
        states = set(_thread_states(self.process.pid))
        if "D" in states:
            return 0.0
        return min(passed, self.cpu - before) if "R" in states else passed


class Heartbeats:
    """The heartbeat files of processes, as their supervisor sees them.

    Time in which the supervisor itself did not run does not count. On Linux, neither does time in
    which a process waits for a processor or its disk: while it computes, its processor time counts.
    The time of a stopped process counts, and that of one all of whose threads sleep.
    """

    def __init__(self) -> None:
        self._watched: dict[str, _Heartbeat] = {}
        self._checked = time.monotonic()

    def watch(self, process: ManagedProcess, file: Path) -> None:
        """Watch a process from now on, in place of an earlier one with its name."""
        self._watched[process.name] = _Heartbeat(process, file)

    def kill_silent(self) -> None:
        """Kill the processes that are stopped or stuck, with a line for each."""
        for process in self.silent(LIVENESS_SECONDS):
            if process.exit_code is None:
                silent = f"did not respond for {LIVENESS_SECONDS:.0f} seconds (stopped or stuck)"
                text = f"{process.name} {silent}: killing it"
                events.emit("log", text[:1].upper() + text[1:], level="WARNING")
                process.kill()

    def silent(self, limit_seconds: float) -> list[ManagedProcess]:
        """Return the processes that are stopped, stuck or have ended, each of them once.

        Args:
            limit_seconds: Time that counts without a touch of the file; STARVED_FACTOR times as
                long, a process may wait for a processor or its disk.
        """
        now = time.monotonic()
        passed = min(now - self._checked, MAX_POLL_SECONDS)
        self._checked = now
        for heartbeat in self._watched.values():
            heartbeat.check(passed)
        found = [
            one.process
            for one in self._watched.values()
            if one.age > limit_seconds or one.silence > STARVED_FACTOR * limit_seconds
        ]
        for process in found:
            del self._watched[process.name]
        return found


def _modified(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:  # removed by another process, such as a cleaner of temporary folders
        return 0


def _cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, 0 if it has ended."""
    with suppress(OSError):
        user, system = _stat(Path(f"/proc/{pid}"))[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _thread_states(pid: int) -> Iterator[str]:
    """Yield the states of the threads: R for running or runnable, D for a disk, T for stopped."""
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):  # the thread has ended
            yield _stat(thread)[0]


def _stat(folder: Path) -> list[str]:
    """Return the fields after the program's name, which may contain blanks: proc_pid_stat(5)."""
    return (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
