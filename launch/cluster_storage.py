"""Access to STORAGE from this machine: with the user's credentials, or through the cluster.

The emulator of overlay `local` is a Service in the cluster; a port of this machine is forwarded to
it while it is read.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence

from common import storage
from common.commands import command
from common.errors import ClusterError
from common.storage import EMULATOR, StoragePath
from launch.kube_client import KubeClient
from launch.pods import Object, StorageLocation
from launch.port_forward import forward_port

RETRY_SECONDS = 10.0
"""Time in which reads are retried. It is short, as the user is waiting."""


DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
"""The annotation of the StorageClass that claims without a class get."""


class StorageNotReady(ClusterError):
    """The cluster's storage does not exist yet."""


@contextlib.contextmanager
def open_storage(cluster: KubeClient, location: StorageLocation) -> Iterator[StoragePath]:
    """Provide STORAGE as a path that this machine can read.

    Raises:
        StorageNotReady: The cluster's storage does not exist yet.
        ClusterError: It can't be reached from this machine.
        StorageError, StorageUnavailable: No bucket, no permission, no answer.
    """
    storage.limit_retries(RETRY_SECONDS)
    if not location.storage.startswith("gs://"):
        raise ClusterError(
            f"STORAGE={location.storage} is a folder in the pods, which this machine can't read"
        )
    if not location.emulator:
        os.environ.pop(EMULATOR, None)  # that of another location
        yield storage.path(location.storage)
        return
    address = re.fullmatch(r"https?://([^./:]+)[^/:]*:(\d+)/?", location.emulator)
    if address is None:
        raise ClusterError(f"{EMULATOR}={location.emulator} is not the address of a Service")
    service, port = address[1], int(address[2])
    if cluster.get("Service", service) is None:
        raise StorageNotReady(
            f"there is no storage in namespace {cluster.namespace} yet: `{command('train')}"
            " TARGET=k8s` creates it"
        )
    with forward_port(cluster, service, port) as forward:
        os.environ[EMULATOR] = f"http://127.0.0.1:{forward.port}"
        yield storage.path(location.storage)


def check_classes(cluster: KubeClient, objects: Sequence[Object]) -> None:
    """Check the storage classes of the overlay's PersistentVolumeClaims.

    Raises:
        ClusterError: One of them does not exist.
    """
    claims = [one for one in objects if one["kind"] == "PersistentVolumeClaim"]
    classes = cluster.list("StorageClass", everywhere=True) if claims else []
    marks = {one["metadata"]["name"]: one["metadata"].get("annotations") or {} for one in classes}
    choice = f"choose one of {', '.join(marks) or '(none exists)'}"
    for one in claims:
        title = f"PersistentVolumeClaim {one['metadata']['name']} of the overlay"
        name = one["spec"].get("storageClassName")
        if name and name not in marks:
            raise ClusterError(
                f"{title} has the storage class {name}, which does not exist: {choice}"
            )
        if name is None and not any(mark.get(DEFAULT_CLASS) == "true" for mark in marks.values()):
            raise ClusterError(
                f"{title} has no storage class, and the cluster has no default one: {choice}"
            )
