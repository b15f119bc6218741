"""What all of qfleet's pods share: labels, least privilege, the container's frame."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.settings import Settings

Object = dict[str, Any]

ROOT = Path(__file__).resolve().parents[1]
VERSION = (ROOT / "VERSION").read_text(encoding="utf-8").strip()

PART_OF = "app.kubernetes.io/part-of"
COMPONENT = "app.kubernetes.io/component"
RUN = "qfleet/run"
OPENS_TENSORBOARD = "qfleet/opens-tensorboard"
JOB_NAME = "training.kubeflow.org/job-name"
"""The label that the operator gives to a job's pods."""

ACCOUNT = "qfleet"
"""The ServiceAccount of all pods that read or write runs."""

PROFILES = "/tmp/tensorboard"  # noqa: S108
"""TENSORBOARD_FOLDER of TensorBoard and workers: a worker writes a profile to the path that
TensorBoard asks it to."""

USER = 65532


def labels(component: str = "", run: str = "") -> dict[str, str]:
    """The labels of an object: what it is part of, and where it is one's, its part and its run."""
    found = {PART_OF: "qfleet", COMPONENT: component, RUN: run}
    return {name: value for name, value in found.items() if value}


def manifest(
    version: str, kind: str, name: str, component: str = "", run: str = "", **fields: Any
) -> Object:
    """An object with its labels."""
    metadata = {"name": name, "labels": labels(component, run)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def account() -> Object:
    """The account that pods act as. No pod talks to the API server, so none gets a token; Google's
    metadata server finds a pod's account by itself, without a token in the pod."""
    return manifest("v1", "ServiceAccount", ACCOUNT, automountServiceAccountToken=False)


def pod(container: Object, settings: Settings | None = None, **fields: Any) -> Object:
    """A pod's spec with one container, within the Pod Security Standard `restricted`.

    Args:
        container: The container; see `container`.
        settings: PRIORITY_CLASS is read, for the pods of a job.
        fields: Further fields of the spec; `volumes` are added to /tmp.
    """
    scratch = {"name": "tmp", "emptyDir": {"sizeLimit": "4Gi"}}
    spec: Object = {
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        **fields,
        "volumes": [scratch, *fields.get("volumes", [])],
    }
    if settings and settings.cluster.priority_class:
        spec["priorityClassName"] = settings.cluster.priority_class
    return spec


def container(
    name: str, image: str, command: Sequence[str], limits: dict[str, str], **fields: Any
) -> Object:
    """A container that may write to /tmp alone.

    Args:
        name: Its name.
        image: Which of qfleet's images: worker, tensorboard or storage.
        command: What runs.
        limits: Its processors and memory, which it also requests.
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
        # A sentence where the program wrote one, else its last lines.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
            *fields.get("volumeMounts", []),
        ],
    }


def ingress(sender: dict[str, str], *ports: int) -> Object:
    """A rule of a NetworkPolicy: pods with these labels may reach these TCP ports."""
    return {
        "from": [{"podSelector": {"matchLabels": sender}}],
        "ports": [{"port": port, "protocol": "TCP"} for port in ports],
    }


def policy(
    name: str, component: str, selected: dict[str, str], *rules: Object, run: str = ""
) -> Object:
    """A NetworkPolicy: pods with the labels `selected` are reached by these rules alone."""
    spec = {
        "podSelector": {"matchLabels": selected},
        "policyTypes": ["Ingress"],
        "ingress": list(rules),
    }
    return manifest("networking.k8s.io/v1", "NetworkPolicy", name, component, run, spec=spec)
