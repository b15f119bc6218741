"""Claiming a run for training. Only the chief of the workers does this.

An unfinished run with the same settings and data is resumed. If the run is finished, `make
training` uses the next number, and a worker has nothing left to do. A run with other settings or
data, or one that another job is training, is refused; before its first epoch, it is replaced.
"""

import itertools
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from common import storage
from common.commands import command
from common.errors import QfleetError, RunError
from common.lease import Lease
from common.runs.run import FORMAT, MAX_NAME_LENGTH, Run, now
from common.settings.circuit_file import short_model
from common.storage import StoragePath
from qfleet.devices.calibration import short_name

log = logging.getLogger("qfleet")

_SHARED_FOLDERS = ("attempts", "slurm")
"""Folders of a run to which all workers write."""

_BEFORE_RECORD = ("lease.json", "attempts", "rendezvous", "slurm", "text", "logs")
"""Content of a run folder without run.json, left by an attempt that was killed early."""

_RECORD = ("logs", "metrics.jsonl", "contraction_paths.json", "run.json")
"""Files of one training before its first checkpoint; run.json is last, since it marks the run."""


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
        settings: Settings that identify it, and their SHA-256.
        lease: Lease that excludes other jobs.
    """

    run: Run
    settings: "RunSettings"
    lease: Lease = field(repr=False)

    def check(self) -> None:
        """Raise if another job (RunError) or attempt (PeerLost) has taken over the run."""
        self.lease.check()

    def confirm(self) -> None:
        """Return when storage shows that this job has the run; see `Lease.confirm`."""
        self.lease.confirm()

    def record(
        self, data_fingerprint: str, versions: Mapping[str, str], other: Mapping[str, object]
    ) -> bool:
        """Write run.json, or check that it records the same settings and data.

        Args:
            data_fingerprint: SHA-256 of the data set.
            versions: Package -> version, for the record.
            other: Settings to record that may differ on resume (EPOCHS, WORKERS).

        Returns:
            True if an earlier attempt recorded the run; False if it is new.

        Raises:
            RunError: The run has other settings or data, or was lost to another job.
        """
        self.confirm()
        storage.remove_partial_files(self.run.path, kept=_SHARED_FOLDERS)
        record = {
            "format": FORMAT,
            "run": self.run.name,
            "settings": self.settings.identity,
            "other": json.loads(json.dumps(dict(other), default=str)),
            "fingerprint": self.settings.fingerprint,
            "data": data_fingerprint,
            "versions": dict(versions),
            "created": now(),
        }
        content = json.dumps(record, indent=1, allow_nan=False) + "\n"
        exists = self.run.exists()
        conflict = self._conflict(data_fingerprint) if exists else ""
        if conflict and not self.run.has_trained():
            log.warning(f"{conflict}; it has trained no epoch, so this training replaces it")
            _delete_record(self.run)
            exists, conflict = False, ""
        if not exists:
            if storage.create_exclusive(self.run.path / "run.json", content.encode()):
                return False
            conflict = self._conflict(data_fingerprint)
        if conflict:
            raise _conflict_error(self.run, conflict)
        _warn_of_versions(self.run, versions)
        return True

    def _conflict(self, data_fingerprint: str) -> str:
        """Return how the recorded run differs from this one; empty if it is the same."""
        existing = self.run.record()
        if conflict := _settings_conflict(self.run, existing, self.settings):
            return conflict
        if existing["data"] == data_fingerprint:
            return ""
        return (
            f"run {self.run.name} was created with other data"
            f" (DATA={self.settings.identity.get('data')} has changed since)"
        )

    def finish(self, result: Mapping[str, object]) -> None:
        """Commit the result on the condition that this job has the lease; see `Run.result_text`.

        The run is finished from then on. Models that other attempts left are deleted.
        """
        self.lease.commit_final("result.json", self.run.result_text(result))
        try:
            self.run.delete_other_models()
        except QfleetError as error:
            log.warning(f"models of other attempts were not deleted: {error}")

    def close(self) -> None:
        """Release the run. Safe to call twice."""
        self.lease.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class RunSettings:
    """Settings that identify a run, as recorded, and their SHA-256."""

    identity: dict[str, object]
    fingerprint: str


def claim_for_training(
    root: StoragePath,
    name: str,
    identity: Mapping[str, object],
    fingerprint: str,
    job_id: str,
    on_lost: Callable[[QfleetError], None] | None = None,
) -> ClaimedRun | FinishedRun:
    """Exclude other jobs from a run, which may not exist yet.

    Args:
        root: STORAGE.
        name: Name of the run.
        identity: Settings that identify the run (`Settings.identity()`).
        fingerprint: SHA-256 of these settings (`Settings.fingerprint()`).
        job_id: Identity that all attempts of a job share; other jobs are refused meanwhile.
        on_lost: Called when the run is lost to another job; see `Lease`.

    Raises:
        RunError: The run has other settings, is in use by another job, or is damaged.
    """
    run = Run.at(root, name)
    settings = RunSettings(json.loads(json.dumps(dict(identity), default=str)), fingerprint)
    if run.finished():
        return FinishedRun(run)
    _check_settings(run, settings)  # before waiting for the lease
    advice = "wait for it, stop it, or choose another RUN"
    lease = Lease(run.path, job_id, advice=advice, on_lost=on_lost).acquire()
    if run.finished():  # by the previous holder of the lease
        lease.close()
        return FinishedRun(run)
    return ClaimedRun(run, settings, lease)


def _check_settings(run: Run, settings: RunSettings) -> None:
    """Check that a run is new, has the same settings, or has trained no epoch.

    Raises:
        RunError: The run has other settings, or the folder has other content.
    """
    if not run.exists():
        others = [p.name for p in storage.children(run.path) if p.name not in _BEFORE_RECORD]
        if others:
            raise RunError(
                f"{run.path} is not a run (it contains {others[0]} but no run.json): choose another"
                " RUN or move it away"
            )
        return
    conflict = _settings_conflict(run, run.record(), settings)
    if conflict and run.has_trained():
        raise _conflict_error(run, conflict)


def _settings_conflict(run: Run, existing: Mapping[str, Any], settings: RunSettings) -> str:
    """Return how the settings of a run's record differ; empty if they are equal."""
    differing = differences(existing["settings"], settings.identity)
    if not differing and existing["fingerprint"] == settings.fingerprint:
        return ""
    changes = ", ".join(f"{n.upper()}={was} (now {now})" for n, was, now in differing)
    return f"run {run.name} was created with {changes or 'settings of another version of qfleet'}"


def _conflict_error(run: Run, conflict: str) -> RunError:
    advice = f"set RUN={run.name}-2 or another name, or delete it (`{command('runs')} DELETE="
    return RunError(
        f"{conflict}: use the same settings and data to {run.continuation.partition(':')[0]},"
        f" {advice}{run.name}`)"
    )


def _delete_record(run: Run) -> None:
    """Delete what a training writes before its first checkpoint."""
    for name in _RECORD:
        storage.delete(run.path / name)


def _warn_of_versions(run: Run, versions: Mapping[str, str]) -> None:
    before = run.record().get("versions", {})
    for package, version in versions.items():
        if before.get(package) != version:
            log.warning(
                f"run {run.name} was created with {package} {before.get(package)}, and is resumed"
                f" with {version}"
            )


def differences(
    before: Mapping[str, object], now: Mapping[str, object]
) -> list[tuple[str, str, str]]:
    """Return settings with different values: (name, value before, value now) as text, by name."""
    missing = "unset"

    def text(value: object) -> str:
        return missing if value is None else short_name(short_model(str(value)))

    return [
        (name, text(before.get(name, missing)), text(now.get(name, missing)))
        for name in sorted({*before, *now})
        if before.get(name, missing) != now.get(name, missing)
    ]
