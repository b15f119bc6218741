"""How a job ended: its exit code, and one sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from common.errors import EXIT_BUG, DeadlineReached, RetryableError
from launch import diagnosis, job
from launch.job import Pod

Object = Mapping[str, Any]


@dataclass(frozen=True)
class JobOutcome:
    """How a job ended.

    Args:
        code: The exit code: 0, or that of the container that failed the job.
        sentence: One line that says so.
    """

    code: int
    sentence: str


def outcome_of(found: Object, pods: Sequence[Pod]) -> JobOutcome:
    """How a finished job ended, by what its pods left.

    Args:
        found: The TFJob or Job.
        pods: Its pods, by number.
    """
    name, phase = found["metadata"]["name"], job.phase(found)
    if phase == "Succeeded":
        # Of a Job, those pods are there, too, that were lost and left another word.
        words = next((pod.last_words for pod in pods if pod.last_words and not pod.exit_code), "")
        return JobOutcome(0, f"job {name} Succeeded" + f": {words}" * bool(words))
    if job.past_deadline(found):
        return JobOutcome(
            DeadlineReached.exit_code, f"job {name} Failed: DEADLINE seconds have passed"
        )
    failed = [pod for pod in pods if pod.exit_code]
    if not failed:
        return JobOutcome(
            EXIT_BUG, f"job {name} Failed: {job.reason(found) or 'its pods are gone'}"
        )
    worst = min(failed, key=_blame)
    words = worst.last_words or diagnosis.termination_cause(worst)
    return JobOutcome(worst.exit_code or EXIT_BUG, f"job {name} Failed: {worst.title}: {words}")


def _blame(pod: Pod) -> tuple[bool, str]:
    # What is below 128 failed the job; a code above it is another worker's, who lost that one.
    ended = str((pod.terminated or {}).get("finishedAt"))
    return (pod.exit_code or 0) >= RetryableError.exit_code, ended
