"""Causes and remedies: why a pod does not start, and why a worker was lost.

Pure functions of what the API returns for pods and events. Each result is one sentence.
"""

import enum
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from common.commands import command
from common.errors import PeerLost, Preempted
from launch import api_errors, job
from launch.job import Pod
from launch.pods import Object, ReadObject

BRIEF_WAIT_SECONDS = 15.0
"""Time to wait where the missing object may be about to be created (Wait.BRIEF)."""

CREATED = ("SuccessfulCreatePod", "SuccessfulCreate")
NOT_CREATED = ("FailedCreatePod", "FailedCreate", "FailedCreateService")
"""Reasons of events of the controllers of training jobs, Jobs and Deployments about their pods."""

SCALE_UP_REASONS = ("TriggeredScaleUp", "NotTriggerScaleUp")
"""Reasons of the autoscaler's events about a pod: it adds a node, or does not."""

DELETED = "was deleted"

MAX_MESSAGE_CHARACTERS = 400


class Wait(enum.Enum):
    """Classes of obstacles by the time after which waiting can't help."""

    NONE = "waiting does not help"
    BRIEF = "the missing object may be about to be created"
    PLACEMENT = "a node may become free or be added"


@dataclass(frozen=True)
class Obstacle:
    """The reason why a pod does not start.

    Args:
        sentence: Cause and remedy.
        wait: How long to wait.
    """

    sentence: str
    wait: Wait


def find_obstacle(pod: Pod, events: Sequence[ReadObject] = ()) -> Obstacle | None:
    """Return the reason why a pod does not start; None if none is known.

    Args:
        pod: The pod.
        events: The events about it, the newest last.
    """
    if pod.terminating:
        return None
    for one in pod.containers:
        if found := _container_obstacle(pod, one):
            return found
    for one in pod.status.get("conditions") or []:
        if one["type"] == "PodScheduled" and one.get("status") == "False":
            if one.get("reason") == "SchedulingGated":
                return Obstacle(f"{pod.title} waits to be admitted (QUEUE)", Wait.PLACEMENT)
            return Obstacle(_unschedulable(pod, str(one.get("message") or "")), Wait.PLACEMENT)
    for event in reversed(events):
        if event.get("reason") in ("FailedMount", "FailedCreatePodSandBox"):
            message = _shorten(event.get("message"))
            return Obstacle(f"{pod.title} can't start yet: {message}", Wait.PLACEMENT)
    return None


def _container_obstacle(pod: Pod, container: ReadObject) -> Obstacle | None:
    state = container.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    reason, text = waiting.get("reason"), _shorten(waiting.get("message"))
    image = container.get("image") or "?"
    for one in pod.object["spec"]["containers"]:
        if one["name"] == container["name"]:
            image = one.get("image", image)
    if reason == "InvalidImageName":
        return Obstacle(f"{image} is not a valid image name: set IMAGE=registry/name", Wait.NONE)
    if reason in ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable"):
        cause, permanent = _image_cause(text)
        return Obstacle(
            f"{pod.title} can't pull its image {image}{cause}: run `make images` to build it and"
            " `make push IMAGE=registry/name` to push it; on a cluster of this machine, `make"
            " cluster` loads it",
            Wait.NONE if permanent else Wait.BRIEF,
        )
    if reason == "CreateContainerConfigError":
        return Obstacle(
            f"{pod.title} can't be created ({text}): the overlay refers to an object that is not"
            f" in the namespace; apply all of it (`{command('train')} TARGET=k8s`)",
            Wait.BRIEF,
        )
    if reason in ("CreateContainerError", "RunContainerError"):
        return Obstacle(
            f"{pod.title} can't be created ({text}): change the overlay or IMAGE", Wait.BRIEF
        )
    if container is pod.main_status and pod.failed_to_start:
        cause = _shorten(ended.get("message"))
        return Obstacle(
            f"{pod.title} can't be started from image {image} ({cause}): rebuild it (`make"
            " images`)",
            Wait.NONE,
        )
    if reason == "CrashLoopBackOff":
        last = (container.get("lastState") or {}).get("terminated") or {}
        cause = _shorten(last.get("message")) or _how_it_ended(last)
        return Obstacle(f"{pod.title} fails repeatedly: {cause}", Wait.NONE)
    return None


def _image_cause(text: str) -> tuple[str, bool]:
    """Return the cause of a failed pull, in parentheses, and True if retrying can't help."""
    for sign, cause, permanent in (
        ("no such host", "registry not found", False),
        ("connection refused", "the registry does not answer", False),
        ("timeout", "the registry does not answer", False),
        ("not found", "no such image", True),
        ("does not exist", "no such image", True),
        ("denied", "the registry denies permission", True),
        ("authorization", "the registry denies permission", True),
        ("pull policy", "not on the node, and the pull policy forbids pulling", True),
    ):
        if sign in text:
            return f" ({cause})", permanent
    return f" ({text[-160:]})" if text else "", False


def _unschedulable(pod: Pod, text: str) -> str:
    requests = _requests(pod.object)
    cpu, memory = requests.get("cpu", "?"), requests.get("memory", "?")
    missing = []
    for sign, remedy in (
        ("Insufficient cpu", f"cpu (requested: {cpu}): lower CPU"),
        ("Insufficient memory", f"memory (requested: {memory}): lower MEMORY"),
        ("nvidia.com/gpu", "GPUs: use another OVERLAY, or nodes with GPUs"),
        ("Too many pods", "room for another pod: add nodes"),
    ):
        if sign in text:
            missing.append(f"no node has enough {remedy}")
    if "node affinity/selector" in text or "node(s) didn't match" in text:
        missing.append(f"no node has the labels that the overlay requires: {_selector(pod.object)}")
    if "untolerated taint" in text:
        missing.append("a taint keeps it away: add a toleration in the overlay, or nodes")
    scheduler = text.split(". ")[0].rstrip(".") or "no message yet"
    cause = "; ".join(missing) or "no node is suitable"
    return (
        f"{pod.title} can't be scheduled: {cause}, or use fewer WORKERS, or larger or more nodes"
        f" (scheduler: {scheduler})"
    )


