"""The quickstart on a cluster: qcnn.yaml trains, TensorBoard shows it, inference.yaml predicts.

The tests depend on each other's results, in this order.
"""

import gzip
import json
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from common import storage
from qfleet.tensorflow.runtime import tf  # noqa: F401 - brings the protobufs of profiles
from tests.e2e import kube
from tests.e2e.kube import Job, kubectl, until
from tests.support.patience import seconds

K8S = kube.ROOT / "k8s"


@pytest.fixture(scope="module")
def board(cluster_storage: None) -> Iterator[str]:
    """TensorBoard's address, once it is ready."""
    kubectl("apply", "--server-side", "-f", str(K8S / "tensorboard.yaml"))
    kubectl("rollout", "status", "deployment/qfleet-tensorboard", timeout=120)
    with kube.forwarded("service/qfleet-tensorboard", 5001) as port:
        yield f"http://127.0.0.1:{port}"
    kubectl("delete", "-f", str(K8S / "tensorboard.yaml"), "--wait=false")


@pytest.fixture(scope="module")
def watched(board: str) -> Iterator[Job]:
    """A job that trains for as long as it is watched; qcnn.yaml's may end before.

    Its epochs are long: the end of each is uploaded by the chief and kept by the emulator.
    """
    settings = ("MODEL=qcnn", "QUBITS=4", "INITIALIZATIONS=1", "TRAIN_EXAMPLES=20000")
    job = kube.start("watched", *settings, "EPOCHS=100000", "PROFILER_PORT=2223")
    yield job
    job.delete()


@pytest.fixture(scope="module")
def job(cluster_storage: None) -> Job:
    """The job of `kubectl apply -f k8s/qcnn.yaml`."""
    kubectl("apply", "-f", str(K8S / "qcnn.yaml"))
    return Job("qcnn")


def ask(url: str, **query: str) -> bytes:
    address = f"{url}?{urllib.parse.urlencode(query)}" if query else url
    with urllib.request.urlopen(address, timeout=60) as answer:
        content = answer.read()
    # The profile pages answer with gzip, asked or not.
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def test_tensorboard_shows_the_run_while_it_trains(board: str, watched: Job) -> None:
    watched.reach(1, 180)

    def shown() -> bool:
        tags = json.loads(ask(f"{board}/data/plugin/scalars/tags"))
        return "mse" in tags.get("watched/logs/train", {})

    until(shown, 60, "the run in TensorBoard")
    assert not watched.ended(), "it was to train still"


def test_a_profile_of_a_worker_is_captured_while_it_trains(
    board: str, watched: Job, root: storage.StoragePath
) -> None:
    response: Any = None
    for _ in range(4):
        try:
            response = ask(
                f"{board}/data/plugin/profile/capture_profile",
                service_addr="qfleet-watched-worker-1:2223", is_tpu_name="false", duration="1000",
                num_retry="3", worker_list="", host_tracer_level="2", device_tracer_level="0",
                python_tracer_level="0", delay="0",
            )  # fmt: skip
        except urllib.error.HTTPError as error:  # the worker did not answer in time
            response = error.read()
        if b"successfully" in response:
            break
        assert not watched.ended(), response
    folder = root / "watched" / "logs" / "worker-1" / "plugins" / "profile"

    def uploaded() -> list[storage.StoragePath]:
        if not storage.exists(folder):
            return []
        return [
            file
            for session in storage.children(folder)
            for file in storage.children(session)
            if file.name.endswith(".xplane.pb")
        ]

    (profile,) = until(uploaded, 60, f"the profile ({response!r})", pause=1)[:1]
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace.FromString(storage.read_bytes(profile))
    events = sum(len(line.events) for plane in space.planes for line in plane.lines)
    assert events > 100, f"{events} events"
    session = profile.parent.name

    def listed() -> str:
        runs = json.loads(ask(f"{board}/data/plugin/profile/runs"))
        return next((run for run in runs if "worker-1" in run and session in run), "")

    run = until(listed, 60, "the profile in TensorBoard", pause=1)
    assert "overview_page" in json.loads(ask(f"{board}/data/plugin/profile/run_tools", run=run))
    watched.delete()  # the next job has the machine for itself


