"""JobSet: killed workers do not change the weights, and an error of the user is final."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from common import storage
from common.errors import UserError
from tests.e2e import kube
from tests.e2e.faults import Fault, attempt, delete, evict, force, kill, restarted, starve, weights
from tests.e2e.kube import Job, kubectl, until

INTERVAL_EPOCHS = 5  # between two checkpoints
SETTINGS = (
    "JOB_API=jobset", "MODEL=hybrid", "QUBITS=4", "TRAIN_EXAMPLES=200", "VALIDATION_EXAMPLES=50",
    "TEST_EXAMPLES=100", "BATCH=32", "INITIALIZATIONS=1",
    f"CHECKPOINT_INTERVAL={INTERVAL_EPOCHS}", "EPOCHS=200", "MEMORY=1500Mi",
)  # fmt: skip
LONGER = "EPOCHS=600"

FAULTS = [
    (delete, 1), (delete, 0), (evict, 1), (evict, 0), (force, 1), (force, 0), (kill, 1), (kill, 0),
    (starve, 1),
]  # fmt: skip


def restarts(job: Job) -> int:
    """The number of times that the controller created the Job again."""
    return int(job.object()["status"]["restarts"])


def train(name: str, *settings: str) -> Job:
    """Train with the client, as `make training TARGET=k8s` does, to the end."""
    done = kube.launch("run", f"RUN={name}", *SETTINGS, *settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "in a JobSet, namespace" in done.stdout
    assert f"jobset/qfleet-{name} created" in done.stdout
    assert f"job qfleet-{name} Succeeded" in done.stdout
    return Job(name, "jobset")


def disturb(job: Job, fault: Fault, rank: int) -> float:
    """Let a fault happen after a checkpoint; return the seconds to the first epoch after it."""
    before, resumed_in = attempt(job)
    job.reach(resumed_in + INTERVAL_EPOCHS + 1)
    since = datetime.now(UTC)
    fault(job, rank)
    return restarted(job, since, before)


def difference(one: str, other: str, root: storage.StoragePath, folder: Path) -> float:
    """The largest difference between the weights of two runs."""
    return float(np.abs(weights(root / one, folder) - weights(root / other, folder)).max())


def test_killed_worker_ends_with_the_undisturbed_weights(
    root: storage.StoragePath, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    train("jobset-calm")
    job = kube.start("jobset-broken", *SETTINGS)
    took = disturb(job, kill, 1)
    measured(f"JobSet, worker 1 killed: {took:.1f} s to the first epoch")
    assert job.end(180) == "Succeeded"
    assert restarts(job) == 1
    assert difference("jobset-calm", "jobset-broken", root, tmp_path) <= 1e-6
    output = kube.launch("status", "RUN=jobset-broken").stdout
    assert "job qfleet-jobset-broken Succeeded" in output
    assert [line[0] for line in output.splitlines() if line[:1].isdigit()] == ["0", "1"]
    for name in ("jobset-calm", "jobset-broken"):
        assert kube.launch("delete", "training", f"RUN={name}").returncode == 0
        assert not kubectl("get", "jobsets,jobs", f"--selector=qfleet/run={name}", "-o", "name")


def test_error_of_the_user_ends_the_jobset(cluster_storage: None) -> None:
    done = kube.launch("run", "RUN=jobset-wrong", *SETTINGS, "DATA=gs://qfleet/nowhere")
    assert done.returncode == UserError.exit_code, done.stdout + done.stderr
    assert "job qfleet-jobset-wrong Failed: worker" in done.stderr
    assert "gs://qfleet/nowhere" in done.stderr
    job = Job("jobset-wrong", "jobset")
    assert restarts(job) == 0
    assert not any("running" in pod["status"] for pod in job.pods())
    assert kube.launch("stop", "RUN=jobset-wrong").returncode == 0
    until(lambda: not job.pods(), 60, "the end of its pods")


# Every night: each fault of each worker


@pytest.fixture(scope="module")
def calm(cluster_storage: None) -> Job:
    """An undisturbed job, at its end."""
    return train("jobset-long-calm", LONGER)


@pytest.fixture(scope="module")
def broken(calm: Job) -> Iterator[Job]:
    """The job that gets all faults."""
    job = kube.start("jobset-long-broken", *SETTINGS, LONGER)
    yield job
    job.delete()


@pytest.mark.parametrize(("fault", "rank"), FAULTS)
def test_workers_restart_after_each_fault(
    broken: Job, measured: Callable[[str], None], fault: Fault, rank: int
) -> None:
    took = disturb(broken, fault, rank)
    measured(f"JobSet, {fault.__name__} worker {rank}: {took:.1f} s to the first epoch")


def test_weights_after_all_faults_equal_the_undisturbed(
    broken: Job, root: storage.StoragePath, tmp_path: Path
) -> None:
    assert broken.end(400) == "Succeeded"
    assert restarts(broken) >= len(FAULTS)
    assert difference("jobset-long-calm", "jobset-long-broken", root, tmp_path) <= 1e-6
