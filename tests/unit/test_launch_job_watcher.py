"""Following a job, with recorded responses of the API and a fake clock."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from common.errors import ClusterError
from common.events import Event
from launch import api_errors, log_stream, startup
from launch.commands import status
from launch.diagnosis import BRIEF_WAIT_SECONDS
from launch.job_watcher import JobWatcher, for_cluster


class FakeJobCluster:
    """A cluster with recorded responses."""

    def __init__(self, job: dict[str, Any], pods: list[Any], events: dict[str, list[Any]]) -> None:
        self.job, self.pods, self.events = job, pods, events

    def get(self, kind: str, name: str) -> dict[str, Any]:
        return self.job

    def list(self, kind: str, labels: str = "", fields: str = "") -> list[Any]:
        return self.pods if kind == "Pod" else self.events.get(fields.partition("=")[2], [])

    def watch(self, kind: str, labels: str) -> Iterator[Any]:
        raise api_errors.Forbidden("not recorded")


class RecordingConsole:
    """A console that keeps its lines and events."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.events: list[Event] = []

    def print(self, text: str) -> None:
        self.lines.append(text)

    def show(self, event: Event) -> None:
        self.events.append(event)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the machine's clock: a list of one number, in seconds."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def job(replicas: int = 2, configured: int = 2) -> dict[str, Any]:
    """A TFJob whose pods are configured for this number of workers."""
    env = [{"name": "QFLEET_WORKERS", "value": str(configured)}]
    template = {"spec": {"containers": [{"name": "tensorflow", "env": env}]}}
    return {
        "kind": "TFJob",
        "metadata": {"name": "qcnn", "uid": "job"},
        "spec": {"tfReplicaSpecs": {"Worker": {"replicas": replicas, "template": template}}},
        "status": {"conditions": [{"type": "Created", "status": "True"}]},
    }


def waiting() -> dict[str, Any]:
    """A pod that can't be scheduled."""
    condition = {"type": "PodScheduled", "status": "False", "message": "0/1: 1 Insufficient cpu."}
    labels = {"training.kubeflow.org/replica-index": "0"}
    return {
        "metadata": {"name": "qcnn-worker-0", "uid": "pod", "labels": labels},
        "spec": {"containers": [{"name": "tensorflow"}]},
        "status": {"conditions": [condition]},
    }


def event(reason: str, second: int, message: str = "") -> dict[str, Any]:
    """An event that occurred last in this second."""
    at = f"2026-01-01T00:00:{second:02}Z"
    return {"reason": reason, "message": message, "lastTimestamp": at}


def follow(cluster: Any, console: Any, *, again: bool = False) -> JobWatcher:
    """A watcher of a job whose pods may wait one minute to be scheduled."""
    return JobWatcher(cluster, "TFJob", "qcnn", console, 60, again=again)


def test_watcher_following_again_ignores_earlier_refusal(clock: list[float]) -> None:
    refused = event("FailedCreatePod", 1, "pods is forbidden: exceeded quota: q, requested: p=1")
    cluster, console = FakeJobCluster(job(), [], {"job": [refused]}), RecordingConsole()
    one = follow(cluster, console, again=True)
    one._poll()
    clock[0] = BRIEF_WAIT_SECONDS + 1
    one._poll()
    assert "quota q" in console.lines[-1]
    cluster.events["job"] = [refused, {**refused, "lastTimestamp": "2026-01-01T00:00:09Z"}]
    one._poll()
    clock[0] += BRIEF_WAIT_SECONDS
    with pytest.raises(ClusterError, match="quota q"):
        one._poll()


def test_watcher_waits_for_autoscaler_with_a_limit(clock: list[float]) -> None:
    events = {"pod": [event("TriggeredScaleUp", 1)]}
    cluster, console = FakeJobCluster(job(), [waiting()], events), RecordingConsole()
    one = follow(cluster, console)
    one._poll()
    assert console.lines[-1].endswith("the autoscaler is adding a node; waiting")
    clock[0] = startup.SCALE_UP_SECONDS - 1
    one._poll()
    clock[0] += 1
    with pytest.raises(ClusterError, match="can't be scheduled"):
        one._poll()


def test_watcher_does_not_wait_for_autoscaler_that_gave_up(clock: list[float]) -> None:
    events = {"pod": [event("NotTriggerScaleUp", 2), event("TriggeredScaleUp", 1)]}
    one = follow(FakeJobCluster(job(), [waiting()], events), RecordingConsole())
    one._poll()
    clock[0] = 60
    with pytest.raises(ClusterError, match="can't be scheduled"):
        one._poll()


def test_watcher_reports_changed_replicas_once() -> None:
    cluster, console = FakeJobCluster(job(), [], {}), RecordingConsole()
    one = follow(cluster, console)
    one._poll()
    assert len(console.lines) == 1
    cluster.job = job(replicas=3, configured=2)
    one._poll()
    one._poll()
    (report,) = console.lines[1:]
    assert "was changed to WORKERS=3" in report
    assert (
        "configured for WORKERS=2: run `.venv-launch/bin/python -m qfleet cluster stop qcnn`"
        in report
    )
    assert report.endswith("WORKERS=3`")


def test_status_reports_changed_replicas() -> None:
    cluster: Any = FakeJobCluster(job(replicas=1, configured=2), [], {})
    (report,) = status._explanations(cluster, cluster.job, [])
    assert "was changed to WORKERS=1" in report
    assert status._explanations(cluster, job(), []) == []


