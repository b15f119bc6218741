"""Packets between two pods are dropped for a while: training continues within a minute after it."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from tests.e2e import kube, own_cluster, probes
from tests.e2e.kube import Job, until

SETTINGS = (
    "MODEL=hybrid", "QUBITS=4", "TRAIN_EXAMPLES=200", "VALIDATION_EXAMPLES=50",
    "TEST_EXAMPLES=100", "BATCH=32", "INITIALIZATIONS=1", "CHECKPOINT_INTERVAL=5",
    "EPOCHS=1000000", "MEMORY=1500Mi", "MAX_ATTEMPTS=20",
)  # fmt: skip
LIMIT_SECONDS = 60.0
limit = [LIMIT_SECONDS]
"""The limit on a machine of this speed."""


@pytest.fixture(scope="module")
def job(cluster_storage: None) -> Iterator[Job]:
    if not kube.is_own_cluster():
        pytest.skip("the node's network is not this machine's")
    since = time.monotonic()
    found = kube.start("parted", *SETTINGS)
    found.reach(1, timeout=180)
    limit[0] = LIMIT_SECONDS + own_cluster.allowance(time.monotonic() - since)
    yield found
    found.delete()


def storage_address(namespace: str) -> str:
    selector = "app.kubernetes.io/component=storage"
    (pod,) = kube.get("pods", selector=selector)
    return str(pod["status"]["podIP"])


def continues(job: Job, since: datetime) -> float:
    """Return the seconds from `since` to the next epoch that the chief logs."""

    def logged() -> float:
        assert job.ended() == "", job.messages()
        for moment, _ in job.timed_events("epoch"):
            if moment > since:
                return (moment - since).total_seconds()
        return 0

    return float(
        until(logged, limit[0] + 30, f"an epoch of {job.name} after the partition", pause=1)
    )


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("other", "seconds"),
    [
        pytest.param("worker", 20, marks=pytest.mark.e2e),
        ("worker", 50),
        ("worker", 90),
        ("storage", 20),
        ("storage", 50),
        ("storage", 90),
    ],
)
def test_training_continues_after_a_partition(
    job: Job, namespace: str, seconds: int, other: str, measured: Callable[[str], None]
) -> None:
    job.reach(job.epoch() + 3)
    chief = probes.address(job.pod(0), namespace)
    peer = (
        storage_address(namespace) if other == "storage" else probes.address(job.pod(1), namespace)
    )
    with own_cluster.partition(chief, peer):
        time.sleep(seconds)
        since = datetime.now(UTC)
    took = continues(job, since)
    measured(f"chief and {other} parted for {seconds} s: next epoch {took:.1f} s after it")
    assert took <= limit[0]
