"""Reading a container's log: each line once, as events."""

import queue
from collections.abc import Iterator
from typing import Any

from launch.job import Pod
from launch.log_stream import Events, LogStream, read_line


class FakeLogCluster:
    """A cluster whose log arrives in these parts, one per connection."""

    def __init__(self, *parts: list[str]) -> None:
        self.parts = list(parts)

    def log(self, pod: str, container: str, *, follow: bool, last: int | None) -> Iterator[str]:
        yield from self.parts.pop(0)


POD = Pod(
    {
        "metadata": {
            "name": "qcnn-worker-1",
            "uid": "u",
            "labels": {"training.kubeflow.org/replica-index": "1"},
        },
        "spec": {"containers": [{"name": "tensorflow"}]},
    }
)


def test_log_stream_passes_on_each_line_once() -> None:
    lost = "unable to retrieve container logs for containerd://1a2b"
    first, second = "2026-01-01T00:00:01Z epoch 1", "2026-01-01T00:00:02Z epoch 2"
    cluster: Any = FakeLogCluster([lost], [lost], [first, lost], [first, second])
    received: Events = queue.Queue()
    stream = LogStream(cluster, POD, received)
    for _ in range(3):
        stream.finish(timeout_seconds=10)
        stream.renew(POD)
    stream.finish(timeout_seconds=10)
    assert cluster.parts == []
    found = [received.get_nowait() for _ in range(received.qsize())]
    assert [one.event.message for one in found] == [lost, "epoch 1", "epoch 2"]
    assert {(one.rank, one.event.kind, one.event.rank) for one in found} == {(1, "log", 1)}


def test_read_line_parses_events_and_foreign_text() -> None:
    line = '{"event": "epoch", "time": 1.5, "message": "epoch 2/9", "epoch": 2, "epochs": 9}'
    event = read_line(line, 1)
    assert (event.kind, event.rank, event.integer("epoch")) == ("epoch", None, 2)
    assert (read_line("text", 1).kind, read_line("text", 1).rank) == ("log", 1)
