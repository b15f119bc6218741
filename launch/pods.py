"""Parts that the manifests of all pods share: labels, least privilege, containers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.environments import service_version
from common.events import ENVIRONMENT_VARIABLE as EVENTS_VARIABLE
from common.settings import Settings
from common.storage import EMULATOR

Object = dict[str, Any]
"""An object of Kubernetes, or a part of one."""

ReadObject = Mapping[str, Any]
"""An object that is read only."""

ROOT = Path(__file__).resolve().parents[1]
VERSION = service_version()

PART_OF = "app.kubernetes.io/part-of"
COMPONENT = "app.kubernetes.io/component"
RUN = "qfleet/run"
OPENS_TENSORBOARD = "qfleet/opens-tensorboard"
ACCOUNT = "qfleet"
"""The ServiceAccount of all pods that read or write runs."""

PROFILES = "/tmp/tensorboard"  # noqa: S108
"""Profile folder of TensorBoard and workers: a worker writes a profile to the path that
TensorBoard sends it."""

USER = 65532

DISK = "ephemeral-storage"
"""The resource of a node's disk: a pod's volumes in it, and its logs."""

GRACE_SECONDS = 25
"""From SIGTERM to SIGKILL: the 22 s in which a worker saves its state and ends, and a margin. The
kubelet gives a worker whose liveness probe fails the same time, as its pod is not restarted."""

NODE_LOSS_SECONDS = 30
"""Time after which the pods of a node that is lost are replaced; Kubernetes' default is 300 s."""

EVENTS_TO_LOG: Object = {"name": EVENTS_VARIABLE, "value": "stdout"}
"""Variable of worker containers: their logs contain events as JSON, which the client reads."""


def labels(component: str = "", run: str = "") -> dict[str, str]:
    """Return the labels of an object: qfleet, its component, and its run if it belongs to one."""
    found = {PART_OF: "qfleet", COMPONENT: component, RUN: run}
    return {name: value for name, value in found.items() if value}


def manifest(
    version: str, kind: str, name: str, component: str = "", run: str = "", **fields: Any
) -> Object:
    """Return an object with its labels."""
    metadata = {"name": name, "labels": labels(component, run)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def account() -> Object:
    """Return the ServiceAccount of the pods, which get no token for the API server.

    No pod uses the API server. Google's metadata server identifies a pod's account without a token.
    """
    return manifest("v1", "ServiceAccount", ACCOUNT, automountServiceAccountToken=False)


def pod(container: Object, settings: Settings | None = None, **fields: Any) -> Object:
    """Return a pod spec with one container that meets the Pod Security Standard `restricted`.

    Args:
        container: The container; see `container`.
        settings: Its PRIORITY_CLASS is used, for the pods of a job.
        fields: Further fields of the spec; `volumes` are added to /tmp.
    """
    # Not larger than what the pod may use, of which logs are a part, too.
    scratch = {"name": "tmp", "emptyDir": {"sizeLimit": container["resources"]["limits"][DISK]}}
    spec: Object = {
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": [_tolerate(condition) for condition in ("not-ready", "unreachable")],
        "containers": [container],
        **fields,
        "volumes": [scratch, *fields.get("volumes", [])],
    }
    if settings and settings.cluster.priority_class:
        spec["priorityClassName"] = settings.cluster.priority_class
    return spec


def _tolerate(condition: str) -> Object:
    return {
        "key": f"node.kubernetes.io/{condition}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": NODE_LOSS_SECONDS,
    }


def container(
    name: str, image: str, command: Sequence[str], limits: dict[str, str], **fields: Any
) -> Object:
    """Return a container that may write only to /tmp.

    Args:
        name: Its name.
        image: One of qfleet's images: worker, tensorboard or storage.
        command: Its program and arguments.
        limits: Its CPU, memory and disk limits, which are also its requests.
        fields: Further fields; `env` and `volumeMounts` are added to those of all containers.
    """
    return {
        "name": name,
        "image": f"qfleet-{image}:{VERSION}",
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        **fields,
        "env": [{"name": "HOME", "value": "/tmp"}, *fields.get("env", [])],  # noqa: S108
        "resources": {"limits": limits, "requests": dict(limits)},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        # The message that the program wrote, else the last lines of its log.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
            *fields.get("volumeMounts", []),
        ],
    }


def pod_specs(thing: object) -> Iterator[Object]:
    """Yield the specs of the pods that an object creates, of whatever kind it is."""
    if isinstance(thing, list):
        for one in thing:
            yield from pod_specs(one)
    elif isinstance(thing, dict) and "containers" in thing:
        yield thing
    elif isinstance(thing, dict):
        for one in thing.values():
            yield from pod_specs(one)


@dataclass(frozen=True)
class StorageLocation:
    """The storage that a job's pods use.

    Args:
        storage: STORAGE of the pods.
        emulator: The emulator's address in the cluster; empty for Google Cloud Storage.
    """

    storage: str
    emulator: str

    @classmethod
    def from_objects(cls, objects: Sequence[Object]) -> "StorageLocation":
        """Read the location from a job's ConfigMap and its containers' environment."""
        variables: dict[str, str] = {}
        for one in objects:
            if one["kind"] == "ConfigMap":
                variables |= one.get("data") or {}
            for container in (found for pod in pod_specs(one) for found in pod["containers"]):
                pairs = container.get("env") or []
                variables |= {pair["name"]: pair["value"] for pair in pairs if "value" in pair}
        return cls(variables.get("QFLEET_STORAGE", ""), variables.get(EMULATOR, ""))
