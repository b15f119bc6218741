"""TFJob, of Kubeflow's training operator. Only this file knows its fields."""

from collections.abc import Sequence

from common.settings import Settings
from launch.engines.engine import Engine, conditions, true_conditions
from launch.names import training_job
from launch.pods import Object, ReadObject, manifest


class TFJob(Engine):
    """A TFJob. The operator restarts a single pod on exit codes of 128 and more."""

    api = "tfjob"
    kind = "TFJob"
    version = "kubeflow.org/v1"
    controller = (
        "the Kubeflow training operator (https://github.com/kubeflow/trainer/tree/release-1.9)"
    )
    install = (
        'kubectl apply --server-side -k "github.com/kubeflow/training-operator.git/'
        'manifests/overlays/standalone?ref=v1.9.4"'
    )
    controller_namespace = "kubeflow"
    deployment = "training-operator"
    job_label = "training.kubeflow.org/job-name"
    worker_port = "tfjob-port"  # under another name the operator adds the port a second time
    has_jobs = False

    def last_host(self, run: str, workers: int) -> str:
        """Return the name of the last worker's pod."""
        return f"{training_job(run)}-worker-{workers - 1}"

    def variables(self, run: str) -> Sequence[Object]:
        """Return none: the operator sets TF_CONFIG."""
        return ()

    def render(self, template: Object, settings: Settings) -> list[Object]:
        """Return the TFJob."""
        replicas = {
            "replicas": settings.training.workers,
            "restartPolicy": "ExitCode",
            "template": template,
        }
        spec = {
            "runPolicy": _run_policy(settings),
            # A group that continues without a worker is done when its chief is.
            "successPolicy": "" if settings.training.is_elastic else "AllWorkers",
            # Otherwise the operator fails the job once a pod is deleted or preempted. With it,
            # TF_CONFIG contains only the worker itself; training/cluster/spec.py adds its peers.
            "enableDynamicWorker": True,
            "tfReplicaSpecs": {"Worker": replicas},
        }
        run = settings.run_name
        return [manifest(self.version, self.kind, training_job(run), "training", run, spec=spec)]

    def template(self, job: Object) -> Object:
        """Return the workers' template."""
        template: Object = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]
        return template

    def forbid_restarts(self, job: Object) -> None:
        """Let a lost worker end the job."""
        job["spec"]["tfReplicaSpecs"]["Worker"]["restartPolicy"] = "Never"
        job["spec"]["enableDynamicWorker"] = False

    def phase(self, job: ReadObject) -> str:
        """Return the latest condition."""
        true = true_conditions(job)
        return true[-1] if true else "Pending"

    def has_started(self, job: ReadObject) -> bool:
        """Return True if it was Running."""
        return any(one["type"] in ("Running", "Restarting") for one in conditions(job))

    def worker_count(self, job: ReadObject) -> int:
        """Return the number of replicas."""
        specs = job["spec"].get("tfReplicaSpecs") or {}
        return sum(int(one.get("replicas", 1)) for one in specs.values())


def _run_policy(settings: Settings) -> Object:
    cluster = settings.cluster
    policy: Object = {
        "cleanPodPolicy": "Running",
        "ttlSecondsAfterFinished": cluster.ttl,
        # The operator checks it only at events such as the chief's own end at DEADLINE.
        "activeDeadlineSeconds": settings.fault_tolerance.deadline,
    }
    if cluster.gang_scheduling:
        policy["schedulingPolicy"] = {
            "minAvailable": settings.training.min_workers or settings.training.workers
        }
        if cluster.priority_class:
            policy["schedulingPolicy"]["priorityClass"] = cluster.priority_class
    return policy
