"""Lease on a folder: only one job at a time trains a run or writes a data set.

RUN/lease.json names the holder (job, host and process) and a counter that the holder increments
every RENEW_INTERVAL_SECONDS. All writes are conditional (storage.write_if): a holder that was
stopped for any time can't renew or release a lease that has changed hands since.

Another process takes the lease over immediately if the holder is an earlier attempt of the same
job, or a process of this machine that has ended. Otherwise it watches the counter until storage has
responded for EXPIRY_SECONDS without a change. Clocks of different machines are never compared.

A holder whose renewals fail stops committing after HOLD_FRACTION of that time. It continues when a
renewal succeeds: then no process has taken over in between. Terms follow the Kubernetes Lease.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Self

from common import storage
from common.errors import (
    PeerLost,
    QfleetError,
    RunError,
    StorageError,
    StorageFull,
    StorageUnavailable,
)
from common.lease.holder import Final, Holder
from common.storage import StoragePath, Versioned

log = logging.getLogger("qfleet")

RENEW_INTERVAL_SECONDS = 5.0
EXPIRY_SECONDS = 15.0
HOLD_FRACTION = 2 / 3
"""Part of EXPIRY_SECONDS after its last renewal in which a holder may commit."""

REQUEST_SECONDS = 3.0
"""Time for one request of a renewal, so that a renewal follows soon after an outage."""

RETRY_INTERVAL_SECONDS = 1.0
"""Pause after a failed renewal."""

NAME = "lease.json"


class Lease:
    """The exclusive right to write to a folder, from `acquire` to `close`.

    Args:
        folder: Folder of the run, or another that contains the lease.
        job_id: Identity that all attempts of the job share.
        name: Name of the file.
        title: Protected object in messages; the run by default.
        advice: Way out for a process that is refused.
        on_lost: Called once, in the thread of renewals, when the lease is lost or was not renewed
            for as long as storage is retried.
    """

    def __init__(
        self,
        folder: StoragePath,
        job_id: str,
        *,
        name: str = NAME,
        title: str = "",
        advice: str = "wait for it or stop it",
        on_lost: Callable[[QfleetError], None] | None = None,
    ) -> None:
        self._title, self._advice = title or f"run {folder.name}", advice
        self._path = folder / name
        self._holder = Holder.here(job_id)
        self._on_lost = on_lost
        self._lost: QfleetError | None = None
        self._version = ""
        self._stored_final: Final = ()
        self._renewed = 0.0
        self._lock = threading.Lock()  # one request with `_version` at a time
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self) -> Self:
        """Take the lease and renew it in a thread until `close`.

        Raises:
            RunError: Another job has the lease.
        """
        found = storage.read_versioned(self._path)
        while True:
            if not self._is_free(found):
                found = self._watch(found)
            holder = Holder.parse(found.data or b"")
            if holder and holder.final:
                write_final(self._path.parent, holder)
            started = _now()
            try:
                self._version = storage.write_if(self._path, self._holder.to_bytes(), found.version)
                break
            except storage.VersionConflict:  # another process was faster
                found = storage.read_versioned(self._path)
        self._renewed = started
        self._thread = threading.Thread(target=self._renew_until_closed, name="lease", daemon=True)
        self._thread.start()
        return self

    def check(self) -> None:
        """Raise if the lease is lost, or was not renewed in time. This reads nothing.

        Raises:
            RunError: Another job has the lease, or the folder was deleted.
            PeerLost: A newer attempt of this job has the lease.
            StorageUnavailable: Renewals fail; another job may take over soon.
        """
        if self._lost is not None:
            raise self._lost
        if not self._is_fresh():
            raise self._not_renewed()

    def confirm(self) -> None:
        """Return when storage shows that the lease is held; call it right before a commit.

        A lease that was not renewed in time is renewed first. An outage of storage is waited for.

        Raises:
            RunError, PeerLost: See `check`.
            StorageUnavailable: Storage did not respond within RETRY_SECONDS.
        """
        self._confirm(None)

    def commit_final(self, name: str, text: str) -> None:
        """Write a file next to the lease on the condition that the lease is held; the last commit.

        The text becomes part of the lease, in one conditional write. If this process ends before
        the file itself is written, the next holder of the lease writes it.

        Args:
            name: Name of the file, which does not exist yet.
            text: Its content.

        Raises:
            RunError, PeerLost, StorageUnavailable: See `confirm`; nothing is committed.
        """
        try:
            self._confirm((name, text))
        except QfleetError:
            with self._lock:
                self._holder = replace(self._holder, final=())
            raise
        write_final(self._path.parent, self._holder)

    def _confirm(self, final: Final | None) -> None:
        """Return when storage shows that this lease is held, with the last commit if any."""
        end = _now() + storage.retry_seconds()
        while True:
            try:
                with self._lock:
                    if final is not None:
                        self._holder = replace(self._holder, final=final)
                    if self._is_fresh() and self._stored_final == self._holder.final:
                        found = storage.read_versioned(self._path, REQUEST_SECONDS)
                        if found.version != self._version:
                            self._adopt_or_lose(found)
                    elif self._lost is None:
                        self._renew()
                    confirmed = self._is_fresh() and self._stored_final == self._holder.final
                if self._lost is not None:
                    raise self._lost
                if confirmed:
                    return
            except (StorageFull, StorageUnavailable):  # room may come back within the limit
                if _now() > end:
                    raise
            if self._stop.wait(RETRY_INTERVAL_SECONDS):
                raise self._not_renewed()

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
            storage.delete_if(self._path, self._version)
        except storage.VersionConflict:
            return  # it has changed hands, or the response to the last renewal was lost
        except (StorageError, StorageUnavailable) as error:
            log.warning(f"the lease of {self._title} was not released: {error}")

    def _is_free(self, found: Versioned) -> bool:
        """Return True if the lease can be taken without waiting."""
        if found.data is None:
            return True
        holder = Holder.parse(found.data)
        own = self._holder.job_id
        return holder is not None and (holder.has_ended() or holder.is_attempt_of(own))

    def _watch(self, found: Versioned) -> Versioned:
        """Return the lease when it has expired or was released; raise if it is renewed."""
        log.info(f"{self._title} has a lease: checking that its holder is alive")
        observed, last = 0.0, None
        end = _now() + storage.retry_seconds() + EXPIRY_SECONDS
        while observed < EXPIRY_SECONDS:
            time.sleep(min(0.5, EXPIRY_SECONDS / 10))
            try:
                current = storage.read_versioned(self._path, REQUEST_SECONDS)
            except StorageUnavailable:
                # The holder could not renew it either, so this time does not count.
                observed, last = 0.0, None
                if _now() > end:
                    raise
                continue
            if current.version != found.version:
                if current.data is not None:
                    raise self._conflict(current.data)
                return current
            now = _now()
            observed += now - last if last is not None else 0.0
            last = now
        return found

    def _is_fresh(self) -> bool:
        return _now() - self._renewed < EXPIRY_SECONDS * HOLD_FRACTION

    def _renew(self) -> None:
        """Renew the lease once, or find that it is lost. The caller has the lock."""
        holder = replace(self._holder, renewals=self._holder.renewals + 1)
        started = _now()
        try:
            version = storage.write_if(
                self._path, holder.to_bytes(), self._version, REQUEST_SECONDS
            )
        except storage.VersionConflict:
            self._adopt_or_lose(storage.read_versioned(self._path, REQUEST_SECONDS))
            return
        self._holder, self._version, self._renewed = holder, version, started
        self._stored_final = holder.final

    def _adopt_or_lose(self, found: Versioned) -> None:
        """Take up a renewal whose response was lost; else the lease is lost."""
        holder = Holder.parse(found.data or b"")
        if holder is not None and holder.token == self._holder.token:
            self._version, self._stored_final = found.version, holder.final
            self._holder = replace(self._holder, renewals=holder.renewals)
        else:
            self._lost = self._conflict(found.data)

    def _renew_until_closed(self) -> None:
        failure: QfleetError | None = None
        reported = False
        wait = RENEW_INTERVAL_SECONDS
        while not self._stop.wait(wait):
            wait = RENEW_INTERVAL_SECONDS
            try:
                with self._lock:
                    self._renew()
                failure = None
            except (StorageError, StorageUnavailable) as error:
                wait = min(RETRY_INTERVAL_SECONDS, RENEW_INTERVAL_SECONDS)
                if failure is None:
                    log.warning(f"the lease of {self._title} was not renewed: {error}")
                failure = error
            if self._lost is not None:
                log.warning(str(self._lost))
                self._report(self._lost)
                return
            if failure and not reported and _now() - self._renewed > storage.retry_seconds():
                reported = True
                # A restart mends an outage only, so an error of a user keeps its exit code.
                final = isinstance(failure, StorageError)
                self._report(failure if final else self._not_renewed())

    def _report(self, error: QfleetError) -> None:
        if self._on_lost:
            self._on_lost(error)

    def _not_renewed(self) -> StorageUnavailable:
        return StorageUnavailable(
            f"the lease of {self._title} was not renewed for {_now() - self._renewed:.0f} s, since"
            " storage does not respond: run the same command again to resume"
        )

    def _conflict(self, content: bytes | None) -> QfleetError:
        if content is None:
            return RunError(
                f"the lease of {self._title} was deleted while in use: run the same command again"
                " to continue"
            )
        holder = Holder.parse(content)
        process = f" (process {holder.pid} on {holder.host})" if holder else ""
        if holder and holder.is_attempt_of(self._holder.job_id):
            return PeerLost(f"a newer attempt of this job{process} has taken over {self._title}")
        return RunError(f"{self._title} is in use by another job{process}: {self._advice}")


def write_final(folder: StoragePath, holder: Holder) -> None:
    """Write the last commit of a holder, unless it is written already."""
    if holder.final:
        name, text = holder.final
        storage.create_exclusive(folder / name, text.encode())


def _now() -> float:
    """Return seconds on a clock that also runs while the machine is suspended, if there is one."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def active_leases(folders: Iterable[StoragePath]) -> set[StoragePath]:
    """Return the run folders whose lease has a living holder.

    A holder on this machine is checked immediately. The others are watched together for a little
    longer than one renewal.
    """
    active, unknown = set(), {}
    for folder in folders:
        found = _read_if_valid(folder)
        if found is None or found.data is None:
            continue
        holder = Holder.parse(found.data)
        if holder is None or not holder.is_here():
            unknown[folder] = found.version
        elif not holder.has_ended():
            active.add(folder)
    return active | _renewed_within(unknown, RENEW_INTERVAL_SECONDS * 1.3)


def _read_if_valid(folder: StoragePath) -> Versioned | None:
    """Return the lease of a folder; None for a damaged one, which no job could renew."""
    try:
        return storage.read_versioned(folder / NAME)
    except StorageError:
        return None


def _renewed_within(known: dict[StoragePath, str], seconds: float) -> set[StoragePath]:
    """Return the folders whose lease is renewed within a time; released ones are not among them."""
    end = time.monotonic() + seconds
    unchanged, renewed = dict(known), set()
    while unchanged and time.monotonic() < end:
        time.sleep(min(0.5, seconds / 10))
        for folder, version in list(unchanged.items()):
            current = _read_if_valid(folder)
            if current is None or current.version != version:
                del unchanged[folder]
                if current and current.data is not None:
                    renewed.add(folder)
    return renewed
