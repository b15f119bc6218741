"""Each state that a job's pods pass through, read in a thread.

A deleted pod may have been replaced between two looks at the cluster. The last state that the API
server reports of it contains the reason.
"""

import queue
import threading
import time

import urllib3

from common.errors import QfleetError
from launch.job import Pod
from launch.kube_client import KubeClient

RECONNECT_SECONDS = 1.0


class PodWatch:
    """Watches the pods of a label selector.

    Args:
        cluster: The pods' cluster.
        labels: The label selector.
    """

    def __init__(self, cluster: KubeClient, labels: str) -> None:
        self._cluster, self._labels = cluster, labels
        self._changes: queue.SimpleQueue[Pod] = queue.SimpleQueue()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            try:
                for thing in self._cluster.watch("Pod", self._labels):
                    self._changes.put(Pod(thing))
            except (urllib3.exceptions.HTTPError, OSError, ValueError):
                pass  # the server closes watches now and then; a new one starts with all pods
            except QfleetError:
                return  # without the right to watch, lists of pods must do
            time.sleep(RECONNECT_SECONDS)

    def take(self) -> list[Pod]:
        """Return the states since the last call, in order."""
        return [self._changes.get() for _ in range(self._changes.qsize())]
