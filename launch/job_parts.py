"""Parts that the manifests of training and inference jobs share."""

from common.processes import LIVENESS_SECONDS, STARVED_FACTOR
from common.settings import ClusterSettings, Settings, TrainingSettings
from common.settings.launcher_variables import HEARTBEAT_FILE
from common.settings.programs import POD_SETTINGS
from common.settings.schema import format_value
from launch.names import part_of_job
from launch.pods import DISK, Object, manifest

MAX_DNS_LABEL_CHARACTERS = 63
DEFAULT_DEADLINE_SECONDS = 7 * 86_400
"""DEADLINE of a job in a cluster, if it is 0: none holds resources that are shared for ever."""

HEARTBEAT_PATH = "/tmp/heartbeat"  # noqa: S108
HEARTBEAT = {"name": HEARTBEAT_FILE, "value": HEARTBEAT_PATH}
SETTINGS_LABEL = "qfleet/settings"  # selects settings in k8s/base/own
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
QUEUE_PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


def with_deadline(settings: Settings) -> Settings:
    """Return settings with a DEADLINE, which every job in a cluster has."""
    if settings.fault_tolerance.deadline:
        return settings
    return settings.replace(deadline=DEFAULT_DEADLINE_SECONDS)


def queued(job: Object, cluster: ClusterSettings) -> Object:
    """Return a job with the labels of QUEUE and QUEUE_PRIORITY, if they are set."""
    # Kueue's webhook suspends the job. A manifest must not: without Kueue nothing would resume it,
    # and a second apply would suspend it again.
    if cluster.queue:
        job["metadata"]["labels"][QUEUE_LABEL] = cluster.queue
        if cluster.queue_priority:
            job["metadata"]["labels"][QUEUE_PRIORITY_LABEL] = cluster.queue_priority
    return job


def spread(selected: dict[str, str]) -> Object:
    """Return an affinity that prefers different nodes for the pods with these labels."""
    term = {
        "labelSelector": {"matchLabels": selected},
        "topologyKey": "kubernetes.io/hostname",
    }
    preferred = [{"weight": 100, "podAffinityTerm": term}]
    return {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def limits(cluster: ClusterSettings) -> dict[str, str]:
    """Return the resource limits of a job's containers."""
    return {"cpu": cluster.cpu, "memory": cluster.memory, DISK: cluster.scratch}


def threads(training: TrainingSettings) -> Object:
    """Return the variable THREADS of a job's containers."""
    if training.threads:
        return {"name": "QFLEET_THREADS", "value": str(training.threads)}
    # The CPU limit, rounded up: the machine may have more cores than the pod may use.
    return {
        "name": "QFLEET_THREADS",
        "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1"}},
    }


CLUSTER_AUTHORITY: Object = {
    "name": "CLUSTER_CA",
    "valueFrom": {
        "configMapKeyRef": {"name": "kube-root-ca.crt", "key": "ca.crt", "optional": True}
    },
}
"""The variable by which the lease of a run distinguishes attempts in this cluster from those in
another one (common/lease/holder.py). Kubernetes publishes the ConfigMap in every namespace."""


def settings_map(component: str, settings: Settings) -> Object:
    """Return the ConfigMap of a job's settings: RUN, and those that differ from their defaults.

    Args:
        component: training or inference.
        settings: The settings.
    """
    run = settings.run_name
    data = {"QFLEET_STORAGE": "", "QFLEET_RUN": run}
    passed = set(POD_SETTINGS[component])
    if component == "inference" and settings.inference.weights:
        del data["QFLEET_RUN"]  # RUN and WEIGHTS both select the weights
    for field in Settings.fields().values():
        value = settings.get(field.name)
        # Inference compares what is given with the run, whose MODEL and QUBITS may be others.
        is_given = component == "training" or field.name in settings.explicit
        if field.name in passed and value != field.default and is_given:
            data[f"QFLEET_{field.name.upper()}"] = format_value(value)
    config = manifest("v1", "ConfigMap", part_of_job(run, component), component, run, data=data)
    config["metadata"]["labels"][SETTINGS_LABEL] = "true"
    return config


def probes() -> Object:
    """Return the probes of a worker, which touches its heartbeat file while it makes progress.

    The file appears within seconds of the start of Python, before TensorFlow is loaded. A worker
    that does not touch it for LIVENESS_SECONDS is stopped or stuck, and the kubelet kills it; one
    that waits for a processor or its disk has STARVED_FACTOR times as long.
    """
    exists = ["test", "-e", HEARTBEAT_PATH]
    # The shell and find take milliseconds. One probe may fail: the node's clock may be set forward.
    tests = [
        f"test -n \"$(find {HEARTBEAT_PATH} -newermt '-{seconds:.0f} seconds')\""
        for seconds in (LIVENESS_SECONDS, STARVED_FACTOR * LIVENESS_SECONDS)
    ]
    waits = "grep -q '^State:.[RD]' /proc/1/task/*/status"  # process 1 is the worker
    fresh = ["sh", "-c", f"{tests[0]} || {{ {tests[1]} && {waits}; }}"]
    return {
        "startupProbe": {
            "exec": {"command": exists}, "periodSeconds": 5, "timeoutSeconds": 5,
            "failureThreshold": 60,
        },
        "livenessProbe": {
            "exec": {"command": fresh}, "periodSeconds": 5, "timeoutSeconds": 10,
            "failureThreshold": 2,
        },
    }  # fmt: skip
