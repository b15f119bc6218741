"""Jobs on this machine: `python -m training` with an emulator of the storage, in real processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import psutil

from chaos.campaign import SUCCEEDED, Job
from chaos.schedule import Fault, FaultKind
from common import storage
from common.errors import SettingsError
from common.events import Event
from common.processes import ManagedProcess, clean_environment, free_ports
from common.settings.sources import last_of_each

KILL, TERMINATE, STOP = FaultKind("SIGKILL"), FaultKind("SIGTERM"), FaultKind("SIGSTOP")
FREEZE = FaultKind("pause", durations=(1.0, 20.0))
STORAGE_RESTART = FaultKind("storage down", of_workers=False, durations=(1.0, 20.0))
STORAGE_SILENT = FaultKind("storage silent", of_workers=False, durations=(5.0, 50.0))

_SIGNALS = {
    KILL.name: signal.SIGKILL, TERMINATE.name: signal.SIGTERM,
    STOP.name: signal.SIGSTOP, FREEZE.name: signal.SIGSTOP,
}  # fmt: skip

SETTINGS = (
    "MODEL=hybrid", "QUBITS=4", "TRAIN_EXAMPLES=200", "VALIDATION_EXAMPLES=50",
    "TEST_EXAMPLES=100", "BATCH=32", "INITIALIZATIONS=1", "CHECKPOINT_INTERVAL=5",
    "PARTITIONS=4", "THREADS=1", "MAX_RESTARTS=20",
)  # fmt: skip

BUCKET = "chaos"
ROOT = f"gs://{BUCKET}/runs"
START_SECONDS = 30.0
"""Longest time for the emulator to start."""


class StorageServer:
    """An emulator of Google Cloud Storage whose objects are files, on a port of 127.0.0.1.

    Args:
        folder: Folder of its objects.
        port: A free port.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._port = folder, port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """The value for STORAGE_EMULATOR_HOST."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            SettingsError: It is not installed, or does not start.
        """
        command = [sys.executable, "-m", "launch.emulator", str(self._folder), str(self._port)]
        self._process = subprocess.Popen(
            [*command, BUCKET, "127.0.0.1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end = time.monotonic() + START_SECONDS
        while not self._is_listening():
            if self._process.poll() is not None or time.monotonic() > end:
                raise SettingsError(
                    "the storage emulator does not start: run `make chaos`, which installs it"
                )
            time.sleep(0.05)

    def signal(self, number: int) -> None:
        """Send a signal to its process."""
        if self._process:
            self._process.send_signal(number)

    def stop(self) -> None:
        """Kill its process; its objects stay."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _is_listening(self) -> bool:
        assert self._process
        try:
            connections = psutil.Process(self._process.pid).net_connections("tcp")
        except psutil.Error:
            return False
        return any(connection.status == psutil.CONN_LISTEN for connection in connections)


class LocalPlace:
    """This machine. A context, which ends with its storage removed.

    Args:
        settings: Settings of all jobs, as on a command line.
        command: Program that trains a run.
        limit_seconds: Longest time of a job.
        environment: Variables for its processes.
        longest_fault_seconds: Longest time of a fault that ends by itself.
    """

    name = "local"

    def __init__(
        self,
        settings: Sequence[str] = (),
        command: Sequence[str] = (sys.executable, "-m", "training"),
        limit_seconds: float = 600.0,
        environment: dict[str, str] | None = None,
        longest_fault_seconds: float = 60.0,
    ) -> None:
        # The kernel ends a process that is out of memory with SIGKILL.
        all_kinds = (KILL, TERMINATE, STOP, FREEZE, STORAGE_RESTART, STORAGE_SILENT)
        self.kinds: Sequence[FaultKind] = [one.limited(longest_fault_seconds) for one in all_kinds]
        self.limit_seconds = limit_seconds
        self._settings, self._command = last_of_each([*SETTINGS, *settings]), list(command)
        self._environment = environment or {}
        self._folder = tempfile.TemporaryDirectory(prefix="qfleet-chaos-")
        self._held = contextlib.ExitStack()
        self._server: StorageServer

    def __enter__(self) -> Self:
        (port,) = self._held.enter_context(free_ports(1))
        self._server = StorageServer(Path(self._folder.name), port)
        self._server.start()
        os.environ["STORAGE_EMULATOR_HOST"] = self._server.address
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()
        self._held.close()
        self._folder.cleanup()

    @contextlib.contextmanager
    def open_root(self) -> Iterator[storage.StoragePath]:
        """Provide STORAGE."""
        yield storage.path(ROOT)

    def start(self, run: str, workers: int) -> Job:
        """Start a job."""
        command = [
            *self._command, f"STORAGE={ROOT}", f"RUN={run}", f"WORKERS={workers}",
            *self._settings,
        ]  # fmt: skip
        environment = clean_environment(
            **self._environment, STORAGE_EMULATOR_HOST=self._server.address
        )
        process = ManagedProcess(command, env=environment, stdout="capture", stderr="stdout")
        return LocalJob(process, self._server)


class LocalJob:
    """A training on this machine.

    Args:
        process: Its launcher.
        server: Its storage.
    """

    def __init__(self, process: ManagedProcess, server: StorageServer) -> None:
        self._process, self._server = process, server
        self._last_message = ""

    def poll(self) -> list[Event]:
        """Return the new events."""
        found = []
        while event := self._process.next_event(0):
            if event.kind == "exit":
                break
            if event.message:
                self._last_message = event.message
            found.append(event)
        return found

    def apply(self, fault: Fault) -> bool:
        """Make a fault happen."""
        if fault.kind == STORAGE_RESTART.name:
            self._server.stop()
            return True
        if fault.kind == STORAGE_SILENT.name:
            self._server.signal(signal.SIGSTOP)
            return True
        number = _SIGNALS[fault.kind]
        sent = [_send(worker, number) for worker in self._workers(fault.ranks)]
        return any(sent)

    def undo(self, fault: Fault) -> None:
        """End a fault that lasts."""
        if fault.kind == STORAGE_RESTART.name:
            self._server.stop()
            self._server.start()
        elif fault.kind == STORAGE_SILENT.name:
            self._server.signal(signal.SIGCONT)
        elif fault.kind == FREEZE.name:
            for worker in self._workers(fault.ranks):
                _send(worker, signal.SIGCONT)

    def outcome(self) -> str:
        """Return how it ended; empty while it runs."""
        code = self._process.exit_code
        if code is None:
            return ""
        return SUCCEEDED if code == 0 else f"exit code {code}: {self._last_message}"

    def close(self) -> None:
        """End its processes."""
        for worker in self._workers(range(64)):
            _send(worker, signal.SIGCONT)
        self._process.stop(grace_seconds=5.0)

    def _workers(self, ranks: Sequence[int]) -> list[psutil.Process]:
        """Return the living workers of these ranks, identified by their TF_CONFIG."""
        found = []
        try:
            children = psutil.Process(self._process.pid).children(recursive=True)
        except psutil.Error:
            return []
        for child in children:
            try:
                config = json.loads(child.environ()["TF_CONFIG"])
                if config["task"]["index"] in ranks and "worker" in " ".join(child.cmdline()):
                    found.append(child)
            except (KeyError, ValueError, psutil.Error):
                continue
        return found


def _send(worker: psutil.Process, number: int) -> bool:
    try:
        worker.send_signal(number)
    except psutil.Error:
        return False
    return True
