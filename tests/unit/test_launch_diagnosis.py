"""Diagnosis of pods and jobs from objects as the API returns them."""

from typing import Any

import pytest

from common.errors import ClusterError, DeadlineReached
from launch import api_errors, diagnosis
from launch.api_errors import Forbidden, Invalid, Unreachable, WebhookTimeout
from launch.apply import action_line, differences
from launch.diagnosis import Wait
from launch.job import Pod, age, has_started, is_finished, phase, sorted_pods, worker_count
from launch.outcome import outcome_of


def pod(index: int | None = 1, **status: Any) -> Pod:
    """A worker's pod with this status."""
    labels = {} if index is None else {"training.kubeflow.org/replica-index": str(index)}
    resources = {"limits": {"memory": "4Gi"}, "requests": {"cpu": "2", "memory": "4Gi"}}
    container = {"name": "tensorflow", "image": "r/qfleet-worker:1", "resources": resources}
    metadata = {"name": f"qcnn-worker-{index}", "uid": f"u{index}", "labels": labels}
    if status.pop("terminating", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return Pod({"metadata": metadata, "spec": {"containers": [container]}, "status": status})


def in_state(**state: Any) -> Pod:
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
    ("seen", "part", "wait"),
    [
        (in_state(waiting={"reason": "InvalidImageName"}), "IMAGE=registry/name", Wait.NONE),
        (
            in_state(
                waiting={
                    "reason": "ImagePullBackOff",
                    "message": PULL + "code = NotFound: not found",
                }
            ),
            "(no such image)",
            Wait.NONE,
        ),
        (
            in_state(
                waiting={"reason": "ErrImagePull", "message": PULL + "401 unauthorized: denied"}
            ),
            "denies permission",
            Wait.NONE,
        ),
        (
            in_state(waiting={"reason": "ErrImagePull", "message": PULL + "dial tcp: i/o timeout"}),
            "the registry does not answer",
            Wait.BRIEF,
        ),
        (in_state(waiting={"reason": "CrashLoopBackOff"}), "fails repeatedly", Wait.NONE),
        (
            in_state(
                terminated={"reason": "StartError", "exitCode": 128, "message": "no such file"}
            ),
            "can't be started from image r/qfleet-worker:1 (no such file)",
            Wait.NONE,
        ),
        (
            unschedulable("0/3 nodes are available: 3 Insufficient memory. preemption: 0/3"),
            "no node has enough memory (requested: 4Gi): lower MEMORY",
            Wait.PLACEMENT,
        ),
        (unschedulable("0/1 nodes: 1 Insufficient nvidia.com/gpu."), "GPUs", Wait.PLACEMENT),
        (
            unschedulable("0/2 nodes are available: 2 node(s) had untolerated taint(s)."),
            "add a toleration",
            Wait.PLACEMENT,
        ),
        (unschedulable("a new kind of reason"), "a new kind of reason", Wait.PLACEMENT),
    ],
)
def test_find_obstacle_returns_cause_remedy_and_wait(seen: Pod, part: str, wait: Wait) -> None:
    found = diagnosis.find_obstacle(seen)
    assert found is not None
    assert found.sentence.startswith("worker 1 ") or "image" in found.sentence
    assert part in found.sentence
    assert "\n" not in found.sentence
    assert found.wait is wait


def test_find_obstacle_of_running_or_terminating_pod_is_none() -> None:
    assert diagnosis.find_obstacle(in_state(running={"startedAt": "now"})) is None
    assert diagnosis.find_obstacle(in_state(waiting={"reason": "ContainerCreating"})) is None
    assert diagnosis.find_obstacle(pod(terminating=True)) is None


def test_find_obstacle_reads_missing_volume_from_event() -> None:
    event = {"type": "Warning", "reason": "FailedMount", "message": 'configmap "m" not found'}
    found = diagnosis.find_obstacle(in_state(waiting={"reason": "ContainerCreating"}), [event])
    assert found is not None
    assert 'configmap "m" not found' in found.sentence


