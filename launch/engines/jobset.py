"""JobSet, a set of Jobs: here one Indexed Job of workers. Only this file knows its fields.

The Job fails with its first pod and names the rule of its `podFailurePolicy` that the pod matched.
The JobSet's `failurePolicy` reads that message: it ends, or re-creates the Job. The only limit of
attempts is that of the run's folder (MAX_ATTEMPTS).
"""

from collections.abc import Sequence
from typing import ClassVar

from common.errors import DeadlineReached, RetryableError, SettingsError
from common.settings import Settings
from launch.engines.engine import Engine, true_conditions
from launch.names import training_job
from launch.pods import Object, ReadObject, manifest

WORKER_PORT = 2222
GROUP = "worker"
"""The name of the replicated Job."""

FINAL_CODES = [*range(1, RetryableError.exit_code), DeadlineReached.exit_code]
"""Exit codes after which a restart would not help. At DEADLINE it would begin another one."""

DEADLINE_MARGIN_SECONDS = 120
"""Time that the chief has to save and exit at DEADLINE before the Job is ended."""

RULE = "matching FailJob rule at index {}$"
"""The end of the message of a Job that failed by a rule of its podFailurePolicy."""

UNLIMITED = 2**31 - 1

ADDRESSES = "WORKER_ADDRESSES"
"""The variable with the address of every worker, {rank} in place of its rank, that
training/cluster/indexed_job.py reads."""


class IndexedEngine(Engine):
    """Abstract: its pods are those of a JobSet with one Indexed Job.

    Attributes:
        replicated_job: The name of that Job in the JobSet.
    """

    replicated_job: ClassVar[str]
    job_label = "jobset.sigs.k8s.io/jobset-name"

    def last_host(self, run: str, workers: int) -> str:
        """Return the name of the last worker's pod, which ends in five random characters."""
        return f"{training_job(run)}-{self.replicated_job}-0-{workers - 1}-xxxxx"

    def variables(self, run: str) -> Sequence[Object]:
        """Return the workers' addresses; the Job adds JOB_COMPLETION_INDEX."""
        name = training_job(run)  # of the JobSet, and of its headless service
        host = f"{name}-{self.replicated_job}-0-{{rank}}.{name}"
        return ({"name": ADDRESSES, "value": f"{host}:{WORKER_PORT}"},)


class JobSet(IndexedEngine):
    """A JobSet. A lost worker makes its controller restart all of them."""

    api = "jobset"
    kind = "JobSet"
    version = "jobset.x-k8s.io/v1alpha2"
    controller = "the JobSet controller (https://jobset.sigs.k8s.io)"
    install = (
        "kubectl apply --server-side -f"
        " https://github.com/kubernetes-sigs/jobset/releases/download/v0.12.0/manifests.yaml"
    )
    controller_namespace = "jobset-system"
    deployment = "jobset-controller-manager"
    replicated_job = GROUP

    def render(self, template: Object, settings: Settings) -> list[Object]:
        """Return the JobSet.

        Raises:
            SettingsError: GANG_SCHEDULING is set.
        """
        run, job = settings.run_name, {"spec": indexed_job(template, settings)}
        spec = jobset_spec(GROUP, job, settings)
        return [manifest(self.version, self.kind, training_job(run), "training", run, spec=spec)]

    def template(self, job: Object) -> Object:
        """Return the workers' template."""
        template: Object = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        return template

    def forbid_restarts(self, job: Object) -> None:
        """Let a lost worker end the job."""
        del job["spec"]["failurePolicy"]

    def phase(self, job: ReadObject) -> str:
        """Return the phase from the conditions, or from the state of its Job."""
        true = true_conditions(job)
        for condition, phase in (("Suspended", "Suspended"), ("RestartingJobSet", "Restarting")):
            if condition in true:
                return phase
        return phase_of_jobs((job.get("status") or {}).get("replicatedJobsStatus"))

    def has_started(self, job: ReadObject) -> bool:
        """Return True if all pods were running at some time."""
        return bool((job.get("status") or {}).get("restarts")) or self.phase(job) == "Running"

    def worker_count(self, job: ReadObject) -> int:
        """Return the number of pods of all Jobs."""
        return sum(
            int(one.get("replicas", 1)) * int(one["template"]["spec"].get("parallelism", 1))
            for one in job["spec"].get("replicatedJobs") or []
        )


def jobset_spec(group: str, job: Object, settings: Settings) -> Object:
    """Return the spec of a JobSet of one Job.

    Args:
        group: The name of the replicated Job.
        job: Its template.
        settings: The settings.

    Raises:
        SettingsError: GANG_SCHEDULING is set.
    """
    if settings.cluster.gang_scheduling:
        raise SettingsError(
            "GANG_SCHEDULING=true is a setting of the training operator (JOB_API=tfjob): with"
            f" JOB_API={settings.cluster.job_api}, QUEUE starts all workers at once"
        )
    return {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
        "failurePolicy": failure_policy(),
        "ttlSecondsAfterFinished": settings.cluster.ttl,
        "replicatedJobs": [{"name": group, "replicas": 1, "template": job}],
    }


def indexed_job(template: Object, settings: Settings) -> Object:
    """Return the spec of the workers' Job.

    Args:
        template: The pod template, whose restartPolicy becomes Never.
        settings: The settings, with a DEADLINE.
    """
    workers, elastic = settings.training.workers, settings.training.is_elastic
    (container,) = template["spec"]["containers"]
    final = {"containerName": container["name"], "operator": "In", "values": FINAL_CODES}
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    spec: Object = {
        "completionMode": "Indexed",
        "completions": workers,
        "parallelism": workers,
        # The first lost worker fails the Job, unless the group continues without it.
        "backoffLimit": UNLIMITED if elastic else 0,
        "podFailurePolicy": {
            "rules": [
                {"action": "FailJob", "onExitCodes": final},
                {"action": "Ignore" if elastic else "FailJob", "onPodConditions": disrupted},
            ]
        },
        # The chief ends itself earlier. It counts from the latest start of the group, too.
        "activeDeadlineSeconds": settings.fault_tolerance.deadline + DEADLINE_MARGIN_SECONDS,
        "template": {**template, "spec": {"restartPolicy": "Never", **template["spec"]}},
    }
    if elastic:  # done when its chief is
        spec["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    return spec


def failure_policy() -> Object:
    """Return the failurePolicy: what each way in which the Job fails means for the JobSet."""
    again = "RestartJobSetAndIgnoreMaxRestarts"
    by_rule = {"onJobFailureReasons": ["PodFailurePolicy"]}
    return {
        "rules": [
            {
                "name": "final",
                "action": "FailJobSet",
                **by_rule,
                "onJobFailureMessagePatterns": [RULE.format(0)],
            },
            {
                "name": "deadline",
                "action": "FailJobSet",
                "onJobFailureReasons": ["DeadlineExceeded"],
            },
            {
                "name": "disrupted",
                "action": again,
                **by_rule,
                "onJobFailureMessagePatterns": [RULE.format(1)],
            },
            {
                "name": "retryable",
                "action": again,
                "onJobFailureReasons": ["BackoffLimitExceeded"],
            },
        ],
    }


def phase_of_jobs(states: Sequence[ReadObject] | None) -> str:
    """Return Pending, Created or Running from the numbers of Jobs in each state."""
    if any(one.get("ready") for one in states or ()):
        return "Running"
    return "Created" if any(one.get("active") for one in states or ()) else "Pending"
