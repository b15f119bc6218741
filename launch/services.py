"""Services of the cluster next to the jobs, as plain dicts for k8s/base.

tensorboard   ServiceAccount, Deployment qcnn-tensorboard, Service, NetworkPolicy
storage       Deployment, Service and NetworkPolicy of the storage emulator (overlay local)
"""

from typing import Any

from launch.pods import (
    OPENS_TENSORBOARD,
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

TENSORBOARD_PORT = 5001
STORAGE_PORT = 9023
BUCKET = "qfleet"


def tensorboard() -> list[Object]:
    """Return the objects of TensorBoard for all runs of STORAGE: one Deployment per namespace."""
    selected = labels("tensorboard")
    server: Any = container(
        "tensorboard",
        "tensorboard",
        ["python", "-m", "training.tensorboard_launcher"],
        {"cpu": "1", "memory": "2Gi"},
        env=[
            {"name": "QFLEET_STORAGE", "value": ""},
            {"name": "QFLEET_TENSORBOARD_HOST", "value": "0.0.0.0"},  # noqa: S104 - in a pod
            {"name": "QFLEET_TENSORBOARD_PORT", "value": str(TENSORBOARD_PORT)},
            {"name": "QFLEET_TENSORBOARD_FOLDER", "value": PROFILES},
        ],
        ports=[{"name": "http", "containerPort": TENSORBOARD_PORT}],
        readinessProbe={"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 2},
    )
    spec = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": selected},
        "template": {"metadata": {"labels": selected}, "spec": pod(server)},
    }
    name = "qcnn-tensorboard"
    return [
        account(),
        manifest("apps/v1", "Deployment", name, "tensorboard", spec=spec),
        _service("tensorboard-service", "tensorboard", TENSORBOARD_PORT),
        # `kubectl port-forward` connects from the node. Pods need the label.
        policy(
            name, "tensorboard", selected, ingress({OPENS_TENSORBOARD: "true"}, TENSORBOARD_PORT)
        ),
    ]


def _service(name: str, component: str, port: int) -> Object:
    ports = [{"name": "http", "port": port, "targetPort": "http", "protocol": "TCP"}]
    return manifest(
        "v1",
        "Service",
        name,
        component,
        spec={"type": "ClusterIP", "selector": labels(component), "ports": ports},
    )


def storage() -> list[Object]:
    """Return the objects of the storage emulator (Google Cloud Storage).

    Its files are on a volume of its pod: they survive the container, but not the pod.
    """
    selected = labels("storage")
    emulator: Any = container(
        "storage",
        "storage",
        ["python", "-m", "k8s.emulator", "/data", str(STORAGE_PORT), BUCKET],
        {"cpu": "1", "memory": "1Gi"},
        ports=[{"name": "http", "containerPort": STORAGE_PORT}],
        readinessProbe={"tcpSocket": {"port": "http"}, "periodSeconds": 2},
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    emulator["resources"]["requests"] = {"cpu": "100m", "memory": "256Mi"}  # fits a laptop
    volumes = [{"name": "data", "emptyDir": {}}]
    spec = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": selected},
        "template": {"metadata": {"labels": selected}, "spec": pod(emulator, volumes=volumes)},
    }
    return [
        manifest("apps/v1", "Deployment", "storage", "storage", spec=spec),
        _service("storage", "storage", STORAGE_PORT),
        policy("storage", "storage", selected, ingress(labels(), STORAGE_PORT)),
    ]