def event(reason: str, second: int, message: str = "") -> dict[str, Any]:
    """An event that occurred last in this second."""
    at = f"2026-01-01T00:00:{second:02}Z"
    return {"reason": reason, "message": message, "lastTimestamp": at}


QUOTA = 'pods "qcnn-worker-1" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, '
QUOTA += "limited: pods=1"


def test_creation_obstacle_is_gone_once_a_pod_was_created() -> None:
    refused, created = event("FailedCreatePod", 1, QUOTA), event("SuccessfulCreatePod", 2)
    assert diagnosis.creation_obstacle(diagnosis.sort_events([created, refused])) is None
    assert diagnosis.creation_obstacle([]) is None
    later = [event("FailedCreatePod", 3, QUOTA), created]
    found = diagnosis.creation_obstacle(diagnosis.sort_events(later))
    assert found is not None
    assert "quota" in found.sentence
    assert found.wait == Wait.BRIEF


def test_creation_obstacle_prefers_failure_in_same_second() -> None:
    both = [event("FailedCreate", 2, QUOTA), event("SuccessfulCreate", 2)]
    assert diagnosis.creation_obstacle(diagnosis.sort_events(both)) is not None


def test_creation_obstacle_of_earlier_event_waits_longer() -> None:
    old = event("FailedCreatePod", 1, QUOTA)
    found = diagnosis.creation_obstacle([old], since=diagnosis.event_time(old))
    assert found is not None
    assert found.wait == Wait.PLACEMENT
    again = diagnosis.creation_obstacle(
        [event("FailedCreatePod", 2, QUOTA)], since=diagnosis.event_time(old)
    )
    assert again is not None
    assert again.wait == Wait.BRIEF


def test_sort_events_reads_all_fields_of_time() -> None:
    created = {"metadata": {"creationTimestamp": "2026-01-01T00:00:01Z"}, "lastTimestamp": None}
    first = {**created, "eventTime": "2026-01-01T00:00:02.5Z"}
    series = {**first, "series": {"lastObservedTime": "2026-01-01T00:00:03.5Z"}}
    assert diagnosis.sort_events([series, first, created]) == [created, first, series]


def test_is_scaling_up_goes_by_latest_event() -> None:
    comes, none = event("TriggeredScaleUp", 1), event("NotTriggerScaleUp", 2)
    assert diagnosis.is_scaling_up([comes, event("FailedScheduling", 3)])
    assert not diagnosis.is_scaling_up([comes, none])
    assert diagnosis.is_scaling_up([none, event("TriggeredScaleUp", 3)])
    assert not diagnosis.is_scaling_up([])


def deleted(code: int, at: str) -> Pod:
    """A pod that was deleted 30 s before 2026; its container ended at `at`."""
    gone = ended(code, at=at).object
    deletion = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return Pod({**gone, "metadata": {**gone["metadata"], **deletion}})


def disrupted(reason: str) -> Pod:
    return pod(conditions=[{"type": "DisruptionTarget", "status": "True", "reason": reason}])


@pytest.mark.parametrize(
    ("seen", "cause"),
    [
        (disrupted("EvictionByEvictionAPI"), "was evicted (a node is being drained)"),
        (disrupted("PreemptionByScheduler"), "was preempted by a pod of higher priority"),
        (disrupted("SomethingNew"), "was disrupted"),
        (pod(reason="Evicted", message="low on memory"), "was evicted (low on memory)"),
        (ended(137, reason="OOMKilled"), "exceeded its memory limit of 4Gi and was killed"),
        (ended(137), "was killed by SIGKILL"),
        (ended(143), "was stopped by SIGTERM"),
        (ended(145, "storage does not answer"), "storage does not answer"),
        (pod(terminating=True), "was deleted"),
        (deleted(143, at="2026-01-01T00:00:00Z"), "was deleted"),
        (deleted(137, at="2025-12-31T23:59:20Z"), "was killed by SIGKILL"),
    ],
)
def test_disruption_cause_of_lost_worker(seen: Pod, cause: str) -> None:
    assert diagnosis.disruption_cause(seen).startswith(cause)


