"""STORAGE as this machine reaches it: with the person's own credentials, or through the cluster.

The emulator of overlay `local` is a Service in the cluster; a port of this machine leads to it for
as long as it is read.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from common import storage
from common.errors import ClusterError
from common.storage import StoragePath
from launch.kube_client import KubeClient, Object
from launch.port_forward import forward_port

EMULATOR = "STORAGE_EMULATOR_HOST"
READ_SECONDS = 10.0
"""How long this machine tries again what storage does not answer; a person waits."""


class StorageNotReady(ClusterError):
    """The cluster's own storage has not been made."""


@dataclass(frozen=True)
class StorageLocation:
    """Where the pods of a job keep runs.

    Args:
        storage: STORAGE as they are told it.
        emulator: The emulator's address inside the cluster; empty for Google's own.
    """

    storage: str
    emulator: str

    @classmethod
    def of(cls, objects: Sequence[Object]) -> "StorageLocation":
        """What a job's ConfigMap and its containers' environment say."""
        told: dict[str, str] = {}
        for one in objects:
            if one["kind"] == "ConfigMap":
                told |= one.get("data") or {}
            for container in _containers(one):
                pairs = container.get("env") or []
                told |= {pair["name"]: pair["value"] for pair in pairs if "value" in pair}
        return cls(told.get("QFLEET_STORAGE", ""), told.get(EMULATOR, ""))


def _containers(thing: Any) -> Iterator[Object]:
    """All containers in an object, wherever its kind keeps the pod's template."""
    if isinstance(thing, dict):
        yield from thing.get("containers") or []
        for value in thing.values():
            yield from _containers(value)


@contextlib.contextmanager
def open_storage(cluster: KubeClient, place: StorageLocation) -> Iterator[StoragePath]:
    """STORAGE as a path that can be read here.

    Raises:
        NotThereYet: The cluster's own storage is still to be made.
        ClusterError: It can't be reached from this machine.
        StorageError, StorageUnavailable: No bucket, no permission, no answer.
    """
    storage.limit_retries(READ_SECONDS)
    if not place.storage.startswith("gs://"):
        raise ClusterError(
            f"STORAGE={place.storage} is a folder in the pods, which this machine does not see"
        )
    if not place.emulator:
        os.environ.pop(EMULATOR, None)  # another one's
        yield storage.path(place.storage)
        return
    address = re.fullmatch(r"https?://([^./:]+)[^/:]*:(\d+)/?", place.emulator)
    if address is None:
        raise ClusterError(f"{EMULATOR}={place.emulator} is no address of a Service")
    service, port = address[1], int(address[2])
    if cluster.get("Service", service) is None:
        raise StorageNotReady(
            f"there is no storage in namespace {cluster.namespace} yet: `make training TARGET=k8s`"
            " makes it"
        )
    with forward_port(cluster, service, port) as way:
        os.environ[EMULATOR] = f"http://127.0.0.1:{way.port}"
        yield storage.path(place.storage)
