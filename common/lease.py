"""The lease by which one gang at a time trains a run, or one process makes a data set.

RUN/lease.json names the holder: its gang, host and process, and a count that the holder raises
every BEAT_SECONDS. Who wants a run that has a lease takes it over at once if the holder is of its
own gang (a restart) or a process of this machine that is gone; otherwise it watches the count for
up to WATCH_SECONDS: one that moves is alive. No two machines' clocks are ever compared.
"""

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
"""Pause before a new holder reads again whether the lease is still its own."""

NAME = "lease.json"


@dataclass(frozen=True)
class Holder:
    """What lease.json says. `machine` and `born` tell this boot and process from later ones."""

    gang: str
    token: str
    host: str
    machine: str
    pid: int
    born: int
    beat: int

    @classmethod
    def here(cls, gang: str) -> Self:
        """This process."""
        pid = os.getpid()
        born = _born(pid) or 0
        return cls(gang, uuid.uuid4().hex, socket.gethostname(), _machine(), pid, born, 0)

    @classmethod
    def parse(cls, content: bytes) -> Self | None:
        """None for what is not a lease: it then counts by whether it changes."""
        try:
            holder = cls(**json.loads(content))
        except (ValueError, TypeError):
            return None
        numbers = (holder.pid, holder.born, holder.beat)
        texts = (holder.gang, holder.token, holder.host, holder.machine)
        kinds_hold = all(type(n) is int for n in numbers) and all(type(t) is str for t in texts)
        return holder if kinds_hold else None

    def to_bytes(self) -> bytes:
        """The content of lease.json."""
        return json.dumps(asdict(self), indent=1).encode() + b"\n"

    def is_here(self) -> bool:
        """Whether its process would be seen from here: same boot, same process namespace."""
        return self.machine == _machine()

    def is_gone(self) -> bool:
        """Whether it is known, without waiting, that its process has ended."""
        return self.is_here() and _born(self.pid) != self.born


