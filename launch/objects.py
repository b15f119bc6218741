"""The objects of a training job as plain dicts, from settings.

This file has the contract with a worker, which is the same for every engine: its environment,
ports, probes and network. JOB_API selects the engine that wraps it in a job (launch/engines).

STORAGE, images and the Google service account come from the overlay (launch/site_config.py).
"""

from common.commands import command
from common.errors import SettingsError
from common.runs import auto_settings
from common.settings import ClusterSettings, Settings
from common.settings.launcher_variables import JOB_ID, PROFILE_FOLDER
from launch.engines import engine_of
from launch.engines.engine import Engine
from launch.job_parts import (
    CLUSTER_AUTHORITY,
    HEARTBEAT,
    MAX_DNS_LABEL_CHARACTERS,
    limits,
    probes,
    queued,
    settings_map,
    spread,
    threads,
    with_deadline,
)
from launch.names import part_of_job
from launch.network import client_egress, egress, ingress, policy
from launch.pods import (
    EVENTS_TO_LOG,
    PROFILES,
    Object,
    account,
    container,
    labels,
    pod,
)
from launch.user_model import UserModel

WORKER_PORT = 2222  # the default of TFJob's operator


def training(settings: Settings) -> list[Object]:
    """Return the objects of a training job.

    Raises:
        SettingsError: A setting can't be used in a cluster.
    """
    if auto_settings.is_automatic(settings):
        raise SettingsError(
            f"a manifest needs numbers, so WORKERS and BATCH can't be auto here: `{command('plan')}"
            " TARGET=k8s` recommends values"
        )
    run, engine = settings.run_name, engine_of(settings)
    _check_run_name(engine.last_host(run, settings.training.workers), settings)
    settings = with_deadline(settings)
    ports = _ports(settings, engine)
    model = UserModel.from_settings(settings)
    template = {
        "metadata": {"labels": labels("training", run)},
        "spec": pod(
            _worker(settings, engine, ports, model),
            settings,
            affinity=spread(engine.selector(run)),
            volumes=model.volumes(run, "training"),
        ),
    }
    *others, job = engine.render(template, settings)
    return [
        account(),
        settings_map("training", settings),
        *model.objects(run, "training"),
        _worker_policy(run, engine, ports, settings.cluster),
        *others,
        queued(job, settings.cluster),
    ]


def _worker(settings: Settings, engine: Engine, ports: dict[str, int], model: UserModel) -> Object:
    """Return the container of a training worker."""
    run = settings.run_name
    namespace = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    return container(
        engine.container,
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
            {"name": JOB_ID, "value": f"$(POD_NAMESPACE).{run}"},
            {"name": PROFILE_FOLDER, "value": PROFILES},
            HEARTBEAT,
            *engine.variables(run),
        ],
        **probes(),
        ports=[{"name": name, "containerPort": port} for name, port in ports.items()],
        volumeMounts=model.mounts,
    )


def _check_run_name(last: str, settings: Settings) -> None:
    excess = len(last) - MAX_DNS_LABEL_CHARACTERS
    if excess > 0:
        raise SettingsError(
            f"RUN={settings.run_name} with WORKERS={settings.training.workers} needs the pod name"
            f" {last} of {len(last)} characters,"
            f" but the cluster's DNS allows {MAX_DNS_LABEL_CHARACTERS}: shorten RUN by {excess}"
        )


def _ports(settings: Settings, engine: Engine) -> dict[str, int]:
    """Return the workers' ports by name. The Services of TFJob's operator expose named ports."""
    rendezvous = settings.fault_tolerance.rendezvous_port
    profiler = settings.monitoring.profiler_port
    if not rendezvous:
        raise SettingsError(
            "RENDEZVOUS_PORT=0 lets each worker choose a port, but network policies need a number:"
            " set one, for example RENDEZVOUS_PORT=2224"
        )
    ports = {engine.worker_port: WORKER_PORT, "profiler": profiler, "rendezvous": rendezvous}
    used = {name: port for name, port in ports.items() if port}
    if len(set(used.values())) < len(used):
        raise SettingsError(
            f"RENDEZVOUS_PORT={rendezvous}, PROFILER_PORT={profiler} and TensorFlow's {WORKER_PORT}"
            " must be three different ports"
        )
    return used


def _worker_policy(
    run: str, engine: Engine, ports: dict[str, int], cluster: ClusterSettings
) -> Object:
    """Return the NetworkPolicy of a job's workers.

    TensorFlow's gRPC has no authentication. Only the same job's workers may reach its ports, and
    TensorBoard the profiler's. Workers reach each other, DNS, storage, and what the engine needs.
    """
    workers = engine.selector(run)
    rules = [ingress(workers, *ports.values())]
    if "profiler" in ports:
        rules.append(ingress(labels("tensorboard"), ports["profiler"]))
    return policy(
        part_of_job(run, "training"),
        "training",
        workers,
        accepts=rules,
        opens=[
            *client_egress(cluster.storage_cidr),
            egress(workers, *ports.values()),
            *engine.opens,
        ],
        run=run,
    )
