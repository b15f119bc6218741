"""Claiming a run for training. Only the chief of the workers does this.

An unfinished run with the same settings and data is resumed. If the run is finished, `make
training` uses the next number, and a worker has nothing left to do. A run with other settings or
data, or one that another job is training, is refused.
"""

import contextlib
import itertools
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from common import storage
from common.errors import QfleetError, RunError
from common.lease import Lease
from common.runs.attempts import Attempts
from common.runs.run import FORMAT, MAX_NAME_LENGTH, Run, now
from common.storage import StoragePath

log = logging.getLogger("qfleet")

_BEFORE_RECORD = ("lease.json", "attempts.json", "text", "logs")
"""Content of a run folder without run.json, left by an attempt that was killed early."""


def numbered(wanted: str) -> Iterator[str]:
    """Yield a run name and its successors: wanted, wanted-2, wanted-3, ..."""
    yield wanted
    for number in itertools.count(2):
        suffix = f"-{number}"
        yield wanted[: MAX_NAME_LENGTH - len(suffix)].rstrip("-") + suffix


def next_name(root: StoragePath, wanted: str) -> str:
    """Return the name of the run that `make training` trains.

    Args:
        root: STORAGE.
        wanted: RUN, or the name of the model.

    Returns:
        The first of wanted, wanted-2, wanted-3, ... that is not finished.
    """
    return next(name for name in numbered(wanted) if not Run.at(root, name).finished())


@dataclass(frozen=True)
class FinishedRun:
    """Result of `claim_for_training` for a finished run; str() is the message for the user."""

    run: Run

    def __str__(self) -> str:
        return f"run {self.run.name} is already finished: there is nothing left to do"


@dataclass(frozen=True)
class ClaimedRun:
    """A run that this job may train until `close`; a context manager.

    Args:
        run: The run.
        resumed: True if an earlier attempt recorded the run; otherwise it is new.
        lease: Lease that excludes other jobs.
    """

    run: Run
    resumed: bool
    lease: Lease = field(repr=False)

    def check(self) -> None:
        """Raise if another job (RunError) or attempt (PeerLost) has taken over the run."""
        self.lease.check()

    def begin_attempt(self, limit: int) -> int:
        """Count this attempt; see `Attempts.begin`."""
        return Attempts(self.run.path).begin(limit)

    def withdraw_attempt(self) -> None:
        """Do not count this attempt: the workers did not complete the rendezvous."""
        Attempts(self.run.path).withdraw()

    def record_cause(self, text: str) -> None:
        """Record why this attempt fails.

        An error of storage is only logged, since this process must end with the cause itself.
        """
        try:
            Attempts(self.run.path).record_cause(text)
        except QfleetError as error:
            log.warning(f"the cause of this failure was not recorded: {error}")

    def finish(self, result: Mapping[str, Any]) -> None:
        """Commit the result, if this job still has the lease; see `Run.finish`."""
        self.check()
        self.run.finish(result)

    def close(self) -> None:
        """Release the run. Safe to call twice."""
        self.lease.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def claim_for_training(
    root: StoragePath,
    name: str,
    identity: Mapping[str, Any],
    fingerprint: str,
    data_fingerprint: str,
    versions: Mapping[str, str],
    job_id: str,
    other: Mapping[str, Any] | None = None,
) -> ClaimedRun | FinishedRun:
    """Create or resume a run, and exclude other jobs from it.

    Args:
        root: STORAGE.
        name: Name of the run.
        identity: Settings that identify the run (`Settings.identity()`).
        fingerprint: SHA-256 of these settings (`Settings.fingerprint()`).
        data_fingerprint: SHA-256 of the data set.
        versions: Package -> version, for the record.
        job_id: Identity that all attempts of a job share; other jobs are refused meanwhile.
        other: Settings to record that may differ on resume (EPOCHS, WORKERS).

    Raises:
        RunError: The run has other settings or data, is in use by another job, or is damaged.
    """
    run = Run.at(root, name)
    record = {
        "format": FORMAT,
        "run": name,
        "settings": json.loads(json.dumps(dict(identity), default=str)),
        "other": json.loads(json.dumps(dict(other or {}), default=str)),
        "fingerprint": fingerprint,
        "data": data_fingerprint,
        "versions": dict(versions),
        "created": now(),
    }
    if run.finished():
        return FinishedRun(run)
    _check_record(run, record)  # before waiting for the lease
    lease = Lease(run.path, job_id, advice="wait for it, stop it, or choose another RUN").acquire()
    with contextlib.ExitStack() as on_error:
        on_error.callback(lease.close)
        if run.finished():  # by the previous holder of the lease
            return FinishedRun(run)
        resumed = _check_record(run, record)
        storage.remove_partial_files(run.path)
        if resumed:
            _warn_of_versions(run, versions)
        else:
            storage.write_json(run.path / "run.json", record)
        on_error.pop_all()
    return ClaimedRun(run, resumed, lease)


def _check_record(run: Run, record: Mapping[str, Any]) -> bool:
    """Return True if the run exists with the same record, False if it is new.

    Raises:
        RunError: The run has other settings or data, or the folder has other content.
    """
    if not run.exists():
        others = [p.name for p in storage.children(run.path) if p.name not in _BEFORE_RECORD]
        if others:
            raise RunError(
                f"{run.path} is not a run (it contains {others[0]} but no run.json): choose another"
                " RUN or move it away"
            )
        return False
    existing = run.record()
    differing = differences(existing["settings"], record["settings"])
    if differing or existing["fingerprint"] != record["fingerprint"]:
        changes = ", ".join(f"{n.upper()}={was} (now {now})" for n, was, now in differing)
        raise RunError(
            f"run {run.name} was created with {changes or 'settings of another version of qfleet'}:"
            " use the same settings to resume it, or choose another RUN"
        )
    if existing["data"] != record["data"]:
        raise RunError(
            f"run {run.name} was created with other data: DATA={record['settings'].get('data')} has"
            " changed since; restore the data to resume it, or choose another RUN"
        )
    return True


def _warn_of_versions(run: Run, versions: Mapping[str, str]) -> None:
    before = run.record().get("versions", {})
    for package, version in versions.items():
        if before.get(package) != version:
            log.warning(
                f"run {run.name} was created with {package} {before.get(package)}, and is resumed"
                f" with {version}"
            )


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return settings with different values: (name, value before, value now) as text, by name."""
    missing = "unset"
    return [
        (name, str(before.get(name, missing)), str(now.get(name, missing)))
        for name in sorted({*before, *now})
        if before.get(name, missing) != now.get(name, missing)
    ]
