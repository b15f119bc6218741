"""What a job and its pods say of themselves: a TFJob or a Job, read from the API's dicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

Object = Mapping[str, Any]

INDICES = ("training.kubeflow.org/replica-index", "batch.kubernetes.io/job-completion-index")
"""The labels that number the pods of a TFJob, and of an Indexed Job."""

ENDED = {"Succeeded": "Succeeded", "Failed": "Failed", "Complete": "Succeeded"}
"""Conditions that are the last: those of a TFJob, and of a Job."""


def pods_of(kind: str, name: str) -> str:
    """The label selector of a job's pods."""
    if kind == "TFJob":
        return f"training.kubeflow.org/job-name={name}"
    return f"batch.kubernetes.io/job-name={name}"


def conditions(job: Object) -> list[Object]:
    """Its conditions, the oldest first; none before its controller has seen it."""
    return (job.get("status") or {}).get("conditions") or []


def phase(job: Object) -> str:
    """Pending, Created, Running, Restarting, Suspended, Succeeded or Failed."""
    holding = [one["type"] for one in conditions(job) if one.get("status") == "True"]
    for kind, ended in ENDED.items():
        if kind in holding:
            return ended
    if job["kind"] == "Job":
        active = (job.get("status") or {}).get("active")
        return "Suspended" if "Suspended" in holding else "Running" if active else "Pending"
    return holding[-1] if holding else "Pending"


def finished(job: Object) -> bool:
    """Whether it has succeeded or failed for good."""
    return phase(job) in ENDED.values()


def has_run(job: Object) -> bool:
    """Whether all its workers were once running."""
    return finished(job) or any(one["type"] in ("Running", "Restarting") for one in conditions(job))


def reason(job: Object) -> str:
    """What its controller says about how it ended, or where it stands."""
    told = [one for one in conditions(job) if one.get("status") == "True"]
    ended = [one for one in told if one["type"] in ENDED]
    return " ".join(str((ended or told or [{}])[-1].get("message", "")).split())


def past_deadline(job: Object) -> bool:
    """Whether it failed because DEADLINE seconds had passed."""
    return any(
        one["type"] == "Failed" and one.get("reason") in ("DeadlineExceeded", "TFJobFailed")
        and "active longer than specified deadline" in str(one.get("message"))
        for one in conditions(job)
    )  # fmt: skip


def workers(job: Object) -> int:
    """How many pods it is to have."""
    if job["kind"] == "TFJob":
        specs = job["spec"].get("tfReplicaSpecs") or {}
        return sum(int(one.get("replicas", 1)) for one in specs.values())
    return int(job["spec"].get("completions") or 1)


def configured_workers(job: Object) -> int:
    """How many workers its pods are told that they are (QFLEET_WORKERS); `workers` by default."""
    for replica in (job["spec"].get("tfReplicaSpecs") or {}).values():
        for container in replica["template"]["spec"]["containers"]:
            for variable in container.get("env") or []:
                if variable["name"] == "QFLEET_WORKERS":
                    return int(variable["value"])
    return workers(job)


def started_at(thing: Object) -> datetime:
    """When it was made, UTC."""
    text = str(thing["metadata"].get("creationTimestamp") or "")
    return datetime.fromisoformat(text) if text else datetime.now(UTC)


