"""Versions of the installed controllers, and pairs of them that never start a TrainJob."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from launch import api_errors
from launch.engines import BY_KIND
from launch.engines.engine import Engine
from launch.job_parts import QUEUE_LABEL
from launch.kube_client import KubeClient
from launch.pods import ReadObject, pod_specs

KUEUE_APIS = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
"""API versions of Kueue's objects, the newest first."""

VERSION_LABELS = ("app.kubernetes.io/version", "helm.sh/chart")

RUNTIME_PATCHES = (2, 2)
"""The first version of Trainer whose TrainJobs have runtimePatches, not podTemplateOverrides."""

WRITES_RUNTIME_PATCHES = (0, 17)
"""The first version of Kueue that starts a TrainJob by runtimePatches (kueue#11931)."""

MERGES_PATCHES = (2, 3)
"""The first version of Trainer that merges runtimePatches strategically."""

EXPECTS_MERGED = (0, 20)
"""The first version of Kueue that was built for MERGES_PATCHES (kueue#14504)."""


@dataclass(frozen=True)
class Controller:
    """A controller of a cluster.

    Args:
        deployment: The name of its Deployment.
        namespace: The namespace in which its manifests install it.
        definition: The name of a CustomResourceDefinition that comes with it.
    """

    deployment: str
    namespace: str
    definition: str


KUEUE = Controller("kueue-controller-manager", "kueue-system", "localqueues.kueue.x-k8s.io")


def of_engine(engine: Engine) -> Controller:
    """Return the controller of an engine's jobs."""
    definition = f"{engine.kind.lower()}s.{engine.group}"
    return Controller(engine.deployment, engine.controller_namespace, definition)


def installed_version(cluster: KubeClient, controller: Controller) -> str:
    """Return the version of a controller, such as 2.3.0; empty if it can't be read.

    It is the tag of its image, else a label of its CustomResourceDefinition.
    """
    for read in (_from_deployment, _from_definition):
        try:
            if found := read(cluster, controller):
                return found
        except (api_errors.Forbidden, api_errors.KindNotServed):
            continue
    return ""


def _from_deployment(cluster: KubeClient, controller: Controller) -> str:
    name = f"metadata.name={controller.deployment}"
    try:
        found = cluster.list("Deployment", fields=name, everywhere=True)
    except api_errors.Forbidden:  # of all namespaces
        found = cluster.list("Deployment", fields=name, namespace=controller.namespace)
    images = [container["image"] for one in found for pod in pod_specs(one["spec"])
              for container in pod["containers"]]  # fmt: skip
    return _first_version(image.partition("@")[0].rpartition(":")[2] for image in images)


def _from_definition(cluster: KubeClient, controller: Controller) -> str:
    found: ReadObject = cluster.get("CustomResourceDefinition", controller.definition) or {}
    metadata = found.get("metadata") or {}
    marks = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    return _first_version(str(marks.get(label) or "") for label in VERSION_LABELS)


def _first_version(texts: Iterable[str]) -> str:
    found = (re.search(r"(?:^|[-_v])(\d+\.\d+(?:\.\d+)?)", text) for text in texts)
    return next((match[1] for match in found if match), "")


def kueue_api(cluster: KubeClient) -> str:
    """Return the API version of Kueue's objects; empty where Kueue is not installed."""
    return next((one for one in KUEUE_APIS if cluster.serves("LocalQueue", one)), "")


def job_conflict(cluster: KubeClient, found: ReadObject) -> str:
    """Return why Kueue never starts a job, as `queue_conflict`; empty for jobs without a queue."""
    queue = (found["metadata"].get("labels") or {}).get(QUEUE_LABEL)
    return queue_conflict(cluster) if queue and found["kind"] == "TrainJob" else ""


def queue_conflict(cluster: KubeClient) -> str:
    """Return why Kueue never starts a TrainJob in this cluster; empty if nothing is known."""
    trainer = installed_version(cluster, of_engine(BY_KIND["TrainJob"]))
    return version_conflict(installed_version(cluster, KUEUE), trainer)


def version_conflict(kueue: str, trainer: str) -> str:
    """Return why a version of Kueue never starts the TrainJobs of a version of Trainer.

    Args:
        kueue: The version of Kueue, or an empty text.
        trainer: The version of Trainer, or an empty text.

    Returns:
        A sentence; empty if the pair works, or a version is not known.
    """
    if not (kueue and trainer):
        return ""
    patches, writes = _minor(trainer) >= RUNTIME_PATCHES, _minor(kueue) >= WRITES_RUNTIME_PATCHES
    others = "with another JOB_API, QUEUE works"
    if writes and not patches:
        return (
            f"Kueue {kueue} never starts a TrainJob of Kubeflow Trainer {trainer}, as it sets"
            " runtimePatches, which Trainer has from 2.2 on (kueue#11931): update Trainer to 2.3;"
            f" {others}"
        )
    if patches and not writes:
        return (
            f"Kueue {kueue} never starts a TrainJob of Kubeflow Trainer {trainer}, as it sets"
            " podTemplateOverrides, which Trainer has up to 2.1 only: update Kueue to 0.17 or"
            f" newer; {others}"
        )
    if _minor(kueue) >= EXPECTS_MERGED and _minor(trainer) < MERGES_PATCHES:
        return (
            f"Kueue {kueue} is made for Kubeflow Trainer 2.3, whose API is not compatible with that"
            f" of the installed {trainer} (kueue#14504): update Trainer to 2.3; {others}"
        )
    return ""


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
