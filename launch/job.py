"""State of a training's job or of a Job, and of its pods, read from the API's dicts.

The kinds of a training's job are those of launch/engines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from launch.engines import BY_KIND
from launch.engines.engine import FINAL_CONDITIONS, conditions, true_conditions
from launch.pods import ReadObject, pod_specs

INDEX_LABELS = (
    "training.kubeflow.org/replica-index",
    "batch.kubernetes.io/job-completion-index",
)
"""Labels that number the pods of a TFJob, and those of an Indexed Job such as a JobSet's."""


DEADLINE_MESSAGES = ("active longer than specified deadline", "exceeded its active deadline")
"""Parts of the messages of a TFJob or Job and of a TrainJob that ended at its deadline."""


def pod_selector(kind: str, name: str) -> str:
    """Return the label selector of a job's pods."""
    label = BY_KIND[kind].job_label if kind in BY_KIND else "batch.kubernetes.io/job-name"
    return f"{label}={name}"


def phase(job: ReadObject) -> str:
    """Return Pending, Created, Running, Restarting, Suspended, Succeeded or Failed."""
    true = true_conditions(job)
    for kind, final in FINAL_CONDITIONS.items():
        if kind in true:
            return final
    if job["kind"] in BY_KIND:
        return BY_KIND[job["kind"]].phase(job)
    active = (job.get("status") or {}).get("active")
    return "Suspended" if "Suspended" in true else "Running" if active else "Pending"


def is_finished(job: ReadObject) -> bool:
    """Return True if a job has succeeded or failed permanently."""
    return phase(job) in FINAL_CONDITIONS.values()


def has_started(job: ReadObject) -> bool:
    """Return True if all workers of a training's job were running at some time."""
    return is_finished(job) or BY_KIND[job["kind"]].has_started(job)


def reason(job: ReadObject) -> str:
    """Return the controller's message about how a job ended, or about its latest condition."""
    true = [one for one in conditions(job) if one.get("status") == "True"]
    final = [one for one in true if one["type"] in FINAL_CONDITIONS]
    return " ".join(str((final or true or [{}])[-1].get("message", "")).split())


def exceeded_deadline(job: ReadObject) -> bool:
    """Return True if a job failed because DEADLINE seconds had passed."""
    return any(
        one["type"] == "Failed"
        and one.get("reason") in ("DeadlineExceeded", "TFJobFailed")
        and any(text in str(one.get("message")) for text in DEADLINE_MESSAGES)
        for one in conditions(job)
    )


def worker_count(job: ReadObject) -> int:
    """Return the number of pods that a job's controller creates."""
    if job["kind"] in BY_KIND:
        return BY_KIND[job["kind"]].worker_count(job)
    return int(job["spec"].get("completions") or 1)


def configured_workers(job: ReadObject) -> int:
    """Return the number of workers that its pods expect (QFLEET_WORKERS), or `worker_count`."""
    for pod in pod_specs(job["spec"]):
        for container in pod["containers"]:
            for variable in container.get("env") or []:
                if variable["name"] == "QFLEET_WORKERS":
                    return int(variable["value"])
    return worker_count(job)


def created_at(thing: ReadObject) -> datetime:
    """Return the time (UTC) at which an object was created."""
    text = str(thing["metadata"].get("creationTimestamp") or "")
    return datetime.fromisoformat(text) if text else datetime.now(UTC)


