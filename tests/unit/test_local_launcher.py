"""CPUs and environment of the workers of a local training."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from common import checkpoints, runs
from common.errors import RunError, SettingsError
from common.events import Event
from common.processes import system
from common.settings import Settings
from qfleet.native.libraries import process_path
from training.launcher import local_launcher
from training.launcher.local_launcher import LocalLauncher


@pytest.mark.parametrize(
    ("settings", "cpus"),
    [
        (["WORKERS=1"], [[]]),
        (["WORKERS=2"], [[0, 1], [2, 3]]),
        (["WORKERS=2", "THREADS=1"], [[0, 1], [2, 3]]),
        (["WORKERS=2", "THREADS=3"], [[], []]),
        (["WORKERS=5"], [[]] * 5),
    ],
)
def test_workers_are_pinned_where_each_has_cpus(
    monkeypatch: pytest.MonkeyPatch, settings: list[str], cpus: list[list[int]]
) -> None:
    monkeypatch.setattr(system, "usable_cpus", lambda: [0, 1, 2, 3])
    launcher = LocalLauncher(Settings.from_args(["RUN=hybrid", *settings]))
    assert launcher.worker_cpus() == cpus


class FakeGroup:
    """The processes and events of a start of workers."""

    def __init__(self, events: list[tuple[int, Event]], size: int) -> None:
        self.processes = [SimpleNamespace(name=f"worker {rank}") for rank in range(size)]
        for process in self.processes:
            process.describe_exit = lambda: "its end"
        self._events = events

    def next_event(self, timeout_seconds: float) -> tuple[SimpleNamespace, Event]:
        rank, event = self._events.pop(0)
        return self.processes[rank], event

    def terminate(self) -> None:
        """Do nothing: the events are given."""


def ends(codes: list[int], order: list[int]) -> list[tuple[int, Event]]:
    """Each worker reports its error, then they end, both in the given order of ranks."""
    errors = [
        (rank, Event("error", 0.0, rank, f"error {rank}", {"exit_code": codes[rank]}))
        for rank in order
        if codes[rank] > 0
    ]
    return errors + [
        (rank, Event("exit", 0.0, rank, "", {"exit_code": codes[rank]})) for rank in order
    ]


@pytest.mark.parametrize(
    ("codes", "order", "shown"),
    [
        ([146, 138], [1, 0], ["error 0"]),  # DEADLINE
        ([146, 146, 146], [2, 1, 0], ["error 0"]),
        ([143, 143], [1, 0], ["error 0"]),  # Ctrl-C
        ([138, 143, 138], [0, 1, 2], ["error 1"]),  # SIGTERM of one worker
        ([138, -9, 138], [1, 2, 0], ["error 0"]),  # SIGKILL
        ([138, 138, 2], [0, 2, 1], ["error 2"]),  # a permanent error
        ([0, 0], [0, 1], []),
    ],
)
def test_start_of_workers_reports_one_error(
    monkeypatch: pytest.MonkeyPatch, codes: list[int], order: list[int], shown: list[str]
) -> None:
    monkeypatch.setattr(local_launcher, "Heartbeats", MagicMock)
    found: list[str] = []
    display = SimpleNamespace(show=lambda event: found.append(event.message))
    signals = SimpleNamespace(received=None)
    supervision = local_launcher._Supervision(
        FakeGroup(ends(codes, order), len(codes)),  # type: ignore[arg-type]
        [Path()] * len(codes),
        display,  # type: ignore[arg-type]
        signals,  # type: ignore[arg-type]
    )
    supervision.wait()
    assert found == shown


def install(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Put the library that workers preload into a folder."""
    folder.mkdir()
    library = Path(shutil.copy(process_path(), folder))
    monkeypatch.setattr(local_launcher, "process_path", lambda: library)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no LD_PRELOAD")
def test_nothing_listens_outside_from_a_folder_with_a_blank(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path / "my folder")
    program = """
import socket
opened = socket.socket()
opened.bind(("0.0.0.0", 0))
print(opened.getsockname()[0])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **local_launcher.loopback_environment()},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("127.0.0.1\n", "")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no LD_PRELOAD")
def test_folder_that_the_loader_would_split_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path / "my;folder")
    with pytest.raises(SettingsError, match="semicolon"):
        local_launcher.loopback_environment()


@pytest.mark.parametrize(("names", "text"), [((), "no checkpoint"), (("8", "12"), "step 12")])
def test_stopped_run_reports_its_checkpoint(
    tmp_path: Path, names: tuple[str, ...], text: str
) -> None:
    folder = tmp_path / "hybrid" / checkpoints.FOLDER
    folder.mkdir(parents=True)
    for name in names:
        (folder / f"step-{int(name):08}-1.json").touch()
    (tmp_path / "hybrid" / "run.json").touch()
    launcher = LocalLauncher(Settings.from_args(["RUN=hybrid", f"STORAGE={tmp_path}"]))
    assert text in launcher._run.continuation
    with pytest.raises(RunError, match=text):
        runs.resolve(tmp_path, "hybrid")
