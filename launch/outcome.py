"""The end of a job: exit code and message."""

from collections.abc import Sequence
from dataclasses import dataclass

from common.errors import EXIT_BUG, EXIT_OK, DeadlineReached, RetryableError
from launch import diagnosis, job
from launch.job import Pod
from launch.pods import ReadObject


@dataclass(frozen=True)
class JobOutcome:
    """The end of a job.

    Args:
        code: The exit code: 0, or that of the container that made the job fail.
        sentence: A message of one line.
    """

    code: int
    sentence: str


def outcome_of(found: ReadObject, pods: Sequence[Pod]) -> JobOutcome:
    """Return the outcome of a finished job.

    Args:
        found: The job.
        pods: Its pods, by rank.
    """
    name, phase = found["metadata"]["name"], job.phase(found)
    if phase == "Succeeded":
        # A Job also keeps lost pods, whose messages are not about the result.
        messages = [pod.termination_message for pod in pods if not pod.exit_code]
        message = next(filter(None, messages), "")
        return JobOutcome(EXIT_OK, f"job {name} Succeeded" + (f": {message}" if message else ""))
    if job.exceeded_deadline(found):
        return JobOutcome(
            DeadlineReached.exit_code, f"job {name} Failed: DEADLINE seconds have passed"
        )
    failed = [pod for pod in pods if pod.exit_code]
    if not failed:
        cause = job.reason(found) or "its pods no longer exist"
        return JobOutcome(EXIT_BUG, f"job {name} Failed: {cause}")
    culprit = min(failed, key=_blame)
    message = culprit.termination_message or diagnosis.termination_cause(culprit)
    return JobOutcome(
        culprit.exit_code or EXIT_BUG, f"job {name} Failed: {culprit.title}: {message}"
    )


def _blame(pod: Pod) -> tuple[bool, str]:
    # A code below 128 makes the job fail; a higher one is only a consequence at other workers.
    ended = str((pod.terminated or {}).get("finishedAt"))
    return (pod.exit_code or 0) >= RetryableError.exit_code, ended
