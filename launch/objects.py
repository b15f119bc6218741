"""The jobs of k8s/base as plain dicts, from settings. Only this file builds TFJobs.

    training      ServiceAccount, ConfigMap RUN-settings, NetworkPolicy and TFJob RUN
    inference     ServiceAccount, ConfigMap and Job inference-RUN; Indexed if PARALLELISM > 1

STORAGE, images and the Google service account come from the overlay (launch/site_config.py).
"""

from typing import Any

from common.errors import SettingsError
from common.runs import auto_settings
from common.settings import (
    ClusterSettings,
    Scope,
    Settings,
    TrainingSettings,
    names_in_scope,
)
from common.settings.schema import format_value
from launch.pods import (
    EVENTS_TO_LOG,
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

WORKER_PORT = 2222  # the operator's default
MAX_POD_RETRIES = 6  # of a pod of an inference Job
MAX_DNS_LABEL_CHARACTERS = 63
SETTINGS_LABEL = "qfleet/settings"  # selects settings in k8s/base/own
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def training(settings: Settings) -> list[Object]:
    """Return the objects of a training job.

    Raises:
        SettingsError: A setting can't be used in a cluster.
    """
    if auto_settings.is_automatic(settings):
        raise SettingsError(
            "a manifest needs numbers, so WORKERS and BATCH can't be auto here: `make plan"
            " TARGET=k8s` recommends values"
        )
    run = settings.run_name
    _check_run_name(run, settings.training.workers)
    ports = _ports(settings)
    model = UserModel.from_settings(settings)
    return [
        account(),
        _settings_map(f"{run}-settings", "training", settings),
        *model.objects(run, "training", run),
        _worker_policy(run, ports),
        _tfjob(run, _worker(settings, ports, model), model, settings),
    ]


def _worker(settings: Settings, ports: dict[str, int], model: UserModel) -> Object:
    """Return the container of a training worker."""
    run = settings.run_name
    namespace = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    return container(
        "tensorflow",
        "worker",
        ["python", "-m", "training.worker"],
        _limits(settings.cluster),
        envFrom=[{"configMapRef": {"name": f"{run}-settings"}}],
        env=[
            EVENTS_TO_LOG,
            {"name": "QFLEET_WORKERS", "value": str(settings.training.workers)},
            _threads(settings.training),
            {"name": "POD_NAMESPACE", "valueFrom": namespace},
            {"name": "QFLEET_JOB_ID", "value": f"$(POD_NAMESPACE).{run}"},
            {"name": "QFLEET_TENSORBOARD_FOLDER", "value": PROFILES},
        ],
        ports=[{"name": name, "containerPort": port} for name, port in ports.items()],
        volumeMounts=model.mounts,
    )


def _tfjob(run: str, worker: Object, model: UserModel, settings: Settings) -> Object:
    affinity, volumes = _spread({JOB_NAME: run}), model.volumes(run)
    template = {
        "metadata": {"labels": labels("training", run)},
        "spec": pod(worker, settings, affinity=affinity, volumes=volumes),
    }
    replicas = {
        "replicas": settings.training.workers,
        "restartPolicy": "ExitCode",
        "template": template,
    }
    spec = {
        "runPolicy": _run_policy(settings),
        "successPolicy": "AllWorkers",
        # Otherwise the operator fails the job once a pod is deleted or preempted. With it,
        # TF_CONFIG contains only the worker itself; training/cluster.py adds its peers.
        "enableDynamicWorker": True,
        "tfReplicaSpecs": {"Worker": replicas},
    }
    job = manifest("kubeflow.org/v1", "TFJob", run, "training", run, spec=spec)
    return _queued(job, settings.cluster)


def _check_run_name(run: str, workers: int) -> None:
    last = f"{run}-worker-{workers - 1}"
    excess = len(last) - MAX_DNS_LABEL_CHARACTERS
    if excess > 0:
        raise SettingsError(
            f"RUN={run} with WORKERS={workers} needs the pod name {last} of {len(last)} characters,"
            f" but the cluster's DNS allows {MAX_DNS_LABEL_CHARACTERS}: shorten RUN by {excess}"
        )
    if run[0].isdigit():
        raise SettingsError(
            f"RUN={run} starts with a digit, which the cluster's DNS does not allow: start it with"
            f" a letter, for example RUN=run-{run}"
        )


def _ports(settings: Settings) -> dict[str, int]:
    """Return the workers' ports by name. The operator's Services expose named ports."""
    rendezvous = settings.fault_tolerance.rendezvous_port
    profiler = settings.monitoring.profiler_port
    if not rendezvous:
        raise SettingsError(
            "RENDEZVOUS_PORT=0 lets each worker choose a port, but network policies need a number:"
            " set one, for example RENDEZVOUS_PORT=2224"
        )
    ports = {"tfjob-port": WORKER_PORT, "profiler": profiler, "rendezvous": rendezvous}
    used = {name: port for name, port in ports.items() if port}
    if len(set(used.values())) < len(used):
        raise SettingsError(
            f"RENDEZVOUS_PORT={rendezvous}, PROFILER_PORT={profiler} and TensorFlow's {WORKER_PORT}"
            " must be three different ports"
        )
    return used


def _run_policy(settings: Settings) -> Object:
    cluster = settings.cluster
    policy: Object = {"cleanPodPolicy": "Running", "ttlSecondsAfterFinished": cluster.ttl}
    if settings.fault_tolerance.deadline:
        # The operator checks it only at events such as the chief's own end at DEADLINE.
        policy["activeDeadlineSeconds"] = settings.fault_tolerance.deadline
    if cluster.gang_scheduling:
        policy["schedulingPolicy"] = {"minAvailable": settings.training.workers}
        if cluster.priority_class:
            policy["schedulingPolicy"]["priorityClass"] = cluster.priority_class
    return policy


def _queued(job: Object, cluster: ClusterSettings) -> Object:
    # Kueue's webhook suspends the job. A manifest must not: without Kueue nothing would resume it,
    # and a second apply would suspend it again.
    if cluster.queue:
        job["metadata"]["labels"][QUEUE_LABEL] = cluster.queue
    return job


def _spread(selected: dict[str, str]) -> Object:
    """Return an affinity that prefers different nodes for the pods with these labels."""
    term = {
        "labelSelector": {"matchLabels": selected},
        "topologyKey": "kubernetes.io/hostname",
    }
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def _limits(cluster: ClusterSettings) -> dict[str, str]:
    return {"cpu": cluster.cpu, "memory": cluster.memory}


def _threads(training: TrainingSettings) -> Object:
    if training.threads:
        return {"name": "QFLEET_THREADS", "value": str(training.threads)}
    # The CPU limit, rounded up: the machine may have more cores than the pod may use.
    return {
        "name": "QFLEET_THREADS",
        "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1"}},
    }


