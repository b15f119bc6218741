"""The jobs of k8s/base as plain dicts, from settings. Only this file knows TFJob.

    training      ServiceAccount, ConfigMap RUN-settings, NetworkPolicy and TFJob RUN
    inference     ServiceAccount, ConfigMap and Job inference-RUN; Indexed where PARALLEL is above 1

STORAGE, images and the Google service account are the overlay's (launch/site_config.py).
"""

from typing import Any

from common.errors import SettingsError
from common.runs import auto_settings
from common.settings import Settings
from common.settings import Scope, names_in_scope
from launch.pods import (
    JOB_NAME,
    PROFILES,
    Object,
    account,
    container,
    ingress,
    labels,
    manifest,
    pod,
    policy,
)
from launch.user_model import UserModel

WORKER_PORT = 2222  # the operator's own number
RETRIES = 6  # of a pod of inference
SETTINGS = "qfleet/settings"  # what k8s/base/own finds settings by
QUEUE = "kueue.x-k8s.io/queue-name"

# Said by the manifest itself, or about something that no pod does.


def training(settings: Settings) -> list[Object]:
    """What a training job is: the workers and what they need."""
    if auto_settings.is_automatic(settings):
        raise SettingsError(
            "a manifest holds numbers, so WORKERS and BATCH can't be auto in it: `make plan"
            " TARGET=k8s` says which to take"
        )
    run = settings.run_name
    _check_name(run, settings.training.workers)
    ports = _ports(settings)
    model = UserModel.of(settings)
    worker: Any = container(
        "tensorflow",
        "worker",
        ["python", "-m", "training.worker"],
        {"cpu": settings.cluster.cpu, "memory": settings.cluster.memory},
        envFrom=[{"configMapRef": {"name": f"{run}-settings"}}],
        env=[
            {"name": "QFLEET_WORKERS", "value": str(settings.training.workers)},
            _threads(settings),
            {
                "name": "POD_NAMESPACE",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
            },
            {"name": "QFLEET_JOB_ID", "value": f"$(POD_NAMESPACE).{run}"},
            {"name": "QFLEET_TENSORBOARD_FOLDER", "value": PROFILES},
        ],
        ports=[{"name": name, "containerPort": port} for name, port in ports.items()],
        volumeMounts=model.mounts,
    )
    template = {
        "metadata": {"labels": labels("training", run)},
        "spec": pod(worker, settings, affinity=_apart({JOB_NAME: run}), volumes=model.volumes(run)),
    }
    job: Any = manifest(
        "kubeflow.org/v1",
        "TFJob",
        run,
        "training",
        run,
        spec={
            "runPolicy": _run_policy(settings),
            "successPolicy": "AllWorkers",
            # Without it the operator fails the job as soon as one pod is deleted or preempted. With
            # it TF_CONFIG names each worker alone; training/cluster.py knows the others.
            "enableDynamicWorker": True,
            "tfReplicaSpecs": {
                "Worker": {
                    "replicas": settings.training.workers,
                    "restartPolicy": "ExitCode",
                    "template": template,
                }
            },
        },
    )
    _queued(job, settings)
    return [
        account(),
        _settings(f"{run}-settings", "training", settings),
        *model.objects(run, "training", run),
        _gang_policy(run, ports),
        job,
    ]


def _check_name(run: str, workers: int) -> None:
    last = f"{run}-worker-{workers - 1}"
    if len(last) > 63:
        raise SettingsError(
            f"RUN={run} with WORKERS={workers} makes a worker's name {last} of {len(last)}"
            f" characters, and the cluster's DNS takes 63: shorten RUN by {len(last) - 63}"
        )
    if run[0].isdigit():
        raise SettingsError(
            f"RUN={run} begins with a digit, which no name in the cluster's DNS may: begin it"
            f" with a letter, as in RUN=run-{run}"
        )


def _ports(settings: Settings) -> dict[str, int]:
    """The workers' ports by name. The operator's Services expose those that have names."""
    if not settings.fault_tolerance.rendezvous_port:
        raise SettingsError(
            "RENDEZVOUS_PORT=0 leaves it to each worker to choose, but pods let each other in by number:"
            " give a number, as in RENDEZVOUS_PORT=2224"
        )
    ports = {
        "tfjob-port": WORKER_PORT,
        "profiler": settings.monitoring.profiler_port,
        "gate": settings.fault_tolerance.rendezvous_port,
    }
    used = {name: port for name, port in ports.items() if port}
    if len(set(used.values())) < len(used):
        raise SettingsError(
            f"RENDEZVOUS_PORT={settings.fault_tolerance.rendezvous_port}, PROFILER_PORT={settings.monitoring.profiler_port} and"
            f" TensorFlow's {WORKER_PORT} must be three different ports"
        )
    return used


def _run_policy(settings: Settings) -> Object:
    policy: Object = {"cleanPodPolicy": "Running", "ttlSecondsAfterFinished": settings.cluster.ttl}
    if settings.fault_tolerance.deadline:
        # The operator looks at it only when something happens, such as the chief's own DEADLINE.
        policy["activeDeadlineSeconds"] = settings.fault_tolerance.deadline
    if settings.cluster.gang_scheduling:
        policy["schedulingPolicy"] = {"minAvailable": settings.training.workers}
        if settings.cluster.priority_class:
            policy["schedulingPolicy"]["priorityClass"] = settings.cluster.priority_class
    return policy


