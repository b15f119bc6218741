"""Each state that a job's pods pass through, read beside what the client does otherwise.

A pod that is deleted may be gone, and another in its place, between two looks; the last that the
API server says of it tells why.
"""

import queue
import threading
import time

import urllib3

from common.errors import QfleetError
from launch.job import Pod
from launch.kube_client import KubeClient

PAUSE_SECONDS = 1.0


class PodWatch:
    """Watches the pods that a selector names, in a thread of its own.

    Args:
        cluster: Where they are.
        labels: The label selector.
    """

    def __init__(self, cluster: KubeClient, labels: str) -> None:
        self._cluster, self._labels = cluster, labels
        self._seen: queue.SimpleQueue[Pod] = queue.SimpleQueue()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            try:
                for thing in self._cluster.watch("Pod", self._labels):
                    self._seen.put(Pod(thing))
            except (urllib3.exceptions.HTTPError, OSError, ValueError):
                pass  # the server closes a watch now and then; a new one begins with what is there
            except QfleetError:
                return  # who may not watch has the looks alone
            time.sleep(PAUSE_SECONDS)

    def take(self) -> list[Pod]:
        """What has changed since the last call, in order."""
        return [self._seen.get() for _ in range(self._seen.qsize())]