def _resources(pod: ReadObject) -> ReadObject:
    return pod["spec"]["containers"][0].get("resources") or {}


def _requests(pod: ReadObject) -> dict[str, str]:
    resources = _resources(pod)
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _selector(pod: ReadObject) -> str:
    selector = pod["spec"].get("nodeSelector") or {}
    return ", ".join(f"{key}={value}" for key, value in sorted(selector.items())) or "affinity"


def is_scaling_up(events: Sequence[ReadObject]) -> bool:
    """Return True if the autoscaler's latest event about a pod is that it adds a node.

    Args:
        events: The events about the pod, the newest last.
    """
    reasons = [event["reason"] for event in events if event.get("reason") in SCALE_UP_REASONS]
    return reasons[-1:] == [SCALE_UP_REASONS[0]]


def creation_obstacle(
    events: Sequence[ReadObject], since: datetime | None = None
) -> Obstacle | None:
    """Return the reason why a job's pods were not created; None if one was created since.

    Args:
        events: The events about the job, the newest last.
        since: Events until this time may be outdated, as controllers retry slowly.
    """
    for event in reversed(events):
        if event.get("reason") in CREATED:
            return None
        if event.get("reason") in NOT_CREATED:
            text = _shorten(event.get("message"))
            admission = api_errors.from_admission_message(text)
            sentence = str(admission) if admission else f"the job's pods can't be created: {text}"
            outdated = since is not None and event_time(event) <= since
            return Obstacle(sentence, Wait.PLACEMENT if outdated else Wait.BRIEF)
    return None


def describe_resize(found: ReadObject) -> str:
    """Return a warning if the number of a training's workers was changed; else an empty string."""
    name = found["metadata"]["name"]
    replicas, configured = job.worker_count(found), job.configured_workers(found)
    if replicas == configured:
        return ""
    return (
        f"job {name} was changed to WORKERS={replicas} while running, but its workers are"
        f" configured for WORKERS={configured}: run `{command('cluster stop')} {name}`, then"
        f" `{command('train')} TARGET=k8s RUN={name} WORKERS={replicas}`"
    )


def event_time(event: ReadObject) -> datetime:
    """Return the time (UTC) at which an event occurred last."""
    last = event.get("lastTimestamp") or (event.get("series") or {}).get("lastObservedTime")
    text = last or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    return datetime.fromisoformat(str(text))


def sort_events(events: Iterable[Object]) -> list[Object]:
    """Return events, the newest last; of two in the same second, a failure counts as newer."""
    return sorted(events, key=lambda event: (event_time(event), event.get("reason") not in CREATED))


def disruption_cause(pod: Pod) -> str:
    """Return why a pod that was running was lost or will be, such as "was evicted".

    Empty while it runs, after success, and where the worker ended because a peer was lost: the
    peer's pod has the cause.
    """
    for one in pod.status.get("conditions") or []:
        if one["type"] == "DisruptionTarget" and one.get("status") == "True":
            return {
                "EvictionByEvictionAPI": "was evicted (a node is being drained)",
                "PreemptionByScheduler": "was preempted by a pod of higher priority",
                "DeletionByTaintManager": "was deleted because its node is not ready",
                "TerminationByKubelet": "was terminated by its node",
                "DeletionByPodGC": "was lost with its node",
            }.get(str(one.get("reason")), "was disrupted")
    if pod.status.get("reason") == "Evicted":
        message = _shorten(pod.status.get("message")) or "its node ran out of resources"
        return f"was evicted ({message})"
    if pod.failed_to_start:
        return ""  # `find_obstacle` has the cause
    if pod.terminating and pod.ran_until_deletion:
        return DELETED
    if pod.terminated is not None and pod.exit_code != 0:
        return "" if pod.exit_code == PeerLost.exit_code else termination_cause(pod)
    return ""


def termination_cause(pod: Pod) -> str:
    """Return how a container ended, for one without a termination message."""
    return _how_it_ended(pod.terminated or {}, pod.object)


def _how_it_ended(ended: ReadObject, pod: ReadObject | None = None) -> str:
    if ended.get("reason") == "OOMKilled":
        limit = _resources(pod).get("limits", {}).get("memory") if pod else None
        of_limit = f" of {limit}" if limit else ""
        return f"exceeded its memory limit{of_limit} and was killed (raise MEMORY)"
    code = int(ended.get("exitCode") or 0)
    known = {137: "was killed by SIGKILL", Preempted.exit_code: "was stopped by SIGTERM"}
    return known.get(code) or _shorten(ended.get("message")) or f"ended with exit code {code}"


def _shorten(text: object) -> str:
    """Return a message on one line, without the container runtime's nesting, and not too long."""
    line = " ".join(str(text or "").split())
    line = re.sub(r"^(rpc error: code = \w+ desc = )+", "", line)
    return (
        line if len(line) <= MAX_MESSAGE_CHARACTERS else f"{line[: MAX_MESSAGE_CHARACTERS - 3]}..."
    )