def _settings_map(name: str, component: str, settings: Settings) -> Object:
    """Return the ConfigMap of a job's settings: RUN, and those that differ from their defaults."""
    run = settings.run_name
    data = {"QFLEET_STORAGE": "", "QFLEET_RUN": run}
    passed = set(names_in_scope(Scope.WORKER))
    if component == "inference":
        passed |= set(names_in_scope(Scope.INFERENCE))
        if settings.inference.weights:
            del data["QFLEET_RUN"]  # RUN and WEIGHTS both select the weights
    for field in Settings.fields().values():
        value = settings.get(field.name)
        if field.name in passed and value != field.default:
            data[f"QFLEET_{field.name.upper()}"] = format_value(value)
    config = manifest("v1", "ConfigMap", name, component, run, data=data)
    config["metadata"]["labels"][SETTINGS_LABEL] = "true"
    return config


def _worker_policy(run: str, ports: dict[str, int]) -> Object:
    """Return the NetworkPolicy of a job's workers.

    TensorFlow's gRPC has no authentication. Only the same job's workers may reach its ports, and
    TensorBoard the profiler's.
    """
    workers = {JOB_NAME: run}
    rules = [ingress(workers, *ports.values())]
    if "profiler" in ports:
        rules.append(ingress(labels("tensorboard"), ports["profiler"]))
    return policy(run, "training", workers, *rules, run=run)


