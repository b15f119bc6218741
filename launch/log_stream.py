"""A container's log as it grows, read in a thread: its lines as events."""

import queue
import threading
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import urllib3

from common import events
from common.errors import QfleetError
from common.events import Event
from launch.job import Pod
from launch.kube_client import KubeClient


class Received(NamedTuple):
    """An event of a pod.

    Args:
        event: The event; its own rank may be missing.
        rank: The worker whose log it was read from.
    """

    event: Event
    rank: int | None


Events = queue.Queue[Received]


def read_line(line: str, rank: int | None) -> Event:
    """Return the event in a line of a pod's log; a log event for a line of foreign text.

    Args:
        line: The line.
        rank: The worker whose log it is in.
    """
    return events.parse(line) or events.foreign(line, rank=rank)


class LogStream:
    """Reads a container's events into a queue, in a thread.

    Args:
        cluster: The pod's cluster.
        pod: The pod.
        received: The queue.
        last: Start with this many of the existing lines; None starts with the first line.
    """

    def __init__(
        self, cluster: KubeClient, pod: Pod, received: Events, last: int | None = None
    ) -> None:
        self.key = (pod.uid, pod.restarts)
        self._cluster, self._pod, self._received = cluster, pod, received
        self._tail_lines = last
        self._read_to: datetime | None = None
        self._untimed = ""
        self._complete = False
        self._start()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        read_to, pod = self._read_to, self._pod
        last = self._tail_lines if read_to is None else None
        try:
            for line in self._cluster.log(pod.name, pod.container, follow=True, last=last):
                stamp, _, text = line.partition(" ")
                try:
                    when = datetime.fromisoformat(stamp)
                except ValueError:  # a line of the node's own, for example that there is no log yet
                    self._pass_on_untimed(line)
                    continue
                if read_to is not None and when <= read_to:
                    continue  # received before the connection broke
                self._read_to = when
                self._put(read_line(text, pod.index))
        except (urllib3.exceptions.HTTPError, OSError):
            return  # `renew` continues after the last line
        except QfleetError as error:
            self._put(events.foreign(f"(log can't be read: {error})", rank=pod.index))
            self._complete = True

    def _pass_on_untimed(self, line: str) -> None:
        """Pass on a line without a time, unless it repeats the one before."""
        if line != self._untimed:
            self._put(events.foreign(line, rank=self._pod.index))
        self._untimed = line

    def _put(self, event: Event) -> None:
        self._received.put(Received(event, self._pod.index))

    def renew(self, pod: Pod) -> None:
        """Connect again if the connection broke while the container runs.

        Args:
            pod: The current state of the same pod.
        """
        if not self._thread.is_alive() and not self._complete:
            self._complete = pod.terminated is not None  # then this is the last connection
            self._start()

    def finish(self, timeout_seconds: float) -> None:
        """Wait until the whole log has been read, or the time is over."""
        self._thread.join(timeout_seconds)


class LogFollower:
    """Reads the logs of several pods, each again when its container was replaced.

    Args:
        cluster: The pods' cluster.
        last: Start with this many of the existing lines of each worker; None with the first.
    """

    def __init__(self, cluster: KubeClient, last: int | None = None) -> None:
        self.received: Events = queue.Queue()
        self._cluster, self._last = cluster, last
        self._streams: dict[str, LogStream] = {}  # worker's title -> its stream

    @property
    def has_read(self) -> bool:
        """True once a log has been opened."""
        return bool(self._streams)

    def follow(self, pods: Sequence[Pod]) -> None:
        """Read the logs of these pods whose containers have started."""
        for pod in pods:
            if pod.started:
                self._follow(pod)

    def _follow(self, pod: Pod) -> None:
        title = pod.title if pod.index is not None else ""
        stream = self._streams.get(title)
        if stream and stream.key == (pod.uid, pod.restarts):
            stream.renew(pod)
            return
        if stream:
            stream.finish(timeout_seconds=2)
        last = None if stream else self._last
        self._streams[title] = LogStream(self._cluster, pod, self.received, last=last)

    def finish(self, timeout_seconds: float) -> None:
        """Wait for each log to be read to its end, each at most this long."""
        for stream in self._streams.values():
            stream.finish(timeout_seconds)
