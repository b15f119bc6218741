"""Which run is meant, and opening it for training. Only a gang's chief does this.

Unfinished and made with the same settings and data: resume. Finished: `make training` takes the
next number; a worker that finds its run finished has nothing left to do. Made with other settings
or data: refused. Being trained by another gang: refused.
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
from common.runs.run import Run, now
from common.storage import StoragePath

log = logging.getLogger("qfleet")

FORMAT = 1
_LONGEST = 53

_BEFORE_RECORD = ("lease.json", "attempts.json", "text", "logs")
"""What may lie in a run's folder although run.json does not: traces of a start that was killed."""


def numbered(wanted: str) -> Iterator[str]:
    """A run's name, and those that follow it: wanted, wanted-2, wanted-3, ..."""
    yield wanted
    for number in itertools.count(2):
        ending = f"-{number}"
        yield wanted[: _LONGEST - len(ending)].rstrip("-") + ending


def next_name(root: StoragePath, wanted: str) -> str:
    """The run that `make training` means.

    Args:
        root: STORAGE.
        wanted: RUN, or the model's name.

    Returns:
        `wanted`, where there is no such run or it is unfinished; else the first of wanted-2,
        wanted-3, ... that is not finished.
    """
    return next(name for name in numbered(wanted) if not Run.at(root, name).finished())


@dataclass(frozen=True)
class FinishedRun:
    """The answer of `open_for_training` where nothing is left to do; str() is the sentence."""

    run: Run

    def __str__(self) -> str:
        return f"run {self.run.name} is finished already: there is nothing left to do"


@dataclass(frozen=True)
class ClaimedRun:
    """A run that this gang holds, until `close`; a context manager.

    Args:
        run: The run.
        resumed: Whether an earlier start recorded it; else it is new.
        lease: What keeps other gangs away.
    """

    run: Run
    resumed: bool
    lease: Lease = field(repr=False)

    def check(self) -> None:
        """Raise if another gang (RunError) or attempt (PeerLost) has taken the run over."""
        self.lease.check()

    def begin_attempt(self, limit: int) -> int:
        """Count this start; see `Attempts.begin`."""
        return Attempts(self.run.path).begin(limit)

    def take_back_attempt(self) -> None:
        """Let this start not count as one in vain: the gang never came together."""
        Attempts(self.run.path).take_back()

    def record_cause(self, text: str) -> None:
        """Note why this attempt ends, for the last one's sentence. Where storage refuses, that is
        only logged: the cause itself is what this process should end with."""
        try:
            Attempts(self.run.path).record_cause(text)
        except QfleetError as error:
            log.warning(f"why this attempt ends was not recorded: {error}")

    def finish(self, result: Mapping[str, Any]) -> None:
        """Commit the result, if the run is still ours; see `Run.finish`."""
        self.check()
        self.run.finish(result)

    def close(self) -> None:
        """Let the run go. Safe to call twice."""
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
    gang: str,
    other: Mapping[str, Any] | None = None,
) -> ClaimedRun | FinishedRun:
    """Make or resume a run, and keep other gangs from it.

    Args:
        root: STORAGE.
        name: The run's name.
        identity: The settings that make the run what it is (`Settings.identity()`).
        fingerprint: Their sha256 (`Settings.fingerprint()`).
        data_fingerprint: That of the data set.
        versions: Package -> version, recorded.
        gang: What all attempts of one gang share; another gang is refused while this one lives.
        other: Settings to record that may differ when resumed (EPOCHS, WORKERS).

    Raises:
        RunError: Made with other settings or data, trained by another gang, or damaged.
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
    _same(run, record)  # before the lease is waited for: it may be refused at once
    lease = Lease(run.path, gang).acquire()
    with contextlib.ExitStack() as unless_held:
        unless_held.callback(lease.close)
        if run.finished():  # by the gang that held it until now
            return FinishedRun(run)
        resumed = _same(run, record)
        storage.remove_partial_files(run.path)
        if resumed:
            _warn_of_versions(run, versions)
        else:
            storage.write_json(run.path / "run.json", record)
        unless_held.pop_all()
    return ClaimedRun(run, resumed, lease)


def _same(run: Run, record: Mapping[str, Any]) -> bool:
    """Whether the run was recorded before, as it would be now.

    Raises:
        RunError: It was recorded with other settings or data, or there is something else.
    """
    if not run.exists():
        strangers = [p.name for p in storage.children(run.path) if p.name not in _BEFORE_RECORD]
        if strangers:
            raise RunError(
                f"{run.path} is not a run (it holds {strangers[0]} but no run.json): choose"
                " another RUN or move it away"
            )
        return False
    there = run.record()
    differing = differences(there["settings"], record["settings"])
    if differing or there["fingerprint"] != record["fingerprint"]:
        told = ", ".join(f"{n.upper()}={was} (now {now})" for n, was, now in differing)
        raise RunError(
            f"run {run.name} was begun with {told or 'settings of another version of qfleet'}:"
            " set them the same to resume it, or choose another RUN"
        )
    if there["data"] != record["data"]:
        raise RunError(
            f"run {run.name} was begun with other data: DATA={record['settings'].get('data')} has"
            " changed since; restore the data to resume it, or choose another RUN"
        )
    return True


def _warn_of_versions(run: Run, versions: Mapping[str, str]) -> None:
    before = run.record().get("versions", {})
    for package, version in versions.items():
        if before.get(package) != version:
            log.warning(
                f"run {run.name} was begun with {package} {before.get(package)}, this is {version}"
            )


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Settings with different values: (name, value before, value now) as text, by name."""
    missing = "unset"
    return [
        (name, str(before.get(name, missing)), str(now.get(name, missing)))
        for name in sorted({*before, *now})
        if before.get(name, missing) != now.get(name, missing)
    ]
