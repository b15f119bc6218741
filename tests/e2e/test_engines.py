"""JobSet and TrainJob: killed workers do not change the weights, and a user's error is final."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common import storage
from common.errors import UserError
from launch.engines import ENGINES
from tests.e2e import kube
from tests.e2e.faults import Fault, attempt, delete, evict, force, kill, restarted, starve, weights
from tests.e2e.kube import Job, kubectl, until

INTERVAL_EPOCHS = 5  # between two checkpoints
SETTINGS = (
    "MODEL=hybrid", "QUBITS=4", "TRAIN_EXAMPLES=200", "VALIDATION_EXAMPLES=50",
    "TEST_EXAMPLES=100", "BATCH=32", "INITIALIZATIONS=1",
    f"CHECKPOINT_INTERVAL={INTERVAL_EPOCHS}", "EPOCHS=200", "MEMORY=1500Mi",
)  # fmt: skip
LONGER = "EPOCHS=600"

FAULTS = [
    (delete, 1), (delete, 0), (evict, 1), (evict, 0), (force, 1), (force, 0), (kill, 1), (kill, 0),
    (starve, 1),
]  # fmt: skip


@pytest.fixture(params=["jobset", pytest.param("trainjob", marks=pytest.mark.nightly)])
def api(cluster: str, request: pytest.FixtureRequest) -> str:
    """JOB_API."""
    kind = ENGINES[request.param].kind
    if not kubectl("get", "crd", f"{kind.lower()}s.{ENGINES[request.param].group}", check=False):
        pytest.skip(f"the cluster does not serve {kind}: `TRAINER=1 make cluster` installs it")
    return request.param


def restarts(job: Job) -> int:
    """The number of times that the JobSet's controller created the Job again."""
    return int(kube.get("jobset", job.name)["status"]["restarts"])


def train(api: str, name: str, *settings: str) -> Job:
    """Train with the client, as `make training TARGET=k8s` does, to the end."""
    done = kube.launch("run", f"RUN={name}", f"JOB_API={api}", *SETTINGS, *settings)
    kind = ENGINES[api].kind
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"in a {kind}, namespace" in done.stdout
    assert f"{kind.lower()}/qfleet-{name} created" in done.stdout
    assert f"job qfleet-{name} Succeeded" in done.stdout
    return Job(name, api)


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


def test_killed_worker_keeps_the_weights(
    api: str, root: storage.StoragePath, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    calm, broken = f"{api}-calm", f"{api}-broken"
    train(api, calm)
    job = kube.start(broken, f"JOB_API={api}", *SETTINGS)
    took = disturb(job, kill, 1)
    measured(f"{api}, worker 1 killed: {took:.1f} s to the first epoch")
    assert job.end(180) == "Succeeded"
    assert restarts(job) == 1
    assert difference(calm, broken, root, tmp_path) <= 1e-6
    output = kube.launch("status", f"RUN={broken}").stdout
    assert f"job qfleet-{broken} Succeeded" in output
    assert [line[0] for line in output.splitlines() if line[:1].isdigit()] == ["0", "1"]
    for name in (calm, broken):
        assert kube.launch("delete", "training", f"RUN={name}").returncode == 0
        assert not kubectl("get", "jobsets,jobs", f"--selector=qfleet/run={name}", "-o", "name")


def test_error_of_the_user_is_final(api: str, root: storage.StoragePath) -> None:
    name = f"{api}-wrong"
    words = (f"RUN={name}", f"JOB_API={api}", *SETTINGS)
    done = kube.launch("run", *words, "DATA=gs://qfleet/nowhere")  # found by the client
    assert done.returncode == UserError.exit_code, done.stdout + done.stderr
    assert "gs://qfleet/nowhere" in done.stderr
    assert not kubectl("get", ENGINES[api].kind, f"qfleet-{name}", check=False)
    table = root / f"{name}.csv"
    storage.write_atomic(table, b"a,label\n1,x\n")  # one class: found by the workers
    done = kube.launch("run", *words, f"DATA={table}")
    assert done.returncode == UserError.exit_code, done.stdout + done.stderr
    assert f"job qfleet-{name} Failed: worker" in done.stderr
    assert "only the label x" in done.stderr
    job = Job(name, api)
    assert restarts(job) == 0
    assert kube.launch("stop", f"RUN={name}").returncode == 0
    until(lambda: not job.pods(), 60, "the end of its pods")


@pytest.mark.nightly
def test_controller_of_trainjobs_stores_the_progress(cluster_storage: None) -> None:
    name = "trainjob-status"
    if not kubectl("get", "crd", "trainjobs.trainer.kubeflow.org", check=False):
        pytest.skip("the cluster does not serve TrainJob: `TRAINER=1 make cluster` installs it")
    job = kube.start(name, "JOB_API=trainjob", *SETTINGS, "EPOCHS=1500")

    def status() -> dict[str, Any]:
        found: dict[str, Any] = job.object().get("status", {}).get("trainerStatus", {})
        return found

    until(status, 180, "the first progress of the TrainJob")
    first = until(lambda: 0 < status().get("progressPercentage", 0) < 100 and status(), 120, "more")
    assert first["estimatedRemainingSeconds"] >= 0
    assert {"name": "epoch", "value": "1"}.keys() == first["metrics"][0].keys()
    assert job.end(400) == "Succeeded"
    assert status()["progressPercentage"] == 100
    assert "the TrainJob's status" not in job.log()  # the warning of a refusal
    assert kube.launch("delete", "training", f"RUN={name}").returncode == 0


# Every night: each fault of each worker


@pytest.fixture(scope="module")
def calm(cluster_storage: None) -> Job:
    """An undisturbed job, at its end."""
    return train("jobset", "jobset-long-calm", LONGER)


@pytest.fixture(scope="module")
def broken(calm: Job) -> Iterator[Job]:
    """The job that gets all faults."""
    job = kube.start("jobset-long-broken", "JOB_API=jobset", *SETTINGS, LONGER)
    yield job
    job.delete()


@pytest.mark.nightly
@pytest.mark.parametrize(("fault", "rank"), FAULTS)
def test_workers_restart_after_each_fault(
    broken: Job, measured: Callable[[str], None], fault: Fault, rank: int
) -> None:
    took = disturb(broken, fault, rank)
    measured(f"JobSet, {fault.__name__} worker {rank}: {took:.1f} s to the first epoch")


@pytest.mark.nightly
def test_weights_after_all_faults_equal_the_undisturbed(
    broken: Job, root: storage.StoragePath, tmp_path: Path
) -> None:
    assert broken.end(400) == "Succeeded"
    assert restarts(broken) >= len(FAULTS)
    assert difference("jobset-long-calm", "jobset-long-broken", root, tmp_path) <= 1e-6
