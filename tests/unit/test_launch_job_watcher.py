"""What following a job does about what the API has said: recorded answers, and a clock."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from common.errors import ClusterError
from launch import api_errors, job_watcher
from launch.commands import status
from launch.job_watcher import JobWatcher


class Recorded:
    """A cluster that has answered so."""

    def __init__(self, job: dict[str, Any], pods: list[Any], events: dict[str, list[Any]]) -> None:
        self.job, self.pods, self.events = job, pods, events

    def get(self, kind: str, name: str) -> dict[str, Any]:
        return self.job

    def list(self, kind: str, labels: str = "", fields: str = "") -> list[Any]:
        return self.pods if kind == "Pod" else self.events.get(fields.partition("=")[2], [])

    def watch(self, kind: str, labels: str) -> Iterator[Any]:
        raise api_errors.Forbidden("not recorded")


class Said:
    """A screen that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    relay = say


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds, in place of the machine's."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def job(replicas: int = 2, told: int = 2) -> dict[str, Any]:
    """A TFJob that runs, whose template tells workers that they are so many."""
    env = [{"name": "QFLEET_WORKERS", "value": str(told)}]
    template = {"spec": {"containers": [{"name": "tensorflow", "env": env}]}}
    return {
        "kind": "TFJob",
        "metadata": {"name": "qcnn", "uid": "job"},
        "spec": {"tfReplicaSpecs": {"Worker": {"replicas": replicas, "template": template}}},
        "status": {"conditions": [{"type": "Created", "status": "True"}]},
    }


def waiting() -> dict[str, Any]:
    """A pod that no node takes."""
    condition = {"type": "PodScheduled", "status": "False", "message": "0/1: 1 Insufficient cpu."}
    labels = {"training.kubeflow.org/replica-index": "0"}
    return {
        "metadata": {"name": "qcnn-worker-0", "uid": "pod", "labels": labels},
        "spec": {"containers": [{"name": "tensorflow"}]},
        "status": {"conditions": [condition]},
    }


def event(reason: str, second: int, message: str = "") -> dict[str, Any]:
    """An event that was said last in this second."""
    at = f"2026-01-01T00:00:{second:02}Z"
    return {"reason": reason, "message": message, "lastTimestamp": at}


def follow(cluster: Any, said: Any, *, again: bool = False) -> JobWatcher:
    """The following of a job whose pods may wait a minute for a place."""
    return JobWatcher(cluster, "TFJob", "qcnn", said, 60, again=again)


def test_a_refusal_of_before_does_not_end_who_follows_again(clock: list[float]) -> None:
    refused = event("FailedCreatePod", 1, "pods is forbidden: exceeded quota: q, requested: p=1")
    cluster, said = Recorded(job(), [], {"job": [refused]}), Said()
    one = follow(cluster, said, again=True)
    one._look()
    clock[0] = job_watcher.SOON_SECONDS + 1
    one._look()
    assert "quota q" in said.lines[-1]
    cluster.events["job"] = [refused, {**refused, "lastTimestamp": "2026-01-01T00:00:09Z"}]
    one._look()
    clock[0] += job_watcher.SOON_SECONDS
    with pytest.raises(ClusterError, match="quota q"):
        one._look()


def test_a_node_that_the_autoscaler_makes_is_waited_for_but_not_for_ever(
    clock: list[float],
) -> None:
    events = {"pod": [event("TriggeredScaleUp", 1)]}
    cluster, said = Recorded(job(), [waiting()], events), Said()
    one = follow(cluster, said)
    one._look()
    assert said.lines[-1].endswith("the autoscaler makes a node; waiting")
    clock[0] = job_watcher.SCALE_UP_SECONDS - 1
    one._look()
    clock[0] += 1
    with pytest.raises(ClusterError, match="finds no place"):
        one._look()


def test_an_autoscaler_that_has_given_up_is_not_waited_for(clock: list[float]) -> None:
    events = {"pod": [event("NotTriggerScaleUp", 2), event("TriggeredScaleUp", 1)]}
    one = follow(Recorded(job(), [waiting()], events), Said())
    one._look()
    clock[0] = 60
    with pytest.raises(ClusterError, match="finds no place"):
        one._look()


