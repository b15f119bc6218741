"""A pod that pulls the image of a training and writes, reads and deletes one object of STORAGE.

It is made of the workers' template, so it has their image, account, volumes and nodes. A copy of
their network policy is applied with it. Both are deleted at the end.
"""

import contextlib
import copy
import secrets
import time

from common.errors import ClusterError
from common.storage import EMULATOR
from launch import api_errors, apply, diagnosis, manifests
from launch.diagnosis import BRIEF_WAIT_SECONDS, Wait
from launch.engines import TEMPLATE_KINDS
from launch.job import Pod
from launch.kube_client import KubeClient
from launch.pods import RUN, Object, labels
from launch.startup import events_about

LIMIT_SECONDS = 180.0
"""Longest time from the pod's creation to its end; its image may have to be pulled."""

POLL_SECONDS = 0.5
COMPONENT = "probe"
REQUESTS = {"cpu": "10m", "memory": "64Mi", "ephemeral-storage": "10Mi"}


def run(cluster: KubeClient, build: manifests.Build) -> str:
    """Run the pod.

    Args:
        cluster: The cluster.
        build: The manifests of a training.

    Returns:
        What it has done, for people.

    Raises:
        ClusterError: The pod can't be created, does not start, or fails.
    """
    name = f"qfleet-probe-{secrets.token_hex(3)}"
    shared = [one for one in build.objects if RUN not in (one["metadata"].get("labels") or {})]
    apply.apply_all(cluster, shared)  # account and storage emulator, which stay
    own = [policy(build, name), pod(build, name)]
    try:
        for one in own:
            apply.apply(cluster, one)
        return _wait(cluster, name)
    finally:
        for one in own:
            with contextlib.suppress(ClusterError):
                if live := cluster.get(one["kind"], name, one["apiVersion"]):
                    cluster.delete(live)


def pod(build: manifests.Build, name: str) -> Object:
    """Return the pod.

    Args:
        build: The manifests of a training.
        name: Its name.
    """
    (body,) = (one for one in build.objects if one["kind"] in TEMPLATE_KINDS)
    spec = copy.deepcopy(TEMPLATE_KINDS[body["kind"]].template(body)["spec"])
    (container,) = spec["containers"]
    for field in ("envFrom", "startupProbe", "livenessProbe", "ports"):
        container.pop(field, None)
    kept = [one for one in container["env"] if not one["name"].startswith("QFLEET_")]
    location = build.storage
    container |= {
        "command": ["python", "-m", "common.storage.probe"],
        "env": [
            *(one for one in kept if one["name"] != EMULATOR),
            {"name": "QFLEET_STORAGE", "value": location.storage},
            *([{"name": EMULATOR, "value": location.emulator}] if location.emulator else []),
        ],
        "resources": {**container["resources"], "requests": REQUESTS},
        "volumeMounts": [one for one in container["volumeMounts"] if one["name"] != "model"],
    }
    spec |= {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": int(LIMIT_SECONDS),
        "volumes": [one for one in spec["volumes"] if one["name"] != "model"],
    }
    metadata = {"name": name, "labels": labels(COMPONENT)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def policy(build: manifests.Build, name: str) -> Object:
    """Return the network policy of the workers for the pod, which accepts no connection.

    Args:
        build: The manifests of a training.
        name: Its name.
    """
    (found,) = (
        one
        for one in build.objects
        if one["kind"] == "NetworkPolicy" and RUN in (one["metadata"].get("labels") or {})
    )
    spec = {
        **copy.deepcopy(found["spec"]),
        "podSelector": {"matchLabels": labels(COMPONENT)},
        "ingress": [],
    }
    metadata = {"name": name, "labels": labels(COMPONENT)}
    return {"apiVersion": found["apiVersion"], "kind": "NetworkPolicy", "metadata": metadata,
            "spec": spec}  # fmt: skip


def _wait(cluster: KubeClient, name: str) -> str:
    """Return the message of the pod when it has succeeded."""
    began = time.monotonic()
    while True:
        live = cluster.get("Pod", name)
        if live is None:
            raise ClusterError(f"pod {name} was deleted before its end: run the check again")
        found, seconds = Pod(live), time.monotonic() - began
        if found.phase == "Succeeded":
            return f"a pod pulled {_image(live)} and wrote to STORAGE in {seconds:.0f} s"
        if found.phase == "Failed":
            cause = found.termination_message or diagnosis.termination_cause(found)
            raise ClusterError(f"pod {name} failed: {cause}")
        about: list[Object] = []
        with contextlib.suppress(api_errors.Forbidden):
            about = diagnosis.sort_events(events_about(cluster, live))
        obstacle = diagnosis.find_obstacle(found, about)
        limits = {Wait.NONE: 0.0, Wait.BRIEF: BRIEF_WAIT_SECONDS, Wait.PLACEMENT: LIMIT_SECONDS}
        if obstacle and seconds >= limits[obstacle.wait]:
            raise ClusterError(obstacle.sentence)
        if seconds >= LIMIT_SECONDS:
            raise ClusterError(
                f"pod {name} has not ended within {LIMIT_SECONDS:.0f} s ({found.display_state}):"
                " check that its nodes reach the registry and STORAGE"
            )
        time.sleep(POLL_SECONDS)


def _image(live: Object) -> str:
    return str(live["spec"]["containers"][0]["image"])
