"""The interface between a study and what runs its trials: processes, jobs of a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class TrialRequest:
    """A trial to start.

    Attributes:
        number: Number of the trial, from 0.
        run: Name of its run.
        args: All of its settings, as arguments.
        job_id: Identity of its job.
    """

    number: int
    run: str
    args: Sequence[str]
    job_id: str


@dataclass(frozen=True)
class TrialOutcome:
    """The end of a trial.

    Attributes:
        exit_code: Its exit code, 128 + n where signal n ended it.
        reason: Why it ended, in one sentence; empty for exit code 0.
    """

    exit_code: int
    reason: str


class TrialHandle(Protocol):
    """A trial that was started."""

    @property
    def is_running(self) -> bool:
        """True while its workers use resources; False while it waits in a queue."""

    def poll(self) -> TrialOutcome | None:
        """Return how it ended; None while it has not."""

    def stop(self) -> None:
        """Request its end; it saves a checkpoint. Returns at once."""

    def close(self) -> None:
        """Release it; a requested end is waited for.

        A trial of a cluster that was not stopped keeps running.
        """


class TrialLauncher(Protocol):
    """Starts trials.

    Attributes:
        slots: Trials that are started, and have not ended, at a time.
        outlives_study: True if trials run on when the study's process ends.
    """

    slots: int
    outlives_study: bool

    def start(self, requests: Sequence[TrialRequest]) -> Sequence[TrialHandle]:
        """Start trials; one that runs already, since an earlier start of the study, is followed.

        Args:
            requests: The trials.

        Returns:
            Their handles, in this order.
        """