def test_a_number_of_workers_that_somebody_changed_is_told_once_and_at_once() -> None:
    cluster, said = Recorded(job(), [], {}), Said()
    one = follow(cluster, said)
    one._look()
    assert len(said.lines) == 1
    cluster.job = job(replicas=3, told=2)
    one._look()
    one._look()
    (told,) = said.lines[1:]
    assert "was changed to WORKERS=3" in told
    assert "are told that they are 2: `python -m launch stop qcnn`, then `make training" in told
    assert told.endswith("WORKERS=3`")


def test_status_tells_a_changed_number_of_workers_too() -> None:
    cluster: Any = Recorded(job(replicas=1, told=2), [], {})
    (told,) = status._sentences(cluster, cluster.job, [])
    assert "was changed to WORKERS=1" in told
    assert status._sentences(cluster, job(), []) == []


def indexed(conditions: list[str]) -> dict[str, Any]:
    """An Indexed Job of two pods."""
    return {
        "kind": "Job",
        "metadata": {"name": "inference-qcnn", "uid": "job"},
        "spec": {"completions": 2, "completionMode": "Indexed"},
        "status": {"conditions": [{"type": c, "status": "True"} for c in conditions]},
    }


def pod(index: int, uid: str, second: int, code: int | None = None, word: str = "") -> Any:
    """A pod of that Job: running, or ended."""
    state: dict[str, Any] = {"running": {}}
    if code is not None:
        state = {"terminated": {"exitCode": code, "message": word}}
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
def tails(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods whose logs were read, in order, in place of reading them."""
    read: list[str] = []

    class Tail:
        def __init__(self, cluster: Any, pod: Any, lines: Any, last: int | None = None) -> None:
            read.append(pod.uid)
            self.key = (pod.uid, pod.restarts)

        def renew(self, pod: Any) -> None:
            pass

        def finish(self, seconds: float) -> None:
            pass

    monkeypatch.setattr(job_watcher, "Tail", Tail)
    return read


def test_of_an_indexed_job_each_lost_pod_is_told_once_and_every_log_is_read(
    tails: list[str],
) -> None:
    cluster, said = Recorded(indexed([]), [pod(0, "a", 0), pod(1, "b", 0)], {}), Said()
    one = JobWatcher(cluster, "Job", "inference-qcnn", said, 60)
    one._look()
    cluster.pods = [pod(0, "a", 0), pod(1, "b", 0, 137)]
    one._look()
    # A Job keeps the pod that failed beside its next.
    cluster.pods = [pod(1, "c", 9), pod(0, "a", 0, 0), pod(1, "b", 0, 137)]
    for _ in range(3):
        one._look()
    told = "worker 1 was killed (SIGKILL); it alone starts again"
    assert [line for line in said.lines if "again" in line] == [told]
    assert tails == ["a", "b", "c"]


def test_an_indexed_job_ends_with_the_word_of_the_pod_that_failed_or_merged(
    tails: list[str],
) -> None:
    word = "weights.h5 was altered"
    pods = [pod(0, "a", 0, 137), pod(1, "b", 0, 2, word), pod(0, "c", 9)]
    failed = JobWatcher(
        Recorded(indexed(["Failed"]), pods, {}), "Job", "inference-qcnn", Said(), 60
    )
    ended = failed._look()
    assert ended
    assert (ended.code, ended.sentence) == (2, f"job inference-qcnn Failed: worker 1: {word}")
    lost = pod(0, "a", 0, 143, "stopped by SIGTERM")
    pods = [lost, pod(0, "c", 9, 0), pod(1, "b", 0, 0, "20 examples answered")]
    done = JobWatcher(
        Recorded(indexed(["Complete"]), pods, {}), "Job", "inference-qcnn", Said(), 60
    )
    ended = done._look()
    assert ended
    assert ended.sentence == "job inference-qcnn Succeeded: 20 examples answered"
