"""A node is lost with the pods on it, on a cluster of two nodes: `make cluster` and second_node.sh.

Nothing else may use the cluster meanwhile: the scheduler has to have room on both nodes.
"""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from tests.e2e import kube, own_cluster
from tests.e2e.kube import Job, kubectl, until

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

SETTINGS = (
    "MODEL=hybrid", "QUBITS=4", "TRAIN_EXAMPLES=200", "VALIDATION_EXAMPLES=50",
    "TEST_EXAMPLES=100", "BATCH=32", "INITIALIZATIONS=1", "CHECKPOINT_INTERVAL=5",
    "EPOCHS=1000000", "MEMORY=1500Mi", "MAX_ATTEMPTS=20",
)  # fmt: skip
NODE = "node2"
TOLERATION_SECONDS = 30
GRACE_SECONDS = 60  # until the controller calls a silent node not ready, and a poll
LIMIT_SECONDS = 120.0


started: list[float] = []
"""Seconds that the job of the current test took to its first epoch."""


@pytest.fixture
def two_nodes(cluster_storage: None) -> Iterator[None]:
    if not kube.is_own_cluster():
        pytest.skip("it needs the cluster of make cluster, to which it adds a node")
    version = (kube.ROOT / "VERSION").read_text().strip()
    own_cluster.second_node("up", f"qfleet-worker:{version}")
    yield
    own_cluster.second_node("down")


@pytest.fixture
def job(two_nodes: None, request: pytest.FixtureRequest) -> Iterator[Job]:
    """A job that trains with one worker on each node."""
    started.clear()
    since = time.monotonic()
    found = kube.start(f"apart-{request.node.name[-3:]}", *SETTINGS)
    until(lambda: len(found.pods()) == 2, 60, "two pods")
    found.reach(1, timeout=180)
    started.append(time.monotonic() - since)
    found.reach(8, timeout=180)
    assert {pod["spec"]["nodeName"] for pod in found.pods()} == {"node", NODE}
    yield found
    found.delete()


def limit() -> float:
    """Return the seconds in which a job must continue on a machine of this speed."""
    return LIMIT_SECONDS + own_cluster.allowance(started[0])


def continued(job: Job, since: datetime) -> float:
    """Return the seconds from `since` to the first epoch with all workers on the first node."""

    def logged() -> float:
        assert job.ended() == "", job.messages()
        pods = job.pods()
        if len(pods) != 2 or any(pod["spec"].get("nodeName") != "node" for pod in pods):
            return 0
        for moment, _ in job.timed_events("epoch"):
            if moment > since and job.events("run_resumed"):
                return (moment - since).total_seconds()
        return 0

    return float(until(logged, 2 * LIMIT_SECONDS, f"an epoch of {job.name}", pause=1))


def lost_pod(job: Job) -> str:
    """Return the name of the pod on the second node."""
    (name,) = (pod["metadata"]["name"] for pod in job.pods() if pod["spec"]["nodeName"] == NODE)
    return str(name)


def test_job_continues_after_the_node_is_deleted(job: Job, measured: Callable[[str], None]) -> None:
    since = datetime.now(UTC)
    own_cluster.second_node("lose")
    kubectl("delete", "node", NODE)
    took = continued(job, since)
    measured(f"node lost and deleted: next epoch after {took:.0f} s; start {started[0]:.0f} s")
    assert took <= limit()


def test_pods_leave_a_node_that_is_not_ready(job: Job, measured: Callable[[str], None]) -> None:
    name = lost_pod(job)
    began = time.monotonic()
    own_cluster.second_node("lose")

    def tainted() -> bool:
        taints = kube.get("node", NODE)["spec"].get("taints") or []
        return any(one["key"] == "node.kubernetes.io/unreachable" for one in taints)

    until(tainted, 120, "the taint of the lost node")
    not_ready = time.monotonic() - began
    until(
        lambda: "deletionTimestamp" in kube.get("pod", name)["metadata"],
        TOLERATION_SECONDS + GRACE_SECONDS,
        "the deletion of the pod",
    )
    deleted = time.monotonic() - began
    assert deleted - not_ready <= TOLERATION_SECONDS + 15
    # The pod stays until the API is sure that the machine is off.
    since = datetime.now(UTC)
    kubectl("taint", "node", NODE, "node.kubernetes.io/out-of-service=off:NoExecute")
    took = continued(job, since)
    measured(
        f"node lost: not ready after {not_ready:.0f} s, pod deleted after {deleted:.0f} s; next"
        f" epoch {took:.0f} s after the taint out-of-service"
    )
    assert took <= limit()
