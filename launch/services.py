"""Services of the cluster next to the jobs, as plain dicts for k8s/base.

tensorboard   ServiceAccount, Deployment, Service and NetworkPolicy of TensorBoard
storage       Deployment, Service and NetworkPolicy of the storage emulator (overlay local)
"""

from common.settings import Settings
from common.settings.launcher_variables import PROFILE_FOLDER
from launch import names
from launch.network import client_egress, component_policy, egress, ingress
from launch.pods import (
    DISK,
    OPENS_TENSORBOARD,
    PROFILES,
    Object,
    account,
    container,
    labels,
    manifest,
    pod,
)

TENSORBOARD_PORT = 5001
STORAGE_PORT = 9023
BUCKET = "qfleet"


def tensorboard(settings: Settings) -> list[Object]:
    """Return the objects of TensorBoard for all runs of STORAGE: one Deployment per namespace."""
    selected = labels("tensorboard")
    server = container(
        "tensorboard",
        "tensorboard",
        ["python", "-m", "launch.tensorboard_launcher", "HOST=0.0.0.0", f"PORT={TENSORBOARD_PORT}"],
        {"cpu": "1", "memory": "2Gi", DISK: "4Gi"},
        env=[
            {"name": "QFLEET_STORAGE", "value": ""},
            {"name": PROFILE_FOLDER, "value": PROFILES},
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
    return [
        account(),
        manifest("apps/v1", "Deployment", names.TENSORBOARD, "tensorboard", spec=spec),
        _service(names.TENSORBOARD, "tensorboard", TENSORBOARD_PORT),
        component_policy(
            names.TENSORBOARD,
            "tensorboard",
            # `kubectl port-forward` connects from the node. Pods need the label.
            accepts=[ingress({OPENS_TENSORBOARD: "true"}, TENSORBOARD_PORT)],
            # The profiler's port is a setting of each run; its own policy opens only that port.
            opens=[
                *client_egress(settings.cluster.storage_cidr),
                egress(labels("training")),
            ],
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
    emulator = container(
        "storage",
        "storage",
        ["python", "-m", "launch.emulator", "/data", str(STORAGE_PORT), BUCKET],
        {"cpu": "1", "memory": "1Gi", DISK: "9Gi"},
        ports=[{"name": "http", "containerPort": STORAGE_PORT}],
        readinessProbe={"tcpSocket": {"port": "http"}, "periodSeconds": 2},
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    # Fits a laptop.
    emulator["resources"]["requests"] = {"cpu": "100m", "memory": "256Mi", DISK: "256Mi"}
    volumes = [{"name": "data", "emptyDir": {"sizeLimit": "8Gi"}}]
    spec = {
        "replicas": 1,
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": selected},
        "template": {"metadata": {"labels": selected}, "spec": pod(emulator, volumes=volumes)},
    }
    return [
        manifest("apps/v1", "Deployment", names.STORAGE, "storage", spec=spec),
        _service(names.STORAGE, "storage", STORAGE_PORT),
        component_policy(names.STORAGE, "storage", accepts=[ingress(labels(), STORAGE_PORT)]),
    ]
