"""Lease on a folder: only one job at a time trains a run or writes a data set.

RUN/lease.json names the holder (job, host and process) and a counter that the holder increments
every RENEW_INTERVAL_SECONDS. Another process takes the lease over immediately if the holder belongs
to the same job (a restart), or is a process of this machine that has ended. Otherwise it watches
the counter for up to EXPIRY_SECONDS: the holder is alive if the counter changes. Clocks of
different machines are never compared. Terms follow the Kubernetes Lease.
"""

import contextlib
import functools
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from common import storage
from common.errors import PeerLost, QfleetError, RunError, StorageError, StorageUnavailable
from common.storage import StoragePath

log = logging.getLogger("qfleet")

RENEW_INTERVAL_SECONDS = 5.0
EXPIRY_SECONDS = 15.0
CONFIRM_SECONDS = 0.5
"""Pause after which a new holder checks that it still has the lease."""

NAME = "lease.json"
PROC = Path("/proc")
"""Process information of Linux; other systems have none."""


@dataclass(frozen=True)
class Holder:
    """Content of lease.json.

    Attributes:
        job_id: Identity that all attempts of a job share.
        token: Identity of this acquisition.
        host: Name of the machine, for messages.
        machine: Identity of the machine's current boot.
        pid: Number of the process.
        process_start: Start time of the process, which distinguishes it from later ones.
        renewals: Number of renewals so far.
    """

    job_id: str
    token: str
    host: str
    machine: str
    pid: int
    process_start: int
    renewals: int

    @classmethod
    def here(cls, job_id: str) -> Self:
        """Return a holder for this process."""
        pid = os.getpid()
        start = _process_start(pid) or 0
        return cls(job_id, uuid.uuid4().hex, socket.gethostname(), _machine(), pid, start, 0)

    @classmethod
    def parse(cls, content: bytes) -> Self | None:
        """Return the holder; None for other content, which counts as alive while it changes."""
        try:
            holder = cls(**json.loads(content))
        except (ValueError, TypeError):
            return None
        numbers = (holder.pid, holder.process_start, holder.renewals)
        texts = (holder.job_id, holder.token, holder.host, holder.machine)
        valid = all(type(n) is int for n in numbers) and all(type(t) is str for t in texts)
        return holder if valid else None

    def to_bytes(self) -> bytes:
        """Return the content of lease.json."""
        return json.dumps(asdict(self), indent=1).encode() + b"\n"

    def is_here(self) -> bool:
        """Return True if this process could see the holder: same boot, same PID namespace."""
        return self.machine == _machine()

    def has_ended(self) -> bool:
        """Return True if the holder is known to have ended, without waiting."""
        return self.is_here() and _process_start(self.pid) != self.process_start