def indexed(conditions: list[str]) -> dict[str, Any]:
    """An Indexed Job of two pods."""
    return {
        "kind": "Job",
        "metadata": {"name": "inference-qcnn", "uid": "job"},
        "spec": {"completions": 2, "completionMode": "Indexed"},
        "status": {"conditions": [{"type": c, "status": "True"} for c in conditions]},
    }


def pod(index: int, uid: str, second: int, code: int | None = None, message: str = "") -> Any:
    """A pod of that Job: running, or ended."""
    state: dict[str, Any] = {"running": {}}
    if code is not None:
        state = {"terminated": {"exitCode": code, "message": message}}
    return {
        "metadata": {
            "name": f"inference-qcnn-{index}-{uid}",
            "uid": uid,
            "creationTimestamp": f"2026-01-01T00:00:{second:02}Z",
            "labels": {"batch.kubernetes.io/job-completion-index": str(index)},
        },
        "spec": {"containers": [{"name": "inference"}]},
        "status": {"containerStatuses": [{"name": "inference", "state": state}]},
    }


@pytest.fixture
def logs_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods whose logs were opened, in order; no log is read."""
    read: list[str] = []

    class FakeLogStream:
        def __init__(self, cluster: Any, pod: Any, received: Any, last: int | None) -> None:
            read.append(pod.uid)
            self.key = (pod.uid, pod.restarts)

        def renew(self, pod: Any) -> None:
            pass

        def finish(self, timeout_seconds: float) -> None:
            pass

    monkeypatch.setattr(log_stream, "LogStream", FakeLogStream)
    return read


def test_watcher_of_indexed_job_reports_each_loss_once(logs_read: list[str]) -> None:
    cluster, console = (
        FakeJobCluster(indexed([]), [pod(0, "a", 0), pod(1, "b", 0)], {}),
        RecordingConsole(),
    )
    one = JobWatcher(cluster, "Job", "inference-qcnn", console, 60)
    one._poll()
    cluster.pods = [pod(0, "a", 0), pod(1, "b", 0, 137)]
    one._poll()
    # A Job keeps the failed pod next to its replacement.
    cluster.pods = [pod(1, "c", 9), pod(0, "a", 0, 0), pod(1, "b", 0, 137)]
    for _ in range(3):
        one._poll()
    report = "worker 1 was killed by SIGKILL; restarting that worker only"
    assert [line for line in console.lines if "restarting" in line] == [report]
    assert logs_read == ["a", "b", "c"]


def test_watcher_of_jobset_reports_the_first_lost_worker(logs_read: list[str]) -> None:
    found = {**indexed([]), "kind": "JobSet", "spec": {"replicatedJobs": []}}
    both = [pod(0, "a", 0), pod(1, "b", 0)]
    cluster, console = FakeJobCluster(found, both, {}), RecordingConsole()
    one = JobWatcher(cluster, "JobSet", "qfleet-qcnn", console, 60)
    one._poll()
    cluster.pods = [pod(0, "a", 0), pod(1, "b", 0, 137)]
    one._poll()
    other = pod(0, "a", 0)  # deleted, as the Job has failed
    other["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
    cluster.pods = [other]
    one._poll()
    cluster.pods = [pod(0, "c", 9), pod(1, "d", 9)]
    for _ in range(3):
        one._poll()
    report = "worker 1 was killed by SIGKILL; restarting all workers"
    assert [line for line in console.lines if "restarting" in line] == [report]


def test_outcome_of_indexed_job_is_message_of_decisive_pod(logs_read: list[str]) -> None:
    message = "weights.h5 was altered"
    pods = [pod(0, "a", 0, 137), pod(1, "b", 0, 2, message), pod(0, "c", 9)]
    failed = JobWatcher(
        FakeJobCluster(indexed(["Failed"]), pods, {}),
        "Job",
        "inference-qcnn",
        RecordingConsole(),
        60,
    )
    ended = failed._poll()
    assert ended
    assert (ended.code, ended.sentence) == (2, f"job inference-qcnn Failed: worker 1: {message}")
    lost = pod(0, "a", 0, 143, "stopped by SIGTERM")
    pods = [lost, pod(0, "c", 9, 0), pod(1, "b", 0, 0, "20 predictions")]
    done = JobWatcher(
        FakeJobCluster(indexed(["Complete"]), pods, {}),
        "Job",
        "inference-qcnn",
        RecordingConsole(),
        60,
    )
    ended = done._poll()
    assert ended
    assert ended.sentence == "job inference-qcnn Succeeded: 20 predictions"


def test_for_cluster_adds_target_to_commands() -> None:
    commands = [
        "make inference RUN=a",
        "make tensorboard RUN=a",
        "make plan RUN=a",
        "qfleet infer RUN=b",
        ".venv/bin/python -m qfleet report RUN=a",  # of a report that is in a bucket
    ]
    fields = {"run": "a", "storage": "gs://b", "metrics": {}, "commands": commands}
    found = for_cluster(Event("run_finished", 1.0, 0, "done", fields))
    assert found.items("commands") == [
        "make inference TARGET=k8s RUN=a",
        "make tensorboard TARGET=k8s",
        "make plan RUN=a",
        "make inference TARGET=k8s RUN=b",
    ]
    plain = Event("epoch", 1.0, 0, "", {"epoch": 1, "epochs": 2})
    assert for_cluster(plain) is plain