def inference(settings: Settings) -> list[Object]:
    """Return the objects of an inference job: a Job of PARALLELISM pods.

    Raises:
        SettingsError: A setting can't be used in a cluster.
    """
    run = settings.run_name
    name = f"inference-{run}"
    _check_inference(name, settings)
    model = UserModel.from_settings(settings)
    return [
        account(),
        _settings_map(name, "inference", settings),
        *model.objects(name, "inference", run),
        _inference_job(name, model, settings),
    ]


def _inference_container(name: str, model: UserModel, settings: Settings) -> Object:
    indexed = settings.inference.parallelism > 1
    # Pods of an Indexed Job restart one by one; its uid identifies the pods that work together.
    uid = {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}
    job_id = [{"name": "QFLEET_JOB_ID", "valueFrom": {"fieldRef": uid}}] if indexed else []
    return container(
        "inference",
        "worker",
        ["python", "-m", "inference.worker" if indexed else "inference"],
        _limits(settings.cluster),
        envFrom=[{"configMapRef": {"name": name}}],
        env=[EVENTS_TO_LOG, _threads(settings.training), *job_id],
        volumeMounts=model.mounts,
    )


def _inference_job(name: str, model: UserModel, settings: Settings) -> Object:
    run, parallelism = settings.run_name, settings.inference.parallelism
    fields: Any = {"restartPolicy": "Never", "volumes": model.volumes(name)}
    if parallelism > 1:
        fields["affinity"] = _spread(labels("inference", run))
    spec = {
        **(_indexed(parallelism) if parallelism > 1 else {"backoffLimit": MAX_POD_RETRIES}),
        "podFailurePolicy": _failure_policy(),
        "ttlSecondsAfterFinished": settings.cluster.ttl,
        "template": {
            "metadata": {"labels": labels("inference", run)},
            "spec": pod(_inference_container(name, model, settings), settings, **fields),
        },
    }
    job = manifest("batch/v1", "Job", name, "inference", run, spec=spec)
    return _queued(job, settings.cluster)


def _indexed(pods: int) -> Object:
    """Return the fields of a Job whose pods have ranks and are retried one by one."""
    return {
        "completionMode": "Indexed",
        "completions": pods,
        "parallelism": pods,
        "backoffLimitPerIndex": MAX_POD_RETRIES,
    }


def _failure_policy() -> Object:
    """Return the policy for failed pods of a Job.

    1 is a bug and 2 an error of the user's: a retry would end in the same way. Codes of 128 and
    more are retried, and evicted pods do not count as failures.
    """
    codes = {"containerName": "inference", "operator": "In", "values": [1, 2]}
    return {
        "rules": [
            {"action": "FailJob", "onExitCodes": codes},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        ]
    }


def _check_inference(name: str, settings: Settings) -> None:
    shards, parallelism = settings.training.state_shards, settings.inference.parallelism
    if shards > 1:
        raise SettingsError(
            f"STATE_SHARDS={shards} shards states in training only: leave STATE_SHARDS out of"
            " inference; PARALLELISM is the number of pods"
        )
    last = f"{name}-{parallelism - 1}"
    if parallelism > 1 and len(last) > MAX_DNS_LABEL_CHARACTERS:
        raise SettingsError(
            f"RUN={settings.run_name} with PARALLELISM={parallelism} needs the pod name {last} of"
            f" {len(last)} characters, but the cluster's DNS allows {MAX_DNS_LABEL_CHARACTERS}:"
            " PARALLELISM=1 uses a Job without numbered pods"
        )
