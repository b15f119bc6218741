"""Reading a container's log: each line once, whatever the node says in between."""

import queue
from collections.abc import Iterator
from typing import Any

from launch.job import Pod
from launch.log_stream import Lines, LogStream


class Recorded:
    """A cluster whose log has been read in these parts, a connection each."""

    def __init__(self, *parts: list[str]) -> None:
        self.parts = list(parts)

    def log(self, pod: str, container: str, *, follow: bool, last: int | None) -> Iterator[str]:
        yield from self.parts.pop(0)


def test_a_line_without_a_time_is_passed_through_once() -> None:
    pod = Pod(
        {
            "metadata": {"name": "qcnn-worker-0", "uid": "u"},
            "spec": {"containers": [{"name": "tensorflow"}]},
        }
    )
    lost = "unable to retrieve container logs for containerd://1a2b"
    first, second = "2026-01-01T00:00:01Z epoch 1", "2026-01-01T00:00:02Z epoch 2"
    cluster: Any = Recorded([lost], [lost], [first, lost], [first, second])
    lines: Lines = queue.Queue()
    tail = LogStream(cluster, pod, lines, prefix="> ")
    for _ in range(3):
        tail.finish(seconds=10)
        tail.renew(pod)
    tail.finish(seconds=10)
    assert cluster.parts == []
    told = [lines.get_nowait() for _ in range(lines.qsize())]
    assert told == [f"> {lost}", "> epoch 1", "> epoch 2"]