def _machine() -> str:
    """Return the identity of this boot of this machine or container."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{socket.gethostname()} {boot} {os.readlink(PROC / 'self/ns/pid')}"
    except OSError:
        return _machine_without_proc()


@functools.cache
def _machine_without_proc() -> str:
    try:
        import psutil
    except ImportError:
        return uuid.uuid4().hex  # so that no process counts as one of this machine
    return f"{socket.gethostname()} {int(psutil.boot_time())}"


def _process_start(pid: int) -> int | None:
    """Return the start time of a process; None if it has ended.

    The unit is clock ticks since boot on Linux, otherwise milliseconds since 1970.
    """
    if not (PROC / "self/stat").exists():
        return _process_start_without_proc(pid)
    try:
        status = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = status.rpartition(")")[2].split()  # the name before it can contain anything
    return None if fields[0] in ("Z", "X") else int(fields[19])


def _process_start_without_proc(pid: int) -> int | None:
    try:
        import psutil
    except ImportError:
        return 0
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return int(process.create_time() * 1000)
    return None


class Lease:
    """The exclusive right to write to a folder, from `acquire` to `close`.

    Args:
        folder: Folder of the run, or another that contains the lease.
        job_id: Identity that all attempts of the job share.
        name: Name of the file.
        title: Protected object in messages; the run by default.
        advice: Way out for a process that is refused.
    """

    def __init__(
        self,
        folder: StoragePath,
        job_id: str,
        *,
        name: str = NAME,
        title: str = "",
        advice: str = "wait for it or stop it",
    ) -> None:
        self._title, self._advice = title or f"run {folder.name}", advice
        self._path = folder / name
        self._holder = Holder.here(job_id)
        self._lost: QfleetError | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self) -> Self:
        """Take the lease and renew it in a thread until `close`.

        Raises:
            RunError: Another job has the lease.
        """
        found = _read(self._path)
        if found is None:
            if not storage.create_exclusive(self._path, self._holder.to_bytes()):
                raise self._conflict(_read(self._path))
        else:
            self._take_over(found)
        if found is not None or not storage.is_local(self._path):
            # Several processes may have found the same expired lease, and an emulator ignores
            # preconditions: the last writer has the lease.
            time.sleep(CONFIRM_SECONDS)
            current = _read(self._path)
            if current is None or not self._is_own(current):
                raise self._conflict(current)
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()
        return self

    def _take_over(self, found: bytes) -> None:
        holder = Holder.parse(found)
        free = holder is not None and (holder.job_id == self._holder.job_id or holder.has_ended())
        if not free:
            log.info(f"{self._title} has a lease: checking that its holder is alive")
            if wait_for_renewals({self._path: found}, EXPIRY_SECONDS):
                raise self._conflict(_read(self._path) or found)
        storage.write_atomic(self._path, self._holder.to_bytes())

    def check(self) -> None:
        """Raise if the lease is lost. This reads nothing: the thread detects the loss.

        Raises:
            RunError: Another job has the lease, or the folder was deleted.
            PeerLost: A newer attempt of this job has the lease.
        """
        if self._lost is not None:
            raise self._lost

    def close(self) -> None:
        """Release the lease if it is still held. Safe to call twice.

        If storage fails, this logs a warning only: the process ends anyway, and a lease that is not
        renewed expires.
        """
        self._stop.set()
        if self._thread is None:
            return
        self._thread.join()
        self._thread = None
        if self._lost is not None:
            return
        try:
            found = _read(self._path)
            if found is not None and self._is_own(found):
                storage.delete(self._path)
        except (StorageError, StorageUnavailable) as error:
            log.warning(f"the lease of {self._title} was not released: {error}")

    def _is_own(self, content: bytes) -> bool:
        holder = Holder.parse(content)
        return holder is not None and holder.token == self._holder.token

    def _renew(self) -> None:
        failing = False
        while not self._stop.wait(RENEW_INTERVAL_SECONDS):
            try:
                found = _read(self._path)
                if found is None or not self._is_own(found):
                    self._lost = self._conflict(found)
                    log.warning(str(self._lost))
                    return
                self._holder = replace(self._holder, renewals=self._holder.renewals + 1)
                storage.write_atomic(self._path, self._holder.to_bytes())
                failing = False
            except (StorageError, StorageUnavailable) as error:
                # Training continues: the next checkpoint needs the same storage and decides.
                if not failing:
                    log.warning(f"the lease of {self._title} was not renewed: {error}")
                failing = True

    def _conflict(self, content: bytes | None) -> QfleetError:
        if content is None:
            return RunError(
                f"the lease of {self._title} was deleted while in use: run the same command again"
                " to continue"
            )
        holder = Holder.parse(content)
        process = f" (process {holder.pid} on {holder.host})" if holder else ""
        if holder and holder.job_id == self._holder.job_id:
            return PeerLost(f"a newer attempt of this job{process} has taken over {self._title}")
        return RunError(f"{self._title} is in use by another job{process}: {self._advice}")


def _read(path: StoragePath) -> bytes | None:
    try:
        return storage.read_bytes(path)
    except FileNotFoundError:
        return None


def wait_for_renewals(known: dict[StoragePath, bytes], seconds: float) -> set[StoragePath]:
    """Return the leases that are renewed within a time; released ones are not among them.

    Args:
        known: Path of each lease -> its content so far.
        seconds: Longest wait; it ends as soon as all leases have changed.
    """
    end = time.monotonic() + seconds
    unchanged, renewed = dict(known), set()
    while unchanged and time.monotonic() < end:
        time.sleep(min(0.5, seconds / 10))
        for path, before in list(unchanged.items()):
            current = _read(path)
            if current != before:
                del unchanged[path]
                if current is not None:
                    renewed.add(path)
    return renewed


def active_leases(folders: Iterable[StoragePath]) -> set[StoragePath]:
    """Return the run folders whose lease has a living holder.

    A holder on this machine is checked immediately. The others are watched together for a little
    longer than one renewal.
    """
    active, unknown = set(), {}
    for folder in folders:
        content = _read(folder / NAME)
        if content is None:
            continue
        holder = Holder.parse(content)
        if holder is None or not holder.is_here():
            unknown[folder / NAME] = content
        elif not holder.has_ended():
            active.add(folder)
    renewed = wait_for_renewals(unknown, RENEW_INTERVAL_SECONDS * 1.3)
    return active | {path.parent for path in renewed}
