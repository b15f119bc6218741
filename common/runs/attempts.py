"""Starts of the workers of a run: all of them, and failed ones in a row without progress.

A supervisor (the local launcher, the Kubeflow operator) restarts workers without limit, so every
worker counts its own starts in RUN/attempts/worker-R.json, before anything that can fail. A start
counts as failed until it ends in order. So a process that is killed, whose memory runs out or that
crashes leaves its count, wherever it dies. After MAX_ATTEMPTS failed starts in a row without a
newer checkpoint, the next one ends the run with the last cause.

Ends that are not this worker's failure do not count: SIGTERM, a lost peer, a missing
worker, an outage of storage, DEADLINE, and errors that the user must correct. Only lost peers have
a limit of their own, in case no worker is the one that fails.

The chief's number of starts is the number of the attempt, which increases with each process that
writes to the run.
"""

import json
import logging
import uuid
from dataclasses import asdict, dataclass, replace

from common import checkpoints, storage
from common.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    DeadlineReached,
    PeerLost,
    Preempted,
    QfleetError,
    RendezvousTimeout,
    RunError,
    StorageUnavailable,
    UserError,
    one_line,
)
from common.storage import StoragePath

log = logging.getLogger("qfleet")

UNKNOWN_CAUSE = "the process was killed without an error message (out of memory?)"

MAX_BACKOFF_SECONDS = 30.0

PEER_LOSS_FACTOR = 4
"""Starts in a row that may end by a lost peer, in units of MAX_ATTEMPTS."""

_NOT_FAILURES = (
    EXIT_OK, EXIT_INTERRUPTED, UserError.exit_code, PeerLost.exit_code, Preempted.exit_code,
    RendezvousTimeout.exit_code, StorageUnavailable.exit_code, DeadlineReached.exit_code,
)  # fmt: skip


@dataclass(frozen=True)
class AttemptRecord:
    """Content of RUN/attempts/worker-R.json.

    Attributes:
        attempts: Starts of this worker.
        failed: Failed starts in a row without a newer checkpoint; the current one counts until it
            ends.
        peer_losses: Starts in a row without a newer checkpoint that ended by a lost peer.
        checkpoint: Attempt and step of the newest checkpoint at the start.
        job_id: Job of the last start.
        token: Identity of the last start.
        cause: End of the last start; empty while it runs, and after a kill.
        failure: Cause of the last failed start.
        refused: Reason why the last start was refused; empty if it was not.
    """

    attempts: int = 0
    failed: int = 0
    peer_losses: int = 0
    checkpoint: tuple[int, int] = (0, -1)
    job_id: str = ""
    token: str = ""
    cause: str = ""
    failure: str = ""
    refused: str = ""


