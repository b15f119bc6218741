"""What keeps a pod from starting and why one went away, said from what the API says."""

from typing import Any

import pytest

from common.errors import DeadlineReached
from launch import api_errors, diagnosis
from launch.apply import differences
from launch.job import Pod, age, finished, has_run, phase, pods, workers
from launch.outcome import outcome_of


def pod(index: int | None = 1, **status: Any) -> Pod:
    """A worker's pod with this status."""
    labels = {} if index is None else {"training.kubeflow.org/replica-index": str(index)}
    resources = {"limits": {"memory": "4Gi"}, "requests": {"cpu": "2", "memory": "4Gi"}}
    container = {"name": "tensorflow", "image": "r/qfleet-worker:1", "resources": resources}
    metadata = {"name": f"qcnn-worker-{index}", "uid": f"u{index}", "labels": labels}
    if status.pop("leaving", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return Pod({"metadata": metadata, "spec": {"containers": [container]}, "status": status})


def held(**state: Any) -> Pod:
    """A pod whose container is in this state."""
    return pod(containerStatuses=[{"name": "tensorflow", "state": state, "restartCount": 0}])


def ended(code: int, message: str = "", reason: str = "Error", index: int = 1, at: str = "") -> Pod:
    """A pod whose container has ended."""
    state = {
        "terminated": {"exitCode": code, "message": message, "reason": reason, "finishedAt": at}
    }
    return pod(index, containerStatuses=[{"name": "tensorflow", "state": state}])


def unschedulable(text: str) -> Pod:
    """A pod that the scheduler has no place for."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return pod(conditions=[{**condition, "message": text}])


PULL = 'Back-off pulling image "x": ErrImagePull: rpc error: '


@pytest.mark.parametrize(
    ("seen", "told", "patience"),
    [
        (held(waiting={"reason": "InvalidImageName"}), "is no image's name", diagnosis.AT_ONCE),
        (
            held(
                waiting={
                    "reason": "ImagePullBackOff",
                    "message": PULL + "code = NotFound: not found",
                }
            ),
            "(there is no such image)",
            diagnosis.AT_ONCE,
        ),
        (
            held(waiting={"reason": "ErrImagePull", "message": PULL + "401 unauthorized: denied"}),
            "without permission",
            diagnosis.AT_ONCE,
        ),
        (
            held(waiting={"reason": "ErrImagePull", "message": PULL + "dial tcp: i/o timeout"}),
            "its registry does not answer",
            diagnosis.SOON,
        ),
        (held(waiting={"reason": "CrashLoopBackOff"}), "ends again and again", diagnosis.AT_ONCE),
        (
            held(terminated={"reason": "StartError", "exitCode": 128, "message": "no such file"}),
            "can't be started from image r/qfleet-worker:1 (no such file)",
            diagnosis.AT_ONCE,
        ),
        (
            unschedulable("0/3 nodes are available: 3 Insufficient memory. preemption: 0/3"),
            "no node has memory (it asks for 4Gi): lower MEMORY",
            diagnosis.PLACE,
        ),
        (unschedulable("0/1 nodes: 1 Insufficient nvidia.com/gpu."), "GPUs", diagnosis.PLACE),
        (
            unschedulable("0/2 nodes are available: 2 node(s) had untolerated taint(s)."),
            "add a toleration",
            diagnosis.PLACE,
        ),
        (unschedulable("a new kind of reason"), "a new kind of reason", diagnosis.PLACE),
    ],
)
def test_what_keeps_a_pod_from_starting_is_one_sentence(
    seen: Pod, told: str, patience: str
) -> None:
    found = diagnosis.obstacle(seen)
    assert found is not None
    assert found.sentence.startswith("worker 1 ") or "image" in found.sentence
    assert told in found.sentence
    assert "\n" not in found.sentence
    assert found.patience == patience


def test_nothing_keeps_a_pod_that_runs_or_leaves() -> None:
    assert diagnosis.obstacle(held(running={"startedAt": "now"})) is None
    assert diagnosis.obstacle(held(waiting={"reason": "ContainerCreating"})) is None
    assert diagnosis.obstacle(pod(leaving=True)) is None


def test_a_volume_that_is_missing_is_told_by_its_event() -> None:
    event = {"type": "Warning", "reason": "FailedMount", "message": 'configmap "m" not found'}
    found = diagnosis.obstacle(held(waiting={"reason": "ContainerCreating"}), [event])
    assert found is not None
    assert 'configmap "m" not found' in found.sentence


def event(reason: str, second: int, message: str = "") -> dict[str, Any]:
    """An event that was said last in this second."""
    at = f"2026-01-01T00:00:{second:02}Z"
    return {"reason": reason, "message": message, "lastTimestamp": at}


QUOTA = 'pods "qcnn-worker-1" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, '
QUOTA += "limited: pods=1"


def test_a_pod_that_was_refused_is_no_news_once_one_was_made() -> None:
    refused, made = event("FailedCreatePod", 1, QUOTA), event("SuccessfulCreatePod", 2)
    assert diagnosis.not_made(diagnosis.sort_events([made, refused])) is None
    assert diagnosis.not_made([]) is None
    found = diagnosis.not_made(diagnosis.sort_events([event("FailedCreatePod", 3, QUOTA), made]))
    assert found is not None
    assert "quota" in found.sentence
    assert found.patience == diagnosis.SOON


def test_of_two_pods_in_one_second_the_refused_one_is_told() -> None:
    both = [event("FailedCreate", 2, QUOTA), event("SuccessfulCreate", 2)]
    assert diagnosis.not_made(diagnosis.sort_events(both)) is not None


def test_a_refusal_of_before_ends_nobody_soon() -> None:
    old = event("FailedCreatePod", 1, QUOTA)
    found = diagnosis.not_made([old], since=diagnosis.event_time(old))
    assert found is not None
    assert found.patience == diagnosis.PLACE
    again = diagnosis.not_made(
        [event("FailedCreatePod", 2, QUOTA)], since=diagnosis.event_time(old)
    )
    assert again is not None
    assert again.patience == diagnosis.SOON


def test_an_event_has_its_time_where_its_kind_of_reporter_says_it() -> None:
    made = {"metadata": {"creationTimestamp": "2026-01-01T00:00:01Z"}, "lastTimestamp": None}
    first = {**made, "eventTime": "2026-01-01T00:00:02.5Z"}
    series = {**first, "series": {"lastObservedTime": "2026-01-01T00:00:03.5Z"}}
    assert diagnosis.sort_events([series, first, made]) == [made, first, series]


def test_the_autoscalers_last_word_says_whether_a_node_comes() -> None:
    comes, none = event("TriggeredScaleUp", 1), event("NotTriggerScaleUp", 2)
    assert diagnosis.scales_up([comes, event("FailedScheduling", 3)])
    assert not diagnosis.scales_up([comes, none])
    assert diagnosis.scales_up([none, event("TriggeredScaleUp", 3)])
    assert not diagnosis.scales_up([])


def deleted(code: int, at: str) -> Pod:
    """A pod that was told to go 30 s before 2026; its container ended at `at`."""
    gone = ended(code, at=at).object
    deletion = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return Pod({**gone, "metadata": {**gone["metadata"], **deletion}})


def disrupted(reason: str) -> Pod:
    return pod(conditions=[{"type": "DisruptionTarget", "status": "True", "reason": reason}])


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (disrupted("EvictionByEvictionAPI"), "was evicted (a node is being drained)"),
        (disrupted("PreemptionByScheduler"), "made room for a pod of higher priority"),
        (disrupted("SomethingNew"), "was disrupted"),
        (pod(reason="Evicted", message="low on memory"), "was evicted (low on memory)"),
        (ended(137, reason="OOMKilled"), "used more than its memory of 4Gi and was killed"),
        (ended(137), "was killed (SIGKILL)"),
        (ended(143), "was told to stop"),
        (ended(145, "storage does not answer"), "storage does not answer"),
        (pod(leaving=True), "was deleted"),
        (deleted(143, at="2026-01-01T00:00:00Z"), "was deleted"),
        (deleted(137, at="2025-12-31T23:59:20Z"), "was killed (SIGKILL)"),
    ],
)
def test_why_a_worker_went_away(seen: Pod, told: str) -> None:
    assert diagnosis.disruption_cause(seen).startswith(told)


def test_who_only_lost_a_peer_is_not_the_cause() -> None:
    assert diagnosis.disruption_cause(ended(138, "worker 1 lost a peer")) == ""
    assert diagnosis.disruption_cause(ended(0)) == ""


def tfjob(*conditions: str, message: str = "") -> dict[str, Any]:
    told = [{"type": one, "status": "True", "message": message} for one in conditions]
    spec = {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}
    return {
        "kind": "TFJob",
        "metadata": {"name": "qcnn"},
        "spec": spec,
        "status": {"conditions": told},
    }


def test_a_job_says_its_phase() -> None:
    assert phase({**tfjob(), "status": None}) == "Pending"
    assert phase(tfjob("Created", "Running")) == "Running"
    assert phase(tfjob("Created", "Running", "Failed")) == "Failed"
    job = {"kind": "Job", "metadata": {"name": "x"}, "spec": {}, "status": {"active": 1}}
    assert phase(job) == "Running"
    assert (
        phase({**job, "status": {"conditions": [{"type": "Complete", "status": "True"}]}})
        == "Succeeded"
    )
    assert workers(tfjob()) == 3
    assert has_run(tfjob("Created", "Running"))
    assert not has_run(tfjob("Created"))
    assert not finished(tfjob("Created", "Running"))


def test_the_code_that_failed_a_job_is_the_lowest_not_that_of_who_lost_a_peer() -> None:
    failed = tfjob("Created", "Failed")
    both = [ended(138, "lost a peer", index=0, at="1"), ended(2, "SEED=x is not allowed", at="2")]
    found = outcome_of(failed, both)
    assert (found.code, found.sentence) == (2, "job qcnn Failed: worker 1: SEED=x is not allowed")
    assert outcome_of(failed, []).code == 1
    late = tfjob(
        "Failed", message="Job x has failed because it was active longer than specified deadline"
    )
    late["status"]["conditions"][0]["reason"] = "TFJobFailed"
    assert outcome_of(late, []).code == DeadlineReached.exit_code
    assert outcome_of(tfjob("Succeeded"), [ended(0, "done in 3 s")]).sentence.endswith(
        "done in 3 s"
    )


def test_pods_stand_in_the_order_of_their_workers() -> None:
    assert [one.index for one in pods([pod(n).object for n in (10, 2, 0)])] == [0, 2, 10]


def test_an_age_is_told_in_its_largest_unit() -> None:
    assert age({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}).endswith("d")
    assert age({"metadata": {}}) == "0s"


def test_members_of_lists_are_compared_by_name() -> None:
    before = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "n": 1}
    after = {"env": [{"name": "B", "value": "3"}, {"name": "A", "value": "1"}], "m": True, "n": 1}
    assert differences(before, after) == [("env[B].value", "2", "3"), ("m", "unset", "True")]


class Answer(Exception):
    """What the kubernetes library raises: a status and a body."""

    def __init__(self, status: int, message: str) -> None:
        self.status, self.reason = status, ""
        self.body = f'{{"message": "{message}"}}'.encode()


@pytest.mark.parametrize(
    ("status", "message", "told"),
    [
        (401, "Unauthorized", "sign in again"),
        (422, "TFJob.kubeflow.org is invalid: spec", "takes no such TFJob"),
        (503, "etcd leader changed", "say the same again"),
        (403, "no rule known", "forbids to patch TFJob in namespace here: no rule known"),
        (
            500,
            "failed calling webhook validator.tfjob.training-operator.kubeflow.org: no endpoints",
            "does not run (its webhook does not answer)",
        ),
        (418, "a teapot", "418: a teapot"),
    ],
)
def test_what_an_api_server_refuses_is_one_sentence(status: int, message: str, told: str) -> None:
    error: Any = Answer(status, message)
    assert told in str(api_errors.of_api(error, "patch", "TFJob", "here"))
