"""How many workers there are, what they are told, and who may speak to them."""

import json
import re
import time
from collections.abc import Callable

import pytest

from common import storage
from tests.e2e import kube
from tests.e2e.kube import Job, kubectl, until

SETTINGS = (
    "MODEL=hybrid", "QUBITS=2", "TRAIN_EXAMPLES=100", "VALIDATION_EXAMPLES=30", "TEST_EXAMPLES=50", "BATCH=32", "INITIALIZATIONS=1",
    "PROFILER_PORT=2223",
)  # fmt: skip


def start(name: str, *settings: str) -> Job:
    """A job of this file's size."""
    return kube.start(name, *SETTINGS, *settings)


def losses(text: str) -> dict[int, float]:
    """Epoch -> training error, from what a chief said."""
    return {int(n): float(x) for n, x in re.findall(r"epoch (\d+)/\d+  mse (\S+)", text)}


def test_a_worker_alone_trains_without_a_gang(cluster_storage: None) -> None:
    job = start("alone", "WORKERS=1", "EPOCHS=3")
    assert job.end(120) == "Succeeded"
    assert len(losses(job.log())) == 3
    job.delete()


@pytest.mark.timeout(900)  # three workers on two cores, beside the other tests
def test_a_run_that_was_stopped_goes_on_with_more_workers(root: storage.StoragePath) -> None:
    settings = (*SETTINGS, "EPOCHS=300", "RUN=wide")
    job = start("wide", "EPOCHS=300")
    job.reach(5)
    done = kube.launch("stop", "RUN=wide", timeout=90)
    assert done.returncode == 0, done.stderr
    assert not job.pods()
    done = kube.launch("run", *settings, "WORKERS=3", timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(job.pods()) == 3
    found = kube.RESUMED.search(done.stdout)
    assert found, done.stdout
    assert int(found["epoch"]) >= 5
    texts = [
        storage.read_bytes(root / "wide" / "text" / f"worker-0.attempt-{n}.log").decode()
        for n in (1, 2)
    ]
    with_two, with_three = map(losses, texts)
    assert max(with_two) + 1 >= min(with_three) > 4
    assert max(with_three) == 300
    # The same global batches: the curve goes on where it was, and the twin of two workers agrees.
    twin = start("twin", "EPOCHS=300")
    assert twin.end(400) == "Succeeded"
    same = losses(storage.read_bytes(root / "twin" / "text" / "worker-0.attempt-1.log").decode())
    first = min(with_three)
    for epoch in range(first, first + 5):
        assert abs(with_three[epoch] - same[epoch]) <= 2e-4
    job.delete()
    twin.delete()


def patch(job: Job, workers: int) -> None:
    replicas = {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": workers}}}}
    kubectl("patch", "tfjob", job.name, "--type=merge", "-p", json.dumps(replicas))


def test_a_worker_more_than_the_gang_has_ends_the_job_with_a_sentence(
    cluster_storage: None, measured: Callable[[str], None]
) -> None:
    job = start("patched", "EPOCHS=100000")
    job.reach(2)
    since = time.monotonic()
    patch(job, 3)
    assert job.end(60) == "Failed"
    measured(f"replicas 2 to 3: failed {time.monotonic() - since:.0f} s after the patch")
    patch(job, 2)
    assert any("this is worker 2, but WORKERS=2" in message for message in job.messages())
    said = " ".join(kube.launch("status", "RUN=patched", timeout=60).stdout.split())
    assert "this is worker 2, but WORKERS=2" in said
    assert job.ended() == "Failed"
    job.delete()


def test_wrong_settings_fail_the_job_for_good_with_their_sentence(
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
    sentence = "QFLEET_QUBITS=99 is not allowed: QUBITS is a whole number from 2 to 30"
    assert any(sentence in message for message in job.messages())
    done = kube.launch("status", "RUN=wrong", timeout=60)
    assert sentence in " ".join(done.stdout.split())
    job.delete()


def test_a_deadline_ends_the_job_at_a_checkpoint(root: storage.StoragePath) -> None:
    job = start("late-night", "EPOCHS=100000", "CHECKPOINT_INTERVAL=100000", "DEADLINE=25")
    assert job.end(90) == "Failed"
    (failed,) = [c for c in kube.get("tfjob", job.name)["status"]["conditions"]
                 if c["type"] == "Failed"]  # fmt: skip
    assert "active longer than specified deadline" in failed["message"]
    assert storage.children(root / "late-night" / "checkpoints")
    job.delete()


PROBE = """
apiVersion: v1
kind: Pod
metadata: {name: %(name)s, labels: %(labels)s}
spec:
  automountServiceAccountToken: false
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: probe
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
    """Whether a pod with these labels can connect."""
    name = f"probe-{time.monotonic_ns()}"
    (document,) = re.findall(
        r"image: (\S*qfleet-storage\S*)", (kube.ROOT / "k8s/qcnn.yaml").read_text()
    )
    program = CONNECT.replace("sys.argv[1]", repr(target)).replace("sys.argv[2]", repr(port))
    given = PROBE % {
        "name": name, "labels": json.dumps(labels), "image": document,
        "program": json.dumps(program),
    }  # fmt: skip
    kubectl("apply", "-f", "-", given=given)
    said = until(lambda: kubectl("logs", name, check=False), 60, "the probe's word")
    kubectl("delete", "pod", name, "--wait=false")
    return said.startswith("open")


def test_only_the_gang_speaks_to_the_gang(cluster_storage: None) -> None:
    if reached("storage", 9023, stranger="yes"):
        pytest.skip("this cluster does not enforce NetworkPolicy")
    job = start("private", "EPOCHS=100000")
    job.reach(1)
    for port in (2222, 2223, 2224):
        assert not reached("private-worker-0", port, stranger="yes")
    board = {
        "app.kubernetes.io/part-of": "qfleet",
        "app.kubernetes.io/component": "tensorboard",
    }
    assert reached("private-worker-0", 2223, **board)
    assert not reached("private-worker-0", 2222, **board)
    job.delete()