class Attempts:
    """The starts of one worker of a run.

    Args:
        run: Folder of the run.
        rank: Rank of the worker. The chief calls `begin` while it holds the run's lease.
    """

    def __init__(self, run: StoragePath, rank: int = 0) -> None:
        self._run, self._rank = run, rank
        self._path = run / "attempts" / f"worker-{rank}.json"
        # The version is None from the decision to write to the end of the write, in which a signal
        # may end the process.
        self._current: tuple[AttemptRecord, str | None] | None = None

    def begin(self, limit: int, job_id: str = "") -> AttemptRecord:
        """Count a start.

        Args:
            limit: MAX_ATTEMPTS.
            job_id: Identity that all attempts of a job share. Starts of another job's workers,
                which may have ended with their refused chief, do not count.

        Returns:
            The record, whose `failed` counts this start. The chief's `attempts` is the number of
            the attempt.

        Raises:
            RunError: The limit is reached. Counting then starts again, since only a user starts the
                run after that, and has changed something.
            PeerLost: Another process of this worker started at the same time.
        """
        known, version = self._read()
        while True:
            try:
                return self._count(known, version, limit, job_id)
            except PeerLost:
                token = known.token
                known, version = self._read()
                if known.token != token:
                    raise
                # Only the end of the last start was recorded meanwhile, which happens once.

    def _count(self, known: AttemptRecord, version: str, limit: int, job_id: str) -> AttemptRecord:
        newest = checkpoints.newest_key(self._run)
        record = replace(known, checkpoint=newest, job_id=job_id, token=uuid.uuid4().hex)
        record = replace(record, cause="", refused="")
        if known.failed and not known.cause:
            record = replace(record, failure=UNKNOWN_CAUSE)
        if newest > known.checkpoint or (self._rank and known.job_id != job_id):
            record = replace(record, failed=0, peer_losses=0)
        if problem := self._exhausted(record, limit):
            self._write(replace(record, failed=0, peer_losses=0, refused=problem), version)
            raise RunError(problem)
        # Larger than the number of each earlier attempt, also where this file was deleted.
        number = max(record.attempts, newest[0] if self._rank == 0 else 0) + 1
        record = replace(record, attempts=number, failed=record.failed + 1)
        self._current = record, None
        self._current = record, self._write(record, version)
        return record

    def end(self, cause: str, exit_code: int) -> None:
        """Record the end of the current start; call it once.

        An error of storage is only logged, since this process must end with the cause itself.

        Args:
            cause: Why this process ends; empty after success.
            exit_code: Its exit code, which decides whether the start counts as failed.
        """
        if self._current is None:
            return
        record, version = self._current
        counted = exit_code not in _NOT_FAILURES
        record = replace(record, cause=cause or "ended", failed=record.failed - (not counted))
        if exit_code == PeerLost.exit_code:
            record = replace(record, peer_losses=record.peer_losses + 1)
        if counted or exit_code == PeerLost.exit_code:
            record = replace(record, failure=cause)
        try:
            if version is None:
                known, version = self._read()
                if known.token != record.token:
                    return  # the start was not written
            self._current = record, self._write(record, version)
        except QfleetError as error:
            log.warning(f"the end of this attempt was not recorded: {one_line(error)}")

    def failure(self, job_id: str) -> tuple[str, bool]:
        """Return the last failure of a worker that another one waits for.

        Returns:
            The cause, or nothing if its starts in this job did not fail; and True if its last start
            was refused, so that it will not come.
        """
        known, _ = self._read()
        if known.job_id != job_id:
            return "", False
        if known.refused:
            return known.refused, True
        return (known.failure if known.failed > 1 else ""), False

    def _exhausted(self, record: AttemptRecord, limit: int) -> str:
        """Return the reason to refuse another start, or nothing."""
        who = f"worker {self._rank} of run" if self._rank else "run"
        if record.failed >= limit:
            return (
                f"{who} {self._run.name} made no progress in {record.failed} attempts in a row"
                f" (MAX_ATTEMPTS={limit}); the last one failed: {record.failure or UNKNOWN_CAUSE}"
            )
        if record.peer_losses >= PEER_LOSS_FACTOR * limit:
            return (
                f"{who} {self._run.name} made no progress in {record.peer_losses} attempts in a"
                f" row, each of which ended by a lost peer ({PEER_LOSS_FACTOR} x"
                f" MAX_ATTEMPTS={limit}); the last one: {record.failure}"
            )
        return ""

    def _read(self) -> tuple[AttemptRecord, str]:
        found = storage.read_versioned(self._path)
        if found.data is None:
            return AttemptRecord(), found.version
        try:
            content = json.loads(found.data)
            record = AttemptRecord(**{**content, "checkpoint": tuple(content["checkpoint"])})
        except (ValueError, TypeError, KeyError, RecursionError):
            record = None
        empty = AttemptRecord()
        if (
            record is None
            or any(
                type(value) is not type(getattr(empty, name))
                for name, value in vars(record).items()
            )
            or [type(number) for number in record.checkpoint] != [int, int]
        ):
            raise RunError(f"{self._path} is damaged: delete the folder {self._path.parent}")
        return record, found.version

    def _write(self, record: AttemptRecord, version: str) -> str:
        try:
            data = json.dumps(asdict(record), indent=1).encode() + b"\n"
            return storage.write_if(self._path, data, version)
        except storage.VersionConflict:
            raise PeerLost(
                f"another process of worker {self._rank} of run {self._run.name} has started"
            ) from None


def backoff_seconds(failed: int) -> float:
    """Return the pause before a start.

    Args:
        failed: Failed starts in a row before it. The first restart has no delay.
    """
    return 0.0 if failed < 2 else min(MAX_BACKOFF_SECONDS, 2.0 ** (failed - 2))
