"""The objects of a training job as plain dicts, from settings. Only this file builds TFJobs.

STORAGE, images and the Google service account come from the overlay (launch/site_config.py).
"""

from common.errors import SettingsError
from common.runs import auto_settings
from common.settings import ClusterSettings, Settings
from launch.job_parts import (
    CLUSTER_AUTHORITY,
    MAX_DNS_LABEL_CHARACTERS,
    limits,
    queued,
    settings_map,
    spread,
    threads,
    with_deadline,
)
from launch.names import part_of_job, training_job
from launch.network import client_egress, egress, ingress, policy
from launch.pods import (
    EVENTS_TO_LOG,
    JOB_NAME,
    PROFILES,
    Object,
    account,
    container,
    labels,
    manifest,
    pod,
)
from launch.user_model import UserModel

WORKER_PORT = 2222  # the operator's default
HEARTBEAT_FILE = "/tmp/heartbeat"  # noqa: S108


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
    settings = with_deadline(settings)
    ports = _ports(settings)
    model = UserModel.from_settings(settings)
    return [
        account(),
        settings_map("training", settings),
        *model.objects(run, "training"),
        _worker_policy(run, ports, settings.cluster),
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
        limits(settings.cluster),
        envFrom=[{"configMapRef": {"name": part_of_job(run, "training")}}],
        env=[
            EVENTS_TO_LOG,
            {"name": "QFLEET_WORKERS", "value": str(settings.training.workers)},
            threads(settings.training),
            {"name": "POD_NAMESPACE", "valueFrom": namespace},
            CLUSTER_AUTHORITY,
            {"name": "QFLEET_JOB_ID", "value": f"$(POD_NAMESPACE).{run}"},
            {"name": "QFLEET_TENSORBOARD_FOLDER", "value": PROFILES},
            {"name": "QFLEET_HEARTBEAT_FILE", "value": HEARTBEAT_FILE},
        ],
        **_probes(),
        ports=[{"name": name, "containerPort": port} for name, port in ports.items()],
        volumeMounts=model.mounts,
    )


def _probes() -> Object:
    """Return the probes of a worker, which touches its heartbeat file while it makes progress.

    The file appears within seconds of the start of Python, before TensorFlow is loaded. A worker
    that does not touch it for a minute is stopped or stuck, and the kubelet kills it.
    """
    exists = ["test", "-e", HEARTBEAT_FILE]
    # The shell and find take milliseconds. One probe may fail: the node's clock may be set forward.
    fresh = ["sh", "-c", f'test -n "$(find {HEARTBEAT_FILE} -newermt "-30 seconds")"']
    return {
        "startupProbe": {
            "exec": {"command": exists}, "periodSeconds": 5, "timeoutSeconds": 5,
            "failureThreshold": 60,
        },
        "livenessProbe": {
            "exec": {"command": fresh}, "periodSeconds": 10, "timeoutSeconds": 5,
            "failureThreshold": 2,
            # A stopped process does not react to SIGTERM, and the others wait for its successor.
            "terminationGracePeriodSeconds": 5,
        },
    }  # fmt: skip


def _tfjob(run: str, worker: Object, model: UserModel, settings: Settings) -> Object:
    name = training_job(run)
    affinity, volumes = spread({JOB_NAME: name}), model.volumes(run, "training")
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
        # A group that continues without a worker is done when its chief is.
        "successPolicy": "" if settings.training.is_elastic else "AllWorkers",
        # Otherwise the operator fails the job once a pod is deleted or preempted. With it,
        # TF_CONFIG contains only the worker itself; training/cluster.py adds its peers.
        "enableDynamicWorker": True,
        "tfReplicaSpecs": {"Worker": replicas},
    }
    job = manifest("kubeflow.org/v1", "TFJob", name, "training", run, spec=spec)
    return queued(job, settings.cluster)


def _check_run_name(run: str, workers: int) -> None:
    last = f"{training_job(run)}-worker-{workers - 1}"
    excess = len(last) - MAX_DNS_LABEL_CHARACTERS
    if excess > 0:
        raise SettingsError(
            f"RUN={run} with WORKERS={workers} needs the pod name {last} of {len(last)} characters,"
            f" but the cluster's DNS allows {MAX_DNS_LABEL_CHARACTERS}: shorten RUN by {excess}"
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


def _worker_policy(run: str, ports: dict[str, int], cluster: ClusterSettings) -> Object:
    """Return the NetworkPolicy of a job's workers.

    TensorFlow's gRPC has no authentication. Only the same job's workers may reach its ports, and
    TensorBoard the profiler's. Workers reach each other, DNS and storage.
    """
    workers = {JOB_NAME: training_job(run)}
    rules = [ingress(workers, *ports.values())]
    if "profiler" in ports:
        rules.append(ingress(labels("tensorboard"), ports["profiler"]))
    return policy(
        part_of_job(run, "training"),
        "training",
        workers,
        accepts=rules,
        opens=[*client_egress(cluster.storage_cidr), egress(workers, *ports.values())],
        run=run,
    )