def age(thing: Object) -> str:
    """How long ago it was made: 42s, 7m, 3h, 2d."""
    seconds = int((datetime.now(UTC) - started_at(thing)).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"


@dataclass(frozen=True)
class Pod:
    """One pod of a job.

    Args:
        object: What the API said.
    """

    object: Object

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.object["metadata"]["name"])

    @property
    def uid(self) -> str:
        """What tells it from an earlier pod of the same name."""
        return str(self.object["metadata"]["uid"])

    @property
    def index(self) -> int | None:
        """Which worker it is; None for a pod of another kind of job."""
        labels = self.object["metadata"].get("labels") or {}
        return next((int(labels[name]) for name in INDICES if name in labels), None)

    @property
    def title(self) -> str:
        """What a person calls it: worker 1, or the pod's name."""
        return self.name if self.index is None else f"worker {self.index}"

    @property
    def status(self) -> Object:
        """Its status as the API has it."""
        return self.object.get("status") or {}

    @property
    def node(self) -> str:
        """The node that it runs on; empty before it has one."""
        return str(self.object["spec"].get("nodeName") or "")

    @property
    def phase(self) -> str:
        """Pending, Running, Succeeded, Failed or Unknown."""
        return str(self.status.get("phase") or "Pending")

    @property
    def leaving(self) -> bool:
        """Whether it was told to go."""
        return bool(self.object["metadata"].get("deletionTimestamp"))

    @property
    def ended_when_told(self) -> bool:
        """Of a pod that was told to go: whether its container still ran then."""
        metadata, ended = self.object["metadata"], (self.terminated or {}).get("finishedAt")
        if not ended:
            return True
        # The deletion's time is when its grace is over.
        grace = timedelta(seconds=int(metadata.get("deletionGracePeriodSeconds") or 0))
        told = datetime.fromisoformat(metadata["deletionTimestamp"]) - grace
        return datetime.fromisoformat(ended) >= told

    @property
    def containers(self) -> Sequence[Object]:
        """Its containers' statuses, those of the setting-up first; none before a node has it."""
        first = self.status.get("initContainerStatuses") or []
        return [*first, *(self.status.get("containerStatuses") or [])]

    @property
    def container(self) -> str:
        """Its one container's name."""
        return str(self.object["spec"]["containers"][0]["name"])

    @property
    def main(self) -> Object:
        """The status of that container; empty before a node has it."""
        for one in self.containers:
            if one["name"] == self.container:
                return one
        return {}

    @property
    def state(self) -> Object:
        """waiting, running or terminated -> what is known of it."""
        return self.main.get("state") or {}

    @property
    def terminated(self) -> Object | None:
        """How its container ended; None while it has not."""
        return self.state.get("terminated")

    @property
    def begun(self) -> bool:
        """Whether its container's program has run."""
        return "running" in self.state or bool(self.terminated and not self.unstartable)

    @property
    def unstartable(self) -> bool:
        """Whether its container ended because its program could not be started."""
        return (self.terminated or {}).get("reason") in ("StartError", "ContainerCannotRun")

    @property
    def restarts(self) -> int:
        """How often its container was started again in place."""
        return int(self.main.get("restartCount") or 0)

    @property
    def exit_code(self) -> int | None:
        """Its container's exit code; None while it has not ended."""
        return None if self.terminated is None else int(self.terminated["exitCode"])

    @property
    def last_words(self) -> str:
        """What its container left in /dev/termination-log when it ended, on one line."""
        ended = self.terminated or (self.main.get("lastState") or {}).get("terminated") or {}
        return " ".join(str(ended.get("message") or "").split())

    @property
    def said_state(self) -> str:
        """One word for a table: the phase, or what its container waits for or ended by."""
        if self.leaving:
            return "Terminating"
        for one in self.containers:
            waiting = (one.get("state") or {}).get("waiting")
            if waiting and waiting.get("reason"):
                return str(waiting["reason"])
        if self.terminated and self.terminated.get("reason") not in (None, "Completed", "Error"):
            return str(self.terminated["reason"])
        return str(self.status.get("reason") or self.phase)


def pods(objects: Sequence[Object]) -> list[Pod]:
    """Pods by their workers' numbers; of others the oldest first."""
    found = [Pod(one) for one in objects]
    return sorted(found, key=lambda pod: (pod.index or 0, started_at(pod.object), pod.name))


def newest(pods: Sequence[Pod]) -> list[Pod]:
    """The newest pod of each number, all of pods without: a Job keeps those that have failed."""
    return list({pod.title: pod for pod in pods}.values())
