"""`launch storage`: STORAGE of the cluster's jobs, for a program of this machine."""

import os
import sys
import time

from common import events
from common.errors import ClusterError
from common.settings import Settings
from common.storage import EMULATOR
from launch import apply, cluster_storage, manifests
from launch.commands import select
from launch.kube_client import KubeClient
from launch.pods import RUN

START_SECONDS = 120.0
"""Longest time for a new storage emulator to start; its image may have to be pulled."""

RETRY_SECONDS = 2.0


def hold_storage(settings: Settings) -> int:
    """Create the storage emulator if the overlay has one, and forward its port until stdin ends.

    The event `storage_open` names STORAGE and the address of the emulator.

    Raises:
        ClusterError: The storage can't be reached.
    """
    build = manifests.build(settings)
    cluster = KubeClient.connect(settings)
    cluster.check()
    select.engines(cluster, settings)
    location = build.storage
    if location.emulator and not settings.cluster.dry_run:
        shared = [one for one in build.objects if RUN not in (one["metadata"].get("labels") or {})]
        apply.apply_all(cluster, shared)
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with cluster_storage.open_storage(cluster, location):
                emulator = os.environ.get(EMULATOR, "") if location.emulator else ""
                events.emit(
                    "storage_open", location.storage, storage=location.storage, emulator=emulator
                )
                sys.stdin.read()
                return 0
        except ClusterError:
            if not location.emulator or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_SECONDS)
