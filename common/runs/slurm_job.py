"""A run's Slurm job in the run's folder: which job it is, and how each worker of each start ended.

    RUN/slurm/job.json                      the newest job, written when sbatch has accepted it
    RUN/slurm/job-ID.log                    its output, if STORAGE is a folder
    RUN/slurm/ID-RESTART/worker-RANK.json   the outcome of a worker in one start of the job

Slurm knows one exit code per job, and that of a killed worker may hide the cause. So each worker's
parent process records how it ended, and `decide` chooses the outcome that counts.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from common import storage
from common.errors import (
    EXIT_OK,
    DeadlineReached,
    PeerLost,
    Preempted,
    RetryableError,
    RunError,
)
from common.runs.run import Run
from common.storage import StoragePath

FOLDER = "slurm"
KILLED = 137
"""128 + SIGKILL: the exit code of a worker that left no outcome."""

_CONSEQUENCES = (PeerLost.exit_code, Preempted.exit_code)
"""Exit codes of workers that ended because another one did."""


@dataclass(frozen=True)
class SlurmJob:
    """A submitted job; the content of job.json.

    Attributes:
        slurm_id: Its number in Slurm.
        job_id: Identity of the job for its workers, the same in all of its starts.
        workers: Number of workers.
        log: File of its output, on the machine that submitted it.
    """

    slurm_id: int
    job_id: str
    workers: int
    log: str

    @classmethod
    def read(cls, run: Run) -> "SlurmJob | None":
        """Return the newest job of a run; None without one.

        Raises:
            RunError: The file is damaged.
        """
        path = job_file(run.path)
        try:
            return cls(**_checked(storage.read_json(path), cls))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            raise RunError(f"{path} is damaged: delete it") from None

    def write(self, run: Run) -> None:
        """Write job.json."""
        storage.write_json(job_file(run.path), asdict(self))


@dataclass(frozen=True)
class Outcome:
    """The end of a worker.

    Attributes:
        exit_code: Its exit code, 128 + n where signal n ended it.
        cause: Its last error, in one sentence; empty without one.
    """

    exit_code: int
    cause: str

    @property
    def is_final(self) -> bool:
        """True if another start would end the same way."""
        return EXIT_OK < self.exit_code < RetryableError.exit_code


def job_file(run: StoragePath) -> StoragePath:
    """Return the path of job.json in a run's folder."""
    return run / FOLDER / "job.json"


def record_outcome(run: Run, start: str, rank: int, outcome: Outcome) -> None:
    """Record how a worker ended.

    Args:
        run: The run.
        start: Number of the job and of its restart, such as 17-0.
        rank: Rank of the worker.
        outcome: How it ended.
    """
    storage.write_json(run.path / FOLDER / start / f"worker-{rank}.json", asdict(outcome))


def outcomes(run: Run, start: str, workers: int) -> dict[int, Outcome]:
    """Return the recorded outcomes of one start by rank; those that are damaged are left out."""
    found = {}
    for rank in range(workers):
        try:
            content = storage.read_json(run.path / FOLDER / start / f"worker-{rank}.json")
            found[rank] = Outcome(**_checked(content, Outcome))
        except (FileNotFoundError, ValueError, TypeError):
            continue
    return found


def decide(found: Mapping[int, Outcome], workers: int) -> Outcome:
    """Return the outcome of one start: that of the worker whose end is the cause of the others'.

    A code from 1 to 127 counts before all others, then DEADLINE, then a worker that was killed or
    failed, then one that ended because of another one.

    Args:
        found: Recorded outcomes by rank. A worker without one was killed together with its parent.
        workers: Number of workers.
    """
    missing = Outcome(KILLED, "it was killed, or its node was lost, before it recorded its end")
    complete = {rank: found.get(rank, missing) for rank in range(workers)}
    failed = {rank: one for rank, one in complete.items() if one.exit_code != EXIT_OK}
    if not failed:
        return Outcome(EXIT_OK, "")
    rank = min(failed, key=lambda rank: (_weight(failed[rank]), rank))
    cause = failed[rank].cause or f"exit code {failed[rank].exit_code}"
    return Outcome(failed[rank].exit_code, f"worker {rank}: {cause}")


def _weight(outcome: Outcome) -> int:
    if outcome.is_final:
        return 0
    if outcome.exit_code == DeadlineReached.exit_code:
        return 1
    return 3 if outcome.exit_code in _CONSEQUENCES else 2


def _checked(content: Any, kind: type) -> dict[str, Any]:
    """Return the fields of a record.

    Raises:
        TypeError: A field is missing or has another type.
    """
    fields = {name: content[name] for name in kind.__annotations__ if name in content}
    for name, expected in kind.__annotations__.items():
        if type(fields.get(name)) is not expected:
            raise TypeError(name)
    return fields
