"""A supervisor finds processes that are stopped or stuck, and waits for those that are starved."""

import math
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from common.processes import STARVED_FACTOR, Heartbeats, ManagedProcess, heartbeats
from tests.support.patience import wait_until

LIMIT = 5.0
"""Seconds of the supervisor's clock, which passes in no time."""

COMPUTES, SLEEPS = "while True: pass", "import time; time.sleep(3600)"

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")


def reach(process: ManagedProcess, state: str) -> None:
    """Wait until the only thread of a process is in a state; on Linux only."""
    if sys.platform == "linux":
        stat = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == state)


def stop(process: ManagedProcess) -> None:
    """Stop a process, and wait until it does not run."""
    process.send_signal(signal.SIGSTOP)
    reach(process, "T")


class Supervisor:
    """One supervisor with a clock of its own, and its processes."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self._folder = folder
        self.processes: list[ManagedProcess] = []

    def open(self) -> None:
        """Begin with the heartbeats, after the clock is set."""
        self.heartbeats = Heartbeats()

    def start(self, code: str, name: str = "worker") -> ManagedProcess:
        """Start a process that does not touch its file."""
        process = ManagedProcess([sys.executable, "-S", "-c", code], name=name)
        self.processes.append(process)
        self.file(name).touch()
        self.heartbeats.watch(process, self.file(name))
        reach(process, "R" if code == COMPUTES else "S")
        return process

    def file(self, name: str) -> Path:
        """Return the heartbeat file of a process."""
        return self._folder / name

    def check(self, passed: float = 1.0) -> list[ManagedProcess]:
        """Let some time pass, and return what is found."""
        self.now += passed
        return self.heartbeats.silent(LIMIT)

    def check_for(self, seconds: float) -> list[ManagedProcess]:
        """Check in each of some seconds, and return all that is found."""
        return [process for _ in range(round(seconds)) for process in self.check()]


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """Return a supervisor, all of whose processes end with the test."""
    found = Supervisor(tmp_path)
    monkeypatch.setattr(heartbeats, "time", SimpleNamespace(monotonic=lambda: found.now))
    found.open()
    yield found
    for process in found.processes:
        process.kill()
        process.wait()


def test_supervisor_counts_only_its_own_time(supervisor: Supervisor):
    process = supervisor.start(SLEEPS)
    supervisor.check()
    assert supervisor.check(3600) == []  # the machine was suspended
    assert supervisor.check_for(LIMIT) == [process]


def test_process_that_touches_its_file_is_never_found(supervisor: Supervisor):
    supervisor.start(SLEEPS)
    for second in range(20):
        os.utime(supervisor.file("worker"), (second, second))
        assert supervisor.check() == []


@pytest.mark.parametrize("code", [COMPUTES, SLEEPS])
def test_stopped_process_is_found_at_the_limit(supervisor: Supervisor, code: str):
    process = supervisor.start(code)
    stop(process)
    supervisor.check()
    assert supervisor.check_for(LIMIT) == []
    assert supervisor.check() == [process]


def test_found_process_is_found_once(supervisor: Supervisor):
    process = supervisor.start(SLEEPS)
    stop(process)
    assert supervisor.check_for(10 * LIMIT) == [process]


@on_linux
def test_process_without_processor_time_is_waited_for(supervisor: Supervisor):
    supervisor.start(COMPUTES)
    assert supervisor.check_for(4 * LIMIT) == []


@on_linux
def test_process_that_waits_for_its_disk_is_waited_for(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
):
    supervisor.start(SLEEPS)
    monkeypatch.setattr(heartbeats, "_thread_states", lambda pid: iter("SD"))
    assert supervisor.check_for(4 * LIMIT) == []


@on_linux
def test_starved_process_is_found_at_the_bound(supervisor: Supervisor):
    process = supervisor.start(COMPUTES)
    assert supervisor.check_for(STARVED_FACTOR * LIMIT + 2) == [process]


@on_linux
def test_starved_process_that_is_stopped_is_found(supervisor: Supervisor):
    process = supervisor.start(COMPUTES)
    assert supervisor.check_for(2 * LIMIT) == []
    stop(process)
    assert supervisor.check_for(LIMIT + 1) == [process]


@on_linux
def test_busy_process_is_found_by_its_processor_time(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(heartbeats, "STARVED_FACTOR", math.inf)
    process = supervisor.start(COMPUTES)
    used = iter(range(100))
    monkeypatch.setattr(heartbeats, "_cpu_seconds", lambda pid: next(used))
    assert supervisor.check_for(2 * LIMIT) == [process]


def test_process_replaces_one_with_its_name(supervisor: Supervisor):
    supervisor.start(SLEEPS)
    supervisor.check_for(LIMIT)
    supervisor.start(SLEEPS)
    assert supervisor.check_for(2) == []