def age(thing: ReadObject) -> str:
    """Return the time since an object was created, as 42s, 7m, 3h or 2d."""
    seconds = int((datetime.now(UTC) - created_at(thing)).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"


@dataclass(frozen=True)
class Pod:
    """A pod of a job.

    Args:
        object: The pod as the API returned it.
    """

    object: ReadObject

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.object["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Its unique id; a later pod of the same name has another one."""
        return str(self.object["metadata"]["uid"])

    @property
    def index(self) -> int | None:
        """Its worker's rank; None for a pod of a Job without ranks."""
        labels = self.object["metadata"].get("labels") or {}
        return next((int(labels[name]) for name in INDEX_LABELS if name in labels), None)

    @property
    def title(self) -> str:
        """Its name in messages: "worker 1", or the pod's name."""
        return self.name if self.index is None else f"worker {self.index}"

    @property
    def status(self) -> ReadObject:
        """Its status as the API returned it."""
        return self.object.get("status") or {}

    @property
    def node(self) -> str:
        """Its node; empty before it is scheduled."""
        return str(self.object["spec"].get("nodeName") or "")

    @property
    def phase(self) -> str:
        """Pending, Running, Succeeded, Failed or Unknown."""
        return str(self.status.get("phase") or "Pending")

    @property
    def terminating(self) -> bool:
        """True once it is being deleted."""
        return bool(self.object["metadata"].get("deletionTimestamp"))

    @property
    def ran_until_deletion(self) -> bool:
        """True for a terminating pod whose container still ran when it was deleted."""
        metadata, ended = self.object["metadata"], (self.terminated or {}).get("finishedAt")
        if not ended:
            return True
        # deletionTimestamp is the end of the grace period.
        grace = timedelta(seconds=int(metadata.get("deletionGracePeriodSeconds") or 0))
        deleted = datetime.fromisoformat(metadata["deletionTimestamp"]) - grace
        return datetime.fromisoformat(ended) >= deleted

    @property
    def containers(self) -> Sequence[ReadObject]:
        """Its containers' statuses, init containers first; none before it is scheduled."""
        first = self.status.get("initContainerStatuses") or []
        return [*first, *(self.status.get("containerStatuses") or [])]

    @property
    def container(self) -> str:
        """The name of its main container."""
        return str(self.object["spec"]["containers"][0]["name"])

    @property
    def main_status(self) -> ReadObject:
        """The status of the main container; empty before the pod is scheduled."""
        for one in self.containers:
            if one["name"] == self.container:
                return one
        return {}

    @property
    def state(self) -> ReadObject:
        """The main container's state: waiting, running or terminated -> details."""
        return self.main_status.get("state") or {}

    @property
    def terminated(self) -> ReadObject | None:
        """Details of how the main container ended; None before."""
        return self.state.get("terminated")

    @property
    def started(self) -> bool:
        """True once the main container's program has run."""
        return "running" in self.state or bool(self.terminated and not self.failed_to_start)

    @property
    def failed_to_start(self) -> bool:
        """True if the main container ended because its program could not be executed."""
        return (self.terminated or {}).get("reason") in ("StartError", "ContainerCannotRun")

    @property
    def restarts(self) -> int:
        """The number of restarts of the main container in this pod."""
        return int(self.main_status.get("restartCount") or 0)

    @property
    def exit_code(self) -> int | None:
        """The main container's exit code; None while it runs."""
        return None if self.terminated is None else int(self.terminated["exitCode"])

    @property
    def termination_message(self) -> str:
        """The main container's termination message, on one line."""
        ended = self.terminated or (self.main_status.get("lastState") or {}).get("terminated") or {}
        return " ".join(str(ended.get("message") or "").split())

    @property
    def display_state(self) -> str:
        """One word for a table: the phase, or the reason of waiting or of the end."""
        if self.terminating:
            return "Terminating"
        for one in self.containers:
            waiting = (one.get("state") or {}).get("waiting")
            if waiting and waiting.get("reason"):
                return str(waiting["reason"])
        if self.terminated and self.terminated.get("reason") not in (None, "Completed", "Error"):
            return str(self.terminated["reason"])
        return str(self.status.get("reason") or self.phase)


def sorted_pods(objects: Sequence[ReadObject]) -> list[Pod]:
    """Return pods by rank, then by age, the oldest first."""
    found = [Pod(one) for one in objects]
    return sorted(found, key=lambda pod: (pod.index or 0, created_at(pod.object), pod.name))


def newest_per_worker(pods: Sequence[Pod]) -> list[Pod]:
    """Return the newest pod of each rank, and all pods without a rank.

    An Indexed Job keeps failed pods next to their replacements.
    """
    return list({pod.title: pod for pod in pods}.values())