def test_disruption_cause_of_lost_peer_or_success_is_empty() -> None:
    assert diagnosis.disruption_cause(ended(138, "worker 1 lost a peer")) == ""
    assert diagnosis.disruption_cause(ended(0)) == ""


def tfjob(*conditions: str, message: str = "") -> dict[str, Any]:
    found = [{"type": one, "status": "True", "message": message} for one in conditions]
    spec = {"tfReplicaSpecs": {"Worker": {"replicas": 3}}}
    return {
        "kind": "TFJob",
        "metadata": {"name": "qcnn"},
        "spec": spec,
        "status": {"conditions": found},
    }


def test_phase_of_tfjob_and_job() -> None:
    assert phase({**tfjob(), "status": None}) == "Pending"
    assert phase(tfjob("Created", "Running")) == "Running"
    assert phase(tfjob("Created", "Running", "Failed")) == "Failed"
    job = {"kind": "Job", "metadata": {"name": "x"}, "spec": {}, "status": {"active": 1}}
    assert phase(job) == "Running"
    assert (
        phase({**job, "status": {"conditions": [{"type": "Complete", "status": "True"}]}})
        == "Succeeded"
    )
    assert worker_count(tfjob()) == 3
    assert has_started(tfjob("Created", "Running"))
    assert not has_started(tfjob("Created"))
    assert not is_finished(tfjob("Created", "Running"))


def test_outcome_blames_cause_rather_than_lost_peer() -> None:
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


def test_sorted_pods_are_in_order_of_rank() -> None:
    assert [one.index for one in sorted_pods([pod(n).object for n in (10, 2, 0)])] == [0, 2, 10]


def test_age_has_its_largest_unit() -> None:
    assert age({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}).endswith("d")
    assert age({"metadata": {}}) == "0s"


def test_differences_match_list_members_by_name() -> None:
    before = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "n": 1}
    after = {"env": [{"name": "B", "value": "3"}, {"name": "A", "value": "1"}], "m": True, "n": 1}
    assert differences(before, after) == [("env[B].value", "2", "3"), ("m", "unset", "True")]


def test_action_line_is_in_kubectl_style() -> None:
    assert action_line("TFJob", "qcnn", "created") == "tfjob/qcnn created"
    assert action_line("Job", "x", "recreated", dry_run=True) == "job/x recreated (dry run)"


class Response(Exception):
    """An error of the kubernetes library: a status and a body."""

    def __init__(self, status: int, message: str) -> None:
        self.status, self.reason = status, ""
        self.body = f'{{"message": "{message}"}}'.encode()


@pytest.mark.parametrize(
    ("status", "message", "kind", "part"),
    [
        (401, "Unauthorized", ClusterError, "authentication failed (401"),
        (422, "TFJob.kubeflow.org is invalid: spec", Invalid, "rejects this TFJob"),
        (503, "etcd leader changed", Unreachable, "retry the command"),
        (403, "no rule known", Forbidden, "can't patch TFJob in namespace here: no rule known"),
        (
            500,
            "failed calling webhook validator.tfjob.training-operator.kubeflow.org: no endpoints",
            ClusterError,
            "kubectl get pods -n kubeflow",
        ),
        (
            500,
            "failed calling webhook vjobset.kb.io: context deadline exceeded",
            WebhookTimeout,
            "does not answer in time",
        ),
        (418, "a teapot", ClusterError, "418: a teapot"),
    ],
)
def test_from_api_exception_returns_one_sentence(
    status: int, message: str, kind: type[ClusterError], part: str
) -> None:
    error: Any = Response(status, message)
    found = api_errors.from_api_exception(error, "patch", "TFJob", "here")
    assert type(found) is kind
    assert part in str(found)
