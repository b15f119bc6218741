"""A container's log as it grows, read beside what the client does otherwise."""

import queue
import threading
from datetime import datetime

import urllib3

from common.errors import QfleetError
from launch.job import Pod
from launch.kube_client import KubeClient

Lines = queue.Queue[str]


class LogStream:
    """Reads a container's lines into a queue, in a thread of its own.

    Args:
        cluster: Where the pod is.
        pod: The pod.
        lines: Where its lines go.
        prefix: What is put before each.
        last: Begin with so many of the lines that there are; None is all.
    """

    def __init__(
        self, cluster: KubeClient, pod: Pod, lines: Lines, prefix: str = "", last: int | None = None
    ) -> None:
        self.key = (pod.uid, pod.restarts)
        self._cluster, self._pod, self._lines, self._prefix = cluster, pod, lines, prefix
        self._first = last
        self._read_to: datetime | None = None
        self._untimed = ""
        self._complete = False
        self._begin()

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        read_to, pod = self._read_to, self._pod
        first = self._first if read_to is None else None
        try:
            for line in self._cluster.log(pod.name, pod.container, follow=True, last=first):
                stamp, _, text = line.partition(" ")
                try:
                    when = datetime.fromisoformat(stamp)
                except ValueError:  # the node's own word, such as that it has no log (yet)
                    self._pass_on(line)
                    continue
                if read_to is not None and when <= read_to:
                    continue  # said before the connection broke
                self._read_to = when
                self._lines.put(self._prefix + text)
        except (urllib3.exceptions.HTTPError, OSError):
            return  # `renew` goes on where it broke
        except QfleetError as error:
            self._lines.put(f"{self._prefix}(its log can't be read: {error})")
            self._complete = True

    def _pass_on(self, line: str) -> None:
        """Tell a line without a time, but not each time that it is read again."""
        if line != self._untimed:
            self._lines.put(self._prefix + line)
        self._untimed = line

    def renew(self, pod: Pod) -> None:
        """Go on, if the connection broke while the container lives.

        Args:
            pod: The same pod as it is now.
        """
        if not self._thread.is_alive() and not self._complete:
            self._complete = pod.terminated is not None  # then this time is the last
            self._begin()

    def finish(self, seconds: float) -> None:
        """Wait until all that the container said has been read, but not for ever."""
        self._thread.join(seconds)
