"""The interface of engines: APIs of a cluster that start a training's workers and restart them.

The contract with a worker is the same for all (launch/objects.py): its environment, its exit codes
(0, 1 to 127 final, 128 and more start again), its termination message, SIGTERM with a grace period.
"""

import abc
from collections.abc import Sequence
from typing import ClassVar

from common.settings import Settings
from launch.names import training_job
from launch.pods import Object, ReadObject

FINAL_CONDITIONS = {
    "Succeeded": "Succeeded",
    "Failed": "Failed",
    "Complete": "Succeeded",
    "Completed": "Succeeded",
}
"""Final conditions of TFJobs, Jobs and JobSets, and the phase that each means."""


class Engine(abc.ABC):
    """An engine. Each subclass renders and reads the jobs of one API.

    Attributes:
        api: The value of JOB_API.
        kind: The kind of its jobs.
        version: Their API version.
        controller: Its controller, for messages.
        install: The command that installs it.
        controller_namespace: The namespace of the controller's pods.
        deployment: The name of the controller's Deployment.
        job_label: The label of a job's pods that holds the job's name.
        container: The name of a worker's container.
        worker_port: The name of TensorFlow's port.
        has_jobs: Its controller creates Jobs, not pods.
        opens: Rules of a NetworkPolicy for further connections that a worker opens.
        template_kind: The kind of the object with the pod template, if it is not the job.
    """

    api: ClassVar[str]
    kind: ClassVar[str]
    version: ClassVar[str]
    controller: ClassVar[str]
    install: ClassVar[str]
    controller_namespace: ClassVar[str]
    deployment: ClassVar[str]
    job_label: ClassVar[str]
    container: ClassVar[str] = "tensorflow"
    worker_port: ClassVar[str] = "tensorflow"
    has_jobs: ClassVar[bool] = True
    opens: ClassVar[Sequence[Object]] = ()
    template_kind: ClassVar[str] = ""

    @property
    def group(self) -> str:
        """The API group of its jobs."""
        return self.version.partition("/")[0]

    def selector(self, run: str) -> dict[str, str]:
        """Return the labels that select the pods of a run's job."""
        return {self.job_label: training_job(run)}

    @abc.abstractmethod
    def last_host(self, run: str, workers: int) -> str:
        """Return the name of the last worker's pod, the longest of the job."""

    @abc.abstractmethod
    def variables(self, run: str) -> Sequence[Object]:
        """Return the variables by which a worker knows its rank and the other workers."""

    @abc.abstractmethod
    def render(self, template: Object, settings: Settings) -> list[Object]:
        """Return the job of WORKERS pods, after the objects that it refers to.

        Args:
            template: The pod template.
            settings: The settings, with a DEADLINE.

        Raises:
            SettingsError: A setting is not supported by this engine.
        """

    @abc.abstractmethod
    def template(self, job: Object) -> Object:
        """Return the pod template in a job, or in the object of `template_kind`."""

    @abc.abstractmethod
    def forbid_restarts(self, job: Object) -> None:
        """Change a job, or the object of `template_kind`, so that a lost worker ends it."""

    @abc.abstractmethod
    def phase(self, job: ReadObject) -> str:
        """Return the phase of a job that has not ended: Pending, Created, Running, ..."""

    @abc.abstractmethod
    def has_started(self, job: ReadObject) -> bool:
        """Return True if all workers of an unfinished job were running at some time."""

    @abc.abstractmethod
    def worker_count(self, job: ReadObject) -> int:
        """Return the number of pods that the controller creates."""


def conditions(job: ReadObject) -> list[ReadObject]:
    """Return a job's conditions, the oldest first; none before its controller has seen it."""
    return (job.get("status") or {}).get("conditions") or []


def true_conditions(job: ReadObject) -> list[str]:
    """Return the types of the conditions that are true."""
    return [one["type"] for one in conditions(job) if one.get("status") == "True"]
