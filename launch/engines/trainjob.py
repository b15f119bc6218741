"""TrainJob, of Kubeflow Trainer v2. Only this file knows its fields.

Trainer has no runtime for TensorFlow. Each run has a TrainingRuntime of its own, whose template is
the JobSet of launch/engines/jobset.py. A TrainJob itself can't set failure policies.
"""

from common.settings import Settings
from launch.engines.engine import true_conditions
from launch.engines.jobset import (
    DEADLINE_MARGIN_SECONDS,
    IndexedEngine,
    indexed_job,
    jobset_spec,
    phase_of_jobs,
)
from launch.names import training_job
from launch.network import egress_to
from launch.pods import Object, ReadObject, manifest

GROUP = "node"
"""The name that Trainer expects of the replicated Job and of its container."""

STATUS_PORT = 10443
"""The port at which Trainer's controller takes the progress of TrainJobs."""

ANCESTOR = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
"""The label by which Trainer finds the Job whose pods are the workers."""


class TrainJob(IndexedEngine):
    """A TrainJob and its TrainingRuntime, of which Trainer makes a JobSet."""

    api = "trainjob"
    kind = "TrainJob"
    version = "trainer.kubeflow.org/v1alpha1"
    controller = "Kubeflow Trainer (https://www.kubeflow.org/docs/components/trainer)"
    install = (
        "kubectl apply --server-side -k"
        ' "https://github.com/kubeflow/trainer.git/manifests/overlays/manager?ref=v2.3.0"'
    )
    controller_namespace = "kubeflow-system"
    deployment = "kubeflow-trainer-controller-manager"
    container = GROUP
    replicated_job = GROUP
    opens = (
        egress_to(
            controller_namespace,
            {"app.kubernetes.io/name": "trainer", "app.kubernetes.io/component": "manager"},
            STATUS_PORT,
        ),
    )
    template_kind = "TrainingRuntime"

    def render(self, template: Object, settings: Settings) -> list[Object]:
        """Return the TrainingRuntime and the TrainJob.

        Raises:
            SettingsError: GANG_SCHEDULING is set.
        """
        run, workers = settings.run_name, settings.training.workers
        name = training_job(run)
        job = {"metadata": {"labels": ANCESTOR}, "spec": indexed_job(template, settings)}
        runtime = {
            "mlPolicy": {"numNodes": workers},
            "template": {"spec": jobset_spec(GROUP, job, settings)},
        }
        spec = {
            "runtimeRef": {
                "apiGroup": self.group, "kind": self.template_kind, "name": name,
            },
            "trainer": {"numNodes": workers},
            # Of all attempts together.
            "activeDeadlineSeconds": settings.fault_tolerance.deadline + DEADLINE_MARGIN_SECONDS,
        }  # fmt: skip
        return [
            manifest(self.version, self.template_kind, name, "training", run, spec=runtime),
            manifest(self.version, self.kind, name, "training", run, spec=spec),
        ]

    def template(self, job: Object) -> Object:
        """Return the workers' template in the TrainingRuntime."""
        (replicated,) = job["spec"]["template"]["spec"]["replicatedJobs"]
        template: Object = replicated["template"]["spec"]["template"]
        return template

    def forbid_restarts(self, job: Object) -> None:
        """Let a lost worker end the job of a TrainingRuntime."""
        del job["spec"]["template"]["spec"]["failurePolicy"]

    def phase(self, job: ReadObject) -> str:
        """Return the phase from the conditions, or from the state of its Job."""
        if "Suspended" in true_conditions(job):
            return "Suspended"
        return phase_of_jobs((job.get("status") or {}).get("jobsStatus"))

    def has_started(self, job: ReadObject) -> bool:
        """Return True if all pods are running."""
        return self.phase(job) == "Running"

    def worker_count(self, job: ReadObject) -> int:
        """Return the number of nodes."""
        return int((job["spec"].get("trainer") or {}).get("numNodes") or 1)
