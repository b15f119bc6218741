"""Number of workers: resizing, wrong settings, deadline."""

import json
import re
import time
from collections.abc import Callable

import pytest

from common import storage
from tests.e2e import kube
from tests.e2e.kube import Job, kubectl
from tests.support.patience import seconds

SETTINGS = (
    "MODEL=hybrid", "QUBITS=2", "TRAIN_EXAMPLES=100", "VALIDATION_EXAMPLES=30",
    "TEST_EXAMPLES=50", "BATCH=32", "INITIALIZATIONS=1",
    "PROFILER_PORT=2223",
)  # fmt: skip


def start(name: str, *settings: str) -> Job:
    """A job of this file's size."""
    return kube.start(name, *SETTINGS, *settings)


def losses(root: storage.StoragePath, run: str) -> dict[int, float]:
    """Return the training error of each epoch of a run."""
    lines = storage.read_bytes(root / run / "metrics.jsonl").decode().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["epoch"] for row in rows] == list(range(1, len(rows) + 1))
    return {row["epoch"]: row["mse"] for row in rows}


def test_one_worker_trains(cluster_storage: None) -> None:
    job = start("alone", "WORKERS=1", "EPOCHS=3")
    assert job.end(120) == "Succeeded"
    assert job.epoch() == 3
    job.delete()


@pytest.mark.nightly  # tests/integration/test_wide_training.py is on this machine
def test_1024_qubits_train_and_predict(root: storage.StoragePath) -> None:
    settings = (setting for setting in SETTINGS if not setting.startswith("QUBITS"))
    job = kube.start("qubits-1024", *settings, "QUBITS=1024", "LAYERS=1", "EPOCHS=3")
    assert job.end(300) == "Succeeded"
    assert job.epoch() == 3
    assert storage.read_json(root / "qubits-1024" / "contraction_paths.json")
    done = kube.launch("infer", "RUN=qubits-1024", timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (root / "qubits-1024" / "predictions" / "report.html").exists()
    job.delete()


@pytest.mark.nightly
@pytest.mark.timeout(900)  # three workers on two cores, next to other tests
def test_stopped_run_resumes_with_more_workers(root: storage.StoragePath) -> None:
    settings = (*SETTINGS, "EPOCHS=300", "RUN=wide")
    job = start("wide", "EPOCHS=300")
    job.reach(5)
    done = kube.launch("stop", "RUN=wide", timeout=90)
    assert done.returncode == 0, done.stderr
    assert not job.pods()
    done = kube.launch("run", *settings, "WORKERS=3", timeout=400, QFLEET_EVENTS="stdout")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(job.pods()) == 3
    (resumed,) = kube.parse_events(done.stdout, "run_resumed")
    assert resumed.integer("epoch") >= 5
    shown = [event.integer("epoch") for event in kube.parse_events(done.stdout, "epoch")]
    assert shown == list(range(resumed.integer("epoch"), 301))
    # The global batches are the same, so the losses are those of a run with two workers.
    twin = start("twin", "EPOCHS=300")
    assert twin.end(400) == "Succeeded"
    resized, same = losses(root, "wide"), losses(root, "twin")
    assert len(resized) == len(same) == 300
    for epoch in shown[:5]:
        assert abs(resized[epoch] - same[epoch]) <= 2e-4
    job.delete()
    twin.delete()


def patch(job: Job, workers: int) -> None:
    replicas = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": workers}}}}
    kubectl("patch", "tfjob", job.name, "--type=merge", "-p", json.dumps(replicas))


def test_worker_beyond_configured_number_fails_the_job(
    cluster_storage: None, measured: Callable[[str], None]
) -> None:
    job = start("patched", "EPOCHS=100000")
    job.reach(2)
    since = time.monotonic()
    patch(job, 3)
    assert job.end(60) == "Failed"
    measured(f"replicas 2 to 3: failed {time.monotonic() - since:.0f} s after the patch")
    patch(job, 2)
    assert any("WORKERS=2" in message for message in job.messages())
    output = " ".join(kube.launch("status", "RUN=patched", timeout=60).stdout.split())
    assert "WORKERS=2" in output
    assert job.ended() == "Failed"
    job.delete()


def test_wrong_setting_fails_the_job_with_its_message(
    cluster_storage: None, measured: Callable[[str], None]
) -> None:
    text = kube.launch("render", "RUN=wrong", *SETTINGS).stdout
    wrong = re.sub(r"QFLEET_QUBITS: .*", "QFLEET_QUBITS: '9999'", text)
    assert wrong != text
    since = time.monotonic()
    kubectl("apply", "--server-side", "-f", "-", given=wrong)
    job = Job("wrong")
    assert job.end(60) == "Failed"
    measured(f"wrong settings: failed after {time.monotonic() - since:.0f} s")
    sentence = "QFLEET_QUBITS=9999 is not allowed"
    assert any(sentence in message for message in job.messages())
    done = kube.launch("status", "RUN=wrong", timeout=60)
    assert sentence in " ".join(done.stdout.split())
    job.delete()


def test_deadline_ends_the_job_at_a_checkpoint(root: storage.StoragePath) -> None:
    deadline = f"DEADLINE={seconds(12.5):.0f}"  # after the start, which a busy machine prolongs
    job = start("late-night", "EPOCHS=100000", "CHECKPOINT_INTERVAL=100000", deadline)
    assert job.end(90) == "Failed"
    (failed,) = [c for c in kube.get("tfjob", job.name)["status"]["conditions"]
                 if c["type"] == "Failed"]  # fmt: skip
    assert "active longer than specified deadline" in failed["message"]
    assert storage.children(root / "late-night" / "checkpoints")
    job.delete()
