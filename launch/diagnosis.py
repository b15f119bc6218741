"""Why a pod does not start, and why a worker went away: each a sentence with its remedy.

Pure functions over what the API says of a pod and its events.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from common.errors import PeerLost, Preempted
from launch import api_errors, job
from launch.job import Pod

Object = Mapping[str, Any]

AT_ONCE, SOON, PLACE = "at once", "soon", "place"
"""When waiting is over: nothing changes by it; what is being made may come; a node may come."""

MADE = ("SuccessfulCreatePod", "SuccessfulCreate")
NOT_MADE = ("FailedCreatePod", "FailedCreate", "FailedCreateService")
"""Events of the controllers of TFJobs, Jobs and Deployments about their pods."""

SCALES = ("TriggeredScaleUp", "NotTriggerScaleUp")
"""The autoscaler's events about a pod without a place: it makes a node for it, or does not."""


@dataclass(frozen=True)
class Obstacle:
    """What keeps a pod from starting.

    Args:
        sentence: What it is, and what to do.
        patience: AT_ONCE, SOON or PLACE.
    """

    sentence: str
    patience: str


def obstacle(pod: Pod, events: Sequence[Object] = ()) -> Obstacle | None:
    """What keeps a pod from starting; None where nothing is known to.

    Args:
        pod: The pod.
        events: Those about it, the newest last.
    """
    if pod.leaving:
        return None
    for one in pod.containers:
        if found := _container(pod, one):
            return found
    for one in pod.status.get("conditions") or []:
        if one["type"] == "PodScheduled" and one.get("status") == "False":
            if one.get("reason") == "SchedulingGated":
                return Obstacle(f"{pod.title} waits to be admitted (QUEUE)", PLACE)
            return Obstacle(_unschedulable(pod, str(one.get("message") or "")), PLACE)
    for event in reversed(events):
        if event.get("reason") in ("FailedMount", "FailedCreatePodSandBox"):
            return Obstacle(f"{pod.title} can't start yet: {_told(event.get('message'))}", PLACE)
    return None


def _container(pod: Pod, container: Object) -> Obstacle | None:
    state = container.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    reason, text = waiting.get("reason"), _told(waiting.get("message"))
    image = container.get("image") or "?"
    for one in pod.object["spec"]["containers"]:
        if one["name"] == container["name"]:
            image = one.get("image", image)
    if reason == "InvalidImageName":
        return Obstacle(f"{image} is no image's name: set IMAGE=registry/name", AT_ONCE)
    if reason in ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable"):
        cause, definite = _image_cause(text)
        return Obstacle(
            f"{pod.title} can't get its image {image}{cause}: `make images` builds it and"
            " `make push IMAGE=registry/name` puts it where the cluster finds it; on a cluster of"
            " this machine `make cluster` loads it",
            AT_ONCE if definite else SOON,
        )
    if reason == "CreateContainerConfigError":
        return Obstacle(
            f"{pod.title} can't be made ({text}): the overlay names what is not in the namespace;"
            " apply it whole (`python -m launch run`)",
            SOON,
        )
    if reason in ("CreateContainerError", "RunContainerError"):
        return Obstacle(f"{pod.title} can't be made ({text}): change the overlay or IMAGE", SOON)
    if container is pod.main and pod.unstartable:
        why = _told(ended.get("message"))
        return Obstacle(
            f"{pod.title} can't be started from image {image} ({why}): build it anew (`make"
            " images`)",
            AT_ONCE,
        )
    if reason == "CrashLoopBackOff":
        last = (container.get("lastState") or {}).get("terminated") or {}
        why = _told(last.get("message")) or _how_it_ended(last)
        return Obstacle(f"{pod.title} ends again and again: {why}", AT_ONCE)
    return None


def _image_cause(text: str) -> tuple[str, bool]:
    """The container runtime's long sentence in brackets, and whether trying again is in vain."""
    for sign, said, definite in (
        ("no such host", "its registry is not found", False),
        ("connection refused", "its registry does not answer", False),
        ("timeout", "its registry does not answer", False),
        ("not found", "there is no such image", True),
        ("does not exist", "there is no such image", True),
        ("denied", "the registry does not give it without permission", True),
        ("authorization", "the registry does not give it without permission", True),
        ("pull policy", "it is not on the node, and must not be fetched", True),
    ):
        if sign in text:
            return f" ({said})", definite
    return f" ({text[-160:]})" if text else "", False


def _unschedulable(pod: Pod, text: str) -> str:
    asks = _requests(pod.object)
    lacks = []
    for sign, said in (
        ("Insufficient cpu", f"cpu (it asks for {asks.get('cpu', '?')}): lower CPU"),
        ("Insufficient memory", f"memory (it asks for {asks.get('memory', '?')}): lower MEMORY"),
        ("nvidia.com/gpu", "GPUs: use another OVERLAY, or nodes that have some"),
        ("Too many pods", "room for another pod: add nodes"),
    ):
        if sign in text:
            lacks.append(said)
    if "node affinity/selector" in text or "node(s) didn't match" in text:
        lacks.append(f"the labels that the overlay asks for ({_selector(pod.object)})")
    if "untolerated taint" in text:
        lacks.append("no taint that keeps it away: add a toleration in the overlay, or nodes")
    said = text.split(". ")[0].rstrip(".") or "the scheduler has not said why"
    told = f"no node has {'; and '.join(lacks)}" if lacks else "no node takes it"
    return (
        f"{pod.title} finds no place: {told}, or fewer WORKERS, or larger or more nodes"
        f" (the scheduler says: {said})"
    )