def losses(root: storage.StoragePath, rank: int) -> dict[str, str]:
    """Return error and accuracy by epoch in the text logs of a worker's attempts.

    On a busy machine, storage may not answer in time, so that the workers start again.
    """
    files = storage.children(root / "qcnn" / "text")
    logs = sorted(file for file in files if file.name.startswith(f"worker-{rank}.attempt-"))
    figures = r"mse \S+  accuracy \S+  validation \S+ \S+"
    line = rf"epoch (\d+)/\d+  (?:initialization \d of 8  )?({figures})"
    return dict(re.findall(line, "".join(storage.read_bytes(log).decode() for log in logs)))


def test_job_succeeds_and_workers_log_equal_losses(job: Job, root: storage.StoragePath) -> None:
    assert job.end(300) == "Succeeded"
    assert len(job.events("run_finished")) == 1
    assert losses(root, 0) == losses(root, 1)
    assert len(losses(root, 0)) == 170


def test_weights_metrics_and_logs_are_in_the_bucket(job: Job, root: storage.StoragePath) -> None:
    run = root / "qcnn"
    result = storage.read_json(run / "result.json")
    assert result["run"] == "qcnn"
    assert storage.exists(run / result["weights"]["path"])
    lines = storage.read_bytes(run / "metrics.jsonl").decode().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == list(range(1, 171))
    assert any("tfevents" in file.name for file in storage.children(run / "logs" / "train"))


def test_the_same_seed_on_this_machine_gives_the_same_loss(
    job: Job, root: storage.StoragePath, tmp_path: Path, measured: Callable[[str], None]
) -> None:
    subprocess.run(
        [sys.executable, "-m", "training", "MODEL=qcnn", f"STORAGE={tmp_path}", "PROFILER_PORT=0"],
        cwd=kube.ROOT, env=kube.environment(), check=True, capture_output=True,
        timeout=seconds(300),
    )  # fmt: skip
    here = storage.read_json(tmp_path / "qcnn" / "result.json")["metrics"]["train"]["mse"]
    there = storage.read_json(root / "qcnn" / "result.json")["metrics"]["train"]["mse"]
    measured(f"train mse: {here:.6f} here, {there:.6f} in the cluster")
    assert abs(here - there) <= 1e-4


def test_inference_in_the_cluster_equals_local_inference(
    job: Job, root: storage.StoragePath
) -> None:
    kubectl("apply", "-f", str(K8S / "inference.yaml"))
    kubectl("wait", "--for=condition=complete", "job/qfleet-qcnn-inference", timeout=100)
    logged = kube.parse_events(kubectl("logs", "job/qfleet-qcnn-inference"), "log")
    there = "\n".join(event.message for event in logged)
    answers = root / "qcnn" / "predictions" / "test.csv"
    written = storage.read_bytes(answers)
    here = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "inference", "RUN=qcnn", f"STORAGE={root}"],
        cwd=kube.ROOT, check=True, capture_output=True, text=True, timeout=seconds(200),
    ).stdout  # fmt: skip
    assert storage.exists(root / "qcnn" / "predictions" / "report.html")

    def row(output: str) -> list[str]:
        (line,) = re.findall(r"^qcnn .*$", output, re.MULTILINE)
        return line.split()

    assert row(there) == row(here)
    one, other = (
        pd.read_csv(pd.io.common.BytesIO(b)) for b in (written, storage.read_bytes(answers))
    )
    assert list(one.columns) == list(other.columns)
    assert len(one) == 4000
    numbers = one.select_dtypes("number").columns
    assert np.abs(one[numbers] - other[numbers]).max().max() <= 1e-6


def test_a_second_apply_changes_nothing(job: Job) -> None:
    before = kube.get("tfjob", "qfleet-qcnn")["metadata"]
    kubectl("apply", "-f", str(K8S / "qcnn.yaml"))
    after = kube.get("tfjob", "qfleet-qcnn")["metadata"]
    assert (before["uid"], before["generation"]) == (after["uid"], after["generation"])
    assert job.ended() == "Succeeded"


def test_finished_run_applied_again_succeeds_at_once(job: Job, root: storage.StoragePath) -> None:
    before = storage.read_bytes(root / "qcnn" / "result.json")
    job.delete()
    kubectl("apply", "-f", str(K8S / "qcnn.yaml"))
    assert job.end(120) == "Succeeded"
    for rank in (0, 1):
        assert not job.events("epoch", rank)
    assert storage.read_bytes(root / "qcnn" / "result.json") == before


def test_logs_are_kept_without_pods(job: Job, root: storage.StoragePath) -> None:
    job.delete()
    done = kube.launch("logs", "RUN=qcnn", timeout=60)
    assert done.returncode == 0, done.stderr
    assert "170/170" in done.stdout