def _queued(job: Object, settings: Settings) -> None:
    # Kueue's webhook suspends the job by itself; said here, nothing would wake it without Kueue,
    # and a second apply would suspend it again.
    if settings.cluster.queue:
        job["metadata"]["labels"][QUEUE] = settings.cluster.queue


def _apart(selected: dict[str, str]) -> Object:
    """Prefer another node for each of the pods with these labels."""
    term = {
        "labelSelector": {"matchLabels": selected},
        "topologyKey": "kubernetes.io/hostname",
    }
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _threads(settings: Settings) -> Object:
    if settings.training.threads:
        return {"name": "QFLEET_THREADS", "value": str(settings.training.threads)}
    # The limit, rounded up: a machine's cores are not the pod's.
    return {
        "name": "QFLEET_THREADS",
        "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1"}},
    }


def _settings(name: str, component: str, settings: Settings) -> Object:
    """The ConfigMap of what a job's program is told: RUN, and settings that are no defaults."""
    run = settings.run_name
    told = {"QFLEET_STORAGE": "", "QFLEET_RUN": run}
    if component == "inference" and settings.inference.weights:
        del told["QFLEET_RUN"]  # both would say which weights are meant
    handed_over = set(names_in_scope(Scope.WORKER))
    if component == "inference":
        handed_over |= set(names_in_scope(Scope.INFERENCE))
    for field, described in Settings.fields().items():
        value = settings.get(field)
        meant = field in handed_over
        if meant and value != described.default:
            told[f"QFLEET_{field.upper()}"] = str(value).lower() if value is True else str(value)
    made = manifest("v1", "ConfigMap", name, component, run, data=told)
    made["metadata"]["labels"][SETTINGS] = "true"
    return made


def _gang_policy(run: str, ports: dict[str, int]) -> Object:
    """TensorFlow's gRPC asks nobody who they are: a gang's ports are for that gang alone, and the
    profiler's for TensorBoard, too."""
    gang = {JOB_NAME: run}
    rules = [ingress(gang, *ports.values())]
    if "profiler" in ports:
        rules.append(ingress(labels("tensorboard"), ports["profiler"]))
    return policy(run, "training", gang, *rules, run=run)


def inference(settings: Settings) -> list[Object]:
    """What answers with a run's weights: a Job, of PARALLEL pods."""
    run = settings.run_name
    name = f"inference-{run}"
    several = settings.inference.parallelism > 1
    _check_inference(name, settings)
    model = UserModel.of(settings)
    # A pod of several leaves and restarts alone; the Job's uid tells its pods from another's.
    job_uid = {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}
    gang = {"name": "QFLEET_JOB_ID", "valueFrom": {"fieldRef": job_uid}}
    answering: Any = container(
        "inference",
        "worker",
        ["python", "-m", "inference.worker" if several else "inference"],
        {"cpu": settings.cluster.cpu, "memory": settings.cluster.memory},
        envFrom=[{"configMapRef": {"name": name}}],
        env=[_threads(settings), *[gang] * several],
        volumeMounts=model.mounts,
    )
    more: Any = {"affinity": _apart(labels("inference", run))} if several else {}
    job: Any = manifest(
        "batch/v1",
        "Job",
        name,
        "inference",
        run,
        spec={
            **(_indexed(settings.inference.parallelism) if several else {"backoffLimit": RETRIES}),
            # 1 is a bug and 2 a mistake: both would end the same way again. 128 and more are tried
            # again, and a pod that was evicted does not count.
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {
                            "containerName": "inference",
                            "operator": "In",
                            "values": [1, 2],
                        },
                    },
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                ]
            },
            "ttlSecondsAfterFinished": settings.cluster.ttl,
            "template": {
                "metadata": {"labels": labels("inference", run)},
                "spec": pod(
                    answering, settings, restartPolicy="Never", volumes=model.volumes(name), **more
                ),
            },
        },
    )
    _queued(job, settings)
    told = _settings(name, "inference", settings)
    return [account(), told, *model.objects(name, "inference", run), job]


def _indexed(pods: int) -> Object:
    """Of a Job: so many pods at once, each known by its number and tried again alone."""
    return {
        "completionMode": "Indexed",
        "completions": pods,
        "parallelism": pods,
        "backoffLimitPerIndex": RETRIES,
    }


def _check_inference(name: str, settings: Settings) -> None:
    if settings.training.state_shards > 1:
        raise SettingsError(
            f"STATE_SHARDS={settings.training.state_shards} splits states in training alone: leave STATE_SHARDS out of inference;"
            " PARALLEL is how many pods answer"
        )
    last = f"{name}-{settings.inference.parallelism - 1}"
    if settings.inference.parallelism > 1 and len(last) > 63:
        raise SettingsError(
            f"RUN={settings.run_name} with PARALLELISM={settings.inference.parallelism} makes a pod's name {last}"
            f" of {len(last)} characters, and the cluster's DNS takes 63: PARALLELISM=1 answers in a"
            " Job that needs no numbers"
        )