def _machine() -> str:
    """This boot of this machine (or container), unlike every other."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"


def _born(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None if it has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = status.rpartition(")")[2].split()  # the name before it may hold anything
    return None if fields[0] in ("Z", "X") else int(fields[19])


class Lease:
    """The right to train a run, from `acquire` to `close`; or to do something else alone.

    Args:
        run: The run's folder, or another that the lease is kept in.
        gang: The identity that all attempts of one gang share.
        name: The lease's file.
        title: What is held, in a sentence; the run unless given.
        doing: What is done to it.
        by: What does it.
        instead: What else a refused one may do.
    """

    def __init__(
        self,
        run: StoragePath,
        gang: str,
        *,
        name: str = NAME,
        title: str = "",
        doing: str = "trained",
        by: str = "gang",
        instead: str = ", or choose another RUN",
    ) -> None:
        self._title, self._doing = title or f"run {run.name}", doing
        self._by, self._instead = by, instead
        self._path = run / name
        self._holder = Holder.here(gang)
        self._lost: QfleetError | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self) -> Self:
        """Take the lease and keep it from a thread of its own.

        Raises:
            RunError: Another gang holds it.
        """
        found = _content(self._path)
        if found is None:
            if not storage.create_exclusive(self._path, self._holder.to_bytes()):
                raise self._refusal(_content(self._path))
        else:
            self._take_over(found)
        if found is not None or not storage.is_local(self._path):
            # Several may have found the same dead lease, and an emulator knows no preconditions:
            # the last to write has it.
            time.sleep(CONFIRM_SECONDS)
            now = _content(self._path)
            if now is None or not self._is_ours(now):
                raise self._refusal(now)
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()
        return self

    def _take_over(self, found: bytes) -> None:
        holder = Holder.parse(found)
        known_free = holder is not None and (holder.gang == self._holder.gang or holder.is_gone())
        if not known_free:
            log.info(f"{self._title} has a lease: watching whether its holder is alive")
            if wait_for_renewals({self._path: found}, EXPIRY_SECONDS):
                raise self._refusal(_content(self._path) or found)
        storage.write_atomic(self._path, self._holder.to_bytes())

    def check(self) -> None:
        """Raise if the lease is lost; cheap, since the thread finds out.

        Raises:
            RunError: Another gang has taken the run, or the run was deleted.
            PeerLost: A newer attempt of this gang has taken it.
        """
        if self._lost is not None:
            raise self._lost

    def close(self) -> None:
        """Give the lease back, if it is still ours. Safe to call twice.

        Where storage does not let it go, that is logged and no error: the process ends anyway, and
        a lease whose count stands still keeps nobody out.
        """
        self._stop.set()
        if self._thread is None:
            return
        self._thread.join()
        self._thread = None
        if self._lost is not None:
            return
        try:
            found = _content(self._path)
            if found is not None and self._is_ours(found):
                storage.delete(self._path)
        except (StorageError, StorageUnavailable) as error:
            log.warning(f"the lease of {self._title} was left behind: {error}")

    def _is_ours(self, content: bytes) -> bool:
        holder = Holder.parse(content)
        return holder is not None and holder.token == self._holder.token

    def _renew(self) -> None:
        away = False
        while not self._stop.wait(RENEW_INTERVAL_SECONDS):
            try:
                found = _content(self._path)
                if found is None or not self._is_ours(found):
                    self._lost = self._refusal(found)
                    log.warning(str(self._lost))
                    return
                self._holder = replace(self._holder, beat=self._holder.beat + 1)
                storage.write_atomic(self._path, self._holder.to_bytes())
                away = False
            except (StorageError, StorageUnavailable) as error:
                # Training goes on: the next checkpoint meets the same storage and decides.
                if not away:
                    log.warning(f"the lease of {self._title} was not renewed: {error}")
                away = True

    def _refusal(self, content: bytes | None) -> QfleetError:
        if content is None:
            return RunError(
                f"the lease of {self._title} went away while it was wanted: was it deleted?"
                " Start again to go on with it"
            )
        holder = Holder.parse(content)
        who = f" (process {holder.pid} on {holder.host})" if holder else ""
        if holder and holder.gang == self._holder.gang:
            return PeerLost(f"a newer attempt of this gang{who} has taken over {self._title}")
        return RunError(
            f"{self._title} is being {self._doing} by another {self._by}{who}: wait for it, stop"
            f" it{self._instead}"
        )


def _content(path: StoragePath) -> bytes | None:
    try:
        return storage.read_bytes(path)
    except FileNotFoundError:
        return None


def wait_for_renewals(known: dict[StoragePath, bytes], seconds: float) -> set[StoragePath]:
    """Which of the leases change within this time (a lease that is given back does not count).

    Args:
        known: Path of a lease -> its content as it was read.
        seconds: The most that this takes; it ends as soon as all have changed.
    """
    end = time.monotonic() + seconds
    still, moved = dict(known), set()
    while still and time.monotonic() < end:
        time.sleep(min(0.5, seconds / 10))
        for path, before in list(still.items()):
            now = _content(path)
            if now != before:
                del still[path]
                if now is not None:
                    moved.add(path)
    return moved


def active_leases(runs: Iterable[StoragePath]) -> set[StoragePath]:
    """Which of these run folders a living gang holds now.

    A holder on this machine is known at once; the others are watched together for a little more
    than one beat.
    """
    alive, unknown = set(), {}
    for run in runs:
        content = _content(run / NAME)
        if content is None:
            continue
        holder = Holder.parse(content)
        if holder is None or not holder.is_here():
            unknown[run / NAME] = content
        elif not holder.is_gone():
            alive.add(run)
    return alive | {
        path.parent for path in wait_for_renewals(unknown, RENEW_INTERVAL_SECONDS * 1.3)
    }
