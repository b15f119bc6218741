"""Number of workers: resizing, wrong settings, deadline, and access to the workers' ports."""

import json
import re
import time
from collections.abc import Callable

import pytest

from common import storage
from tests.e2e import kube
from tests.e2e.kube import Job, kubectl, until

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
    wrong = re.sub(r"QFLEET_QUBITS: .*", "QFLEET_QUBITS: '99'", text)
    assert wrong != text
    since = time.monotonic()
    kubectl("apply", "--server-side", "-f", "-", given=wrong)
    job = Job("wrong")
    assert job.end(60) == "Failed"
    measured(f"wrong settings: failed after {time.monotonic() - since:.0f} s")
    sentence = "QFLEET_QUBITS=99 is not allowed"
    assert any(sentence in message for message in job.messages())
    done = kube.launch("status", "RUN=wrong", timeout=60)
    assert sentence in " ".join(done.stdout.split())
    job.delete()


def test_deadline_ends_the_job_at_a_checkpoint(root: storage.StoragePath) -> None:
    job = start("late-night", "EPOCHS=100000", "CHECKPOINT_INTERVAL=100000", "DEADLINE=25")
    assert job.end(90) == "Failed"
    (failed,) = [c for c in kube.get("tfjob", job.name)["status"]["conditions"]
                 if c["type"] == "Failed"]  # fmt: skip
    assert "active longer than specified deadline" in failed["message"]
    assert storage.children(root / "late-night" / "checkpoints")
    job.delete()


CLIENT_POD = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s, labels: %(labels)s}
spec:
  automountServiceAccountToken: false
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: client
      image: %(image)s
      command: [python, -c, %(program)s]
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
"""
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5)
    print("open")
except OSError as error:
    print("closed", error)
"""


def reached(target: str, port: int, **labels: str) -> bool:
    """Return True if a pod with these labels can connect."""
    name = f"client-{time.monotonic_ns()}"
    (document,) = re.findall(
        r"image: (\S*qfleet-storage\S*)", (kube.ROOT / "k8s/qcnn.yaml").read_text()
    )
    program = CONNECT.replace("sys.argv[1]", repr(target)).replace("sys.argv[2]", repr(port))
    given = CLIENT_POD % {
        "name": name, "labels": json.dumps(labels), "image": document,
        "program": json.dumps(program),
    }  # fmt: skip
    kubectl("apply", "-f", "-", given=given)
    output = until(lambda: kubectl("logs", name, check=False), 60, "the pod's output")
    kubectl("delete", "pod", name, "--wait=false")
    return output.startswith("open")


def test_policy_protects_workers_ports(cluster_storage: None) -> None:
    if reached("storage", 9023, other="yes"):
        pytest.skip("this cluster does not enforce NetworkPolicy")
    job = start("private", "EPOCHS=100000")
    job.reach(1)
    for port in (2222, 2223, 2224):
        assert not reached("private-worker-0", port, other="yes")
    board = {
        "app.kubernetes.io/part-of": "qfleet",
        "app.kubernetes.io/component": "tensorboard",
    }
    assert reached("private-worker-0", 2223, **board)
    assert not reached("private-worker-0", 2222, **board)
    job.delete()