def _resources(pod: Object) -> Object:
    return pod["spec"]["containers"][0].get("resources") or {}


def _requests(pod: Object) -> dict[str, str]:
    resources = _resources(pod)
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _selector(pod: Object) -> str:
    chosen = pod["spec"].get("nodeSelector") or {}
    return ", ".join(f"{key}={value}" for key, value in sorted(chosen.items())) or "affinity"


def scales_up(events: Sequence[Object]) -> bool:
    """Whether a cluster's autoscaler has said last that it makes a node for a pod.

    Args:
        events: Those about the pod, the newest last.
    """
    told = [event["reason"] for event in events if event.get("reason") in SCALES]
    return told[-1:] == [SCALES[0]]


def not_made(events: Sequence[Object], since: datetime | None = None) -> Obstacle | None:
    """Why a job's pods could not even be made; None where one was made since.

    Args:
        events: Those about the job, the newest last.
        since: What was said until then may be over, and its controller slow to try again.
    """
    for event in reversed(events):
        if event.get("reason") in MADE:
            return None
        if event.get("reason") in NOT_MADE:
            text = _told(event.get("message"))
            told = api_errors.of_admission(text)
            sentence = str(told) if told else f"the job's pods can't be made: {text}"
            return Obstacle(sentence, PLACE if since and event_time(event) <= since else SOON)
    return None


def resized(found: Object) -> str:
    """What is to be said of a TFJob whose number of workers somebody changed; else empty."""
    name, replicas, told = (
        found["metadata"]["name"],
        job.workers(found),
        job.configured_workers(found),
    )
    if replicas == told:
        return ""
    return (
        f"job {name} was changed to WORKERS={replicas} while it lives, but its workers are told"
        f" that they are {told}: `python -m launch stop {name}`, then `make training TARGET=k8s"
        f" RUN={name} WORKERS={replicas}`"
    )


def event_time(event: Object) -> datetime:
    """When an event was said last, UTC."""
    last = event.get("lastTimestamp") or (event.get("series") or {}).get("lastObservedTime")
    text = last or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    return datetime.fromisoformat(str(text))


def sort_events(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events, the newest last; what failed counts as newer than what was made in that second."""
    return sorted(events, key=lambda event: (event_time(event), event.get("reason") not in MADE))


def disruption_cause(pod: Pod) -> str:
    """Why a pod that was running went away or will, for 'worker 1 ...; the gang starts again'.

    Empty while it goes on, after success, and where it left because a peer was lost: that is the
    other's news.
    """
    for one in pod.status.get("conditions") or []:
        if one["type"] == "DisruptionTarget" and one.get("status") == "True":
            return {
                "EvictionByEvictionAPI": "was evicted (a node is being drained)",
                "PreemptionByScheduler": "made room for a pod of higher priority",
                "DeletionByTaintManager": "was sent away, since its node is not ready",
                "TerminationByKubelet": "was ended by its node",
                "DeletionByPodGC": "was lost with its node",
            }.get(str(one.get("reason")), "was disrupted")
    if pod.status.get("reason") == "Evicted":
        return f"was evicted ({_told(pod.status.get('message')) or 'its node ran short'})"
    if pod.unstartable:
        return ""  # an obstacle rather
    if pod.leaving and pod.ended_when_told:
        return "was deleted"
    if pod.terminated is not None and pod.exit_code != 0:
        return "" if pod.exit_code == PeerLost.exit_code else termination_cause(pod)
    return ""


def termination_cause(pod: Pod) -> str:
    """What is known of a container that ended, where it left no word itself."""
    return _how_it_ended(pod.terminated or {}, pod.object)


def _how_it_ended(ended: Object, pod: Object | None = None) -> str:
    if ended.get("reason") == "OOMKilled":
        limit = _resources(pod).get("limits", {}).get("memory") if pod else None
        told = f" of {limit}" if limit else ""
        return f"used more than its memory{told} and was killed (raise MEMORY)"
    code = int(ended.get("exitCode") or 0)
    known = {137: "was killed (SIGKILL)", Preempted.exit_code: "was told to stop"}
    return known.get(code) or _told(ended.get("message")) or f"ended with exit code {code}"


def _told(text: Any) -> str:
    """On one line, without the container runtime's nesting, and not too long."""
    line = " ".join(str(text or "").split())
    line = re.sub(r"^(rpc error: code = \w+ desc = )+", "", line)
    return line if len(line) <= 400 else line[:397] + "..."
