"""Faults in Slurm that take minutes: a time limit, a lost node, storage that is not shared."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.slurm import ROOT, SETTINGS, SlurmCluster, weights

pytestmark = pytest.mark.nightly

LONG = ("EPOCHS=12000",)


def test_time_limit_is_requeued_and_resumes(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Slurm sends SIGTERM two minutes before the limit, up to a minute earlier."""
    settings = (f"STORAGE={tmp_path}", *SETTINGS, *LONG, "TIME_LIMIT=3")
    client = cluster.train(*settings)
    client.wait_for("Requeueing job", timeout_seconds=200)
    client.wait_for("Resuming run 'r'", timeout_seconds=60)
    client.interrupt()
    assert "stopped by SIGTERM" in client.output
    assert "was stopped" in cluster.client("stop", "TARGET=slurm", f"STORAGE={tmp_path}", "RUN=r")
    assert "CANCELLED" in cluster.client("status", "TARGET=slurm", f"STORAGE={tmp_path}", "RUN=r")


def test_lost_node_is_requeued_with_equal_weights(
    cluster: SlurmCluster, reference: bytes, tmp_path: Path
) -> None:
    """All processes of a node are killed; Slurm requeues the job when the node is back."""
    client = cluster.train_20_epochs(tmp_path)
    cluster.stop_node("node2")
    client.wait_for("start 2", timeout_seconds=60)
    cluster.start_node("node2")
    client.wait_resumed()
    assert weights(tmp_path) == reference


def test_drained_node_is_left_with_equal_weights(
    cluster: SlurmCluster, reference: bytes, tmp_path: Path
) -> None:
    """The requeued job waits until the node is back, since it needs both."""
    client = cluster.train_20_epochs(tmp_path)
    number = cluster.run("squeue", "--noheader", "--format=%i").strip()
    cluster.run("scontrol", "update", "NodeName=node2", "State=DRAIN", "Reason=test")
    try:
        cluster.run("scontrol", "requeue", number)
        client.wait_for("DRAINED", timeout_seconds=60)
        assert cluster.workers(tmp_path) == []
    finally:
        cluster.run("scontrol", "update", "NodeName=node2", "State=RESUME")
    client.wait_resumed()
    assert weights(tmp_path) == reference


def test_preempted_job_resumes_with_equal_weights(
    cluster: SlurmCluster, reference: bytes, tmp_path: Path
) -> None:
    """A job of a partition with a higher priority gets both nodes first."""
    client = cluster.train_20_epochs(tmp_path)
    script = tmp_path / "urgent.sh"
    script.write_text("#!/bin/bash\nsleep 5\n")
    cluster.run(
        "sbatch", "--partition=urgent", "--nodes=2", "--exclusive",
        f"--output={tmp_path}/urgent.log", script,
    )  # fmt: skip
    client.wait_resumed()
    assert weights(tmp_path) == reference


def test_storage_that_is_not_shared_exits_2(cluster: SlurmCluster, tmp_path: Path) -> None:
    """The sentence names the node that does not see the run."""
    cluster.on_node("node2", "mount", "-t", "tmpfs", "none", str(tmp_path))
    try:
        output = cluster.train(f"STORAGE={tmp_path}", *SETTINGS).wait(2)
    finally:
        cluster.on_node("node2", "umount", str(tmp_path))
    assert re.search(rf"STORAGE={tmp_path} is not shared: node2", output)


def test_two_workers_on_a_node_end_with_equal_weights(
    cluster: SlurmCluster, reference: bytes, tmp_path: Path
) -> None:
    """Workers of one node have ports of their own."""
    settings = (f"STORAGE={tmp_path}", *SETTINGS, "WORKERS_PER_NODE=2")
    assert "RUNNING on node1\n" in cluster.train(*settings).wait(0)
    assert weights(tmp_path) == reference


def test_bucket_storage_ends_with_equal_weights(
    cluster: SlurmCluster, reference: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is in the folder of the client, as objects of a bucket do not grow."""
    arguments = (tmp_path, "4443", "qfleet-test", "10.77.0.1")
    program = [sys.executable, "-m", "launch.emulator", *arguments]
    monkeypatch.setitem(cluster.variables, "STORAGE_EMULATOR_HOST", "http://10.77.0.1:4443")
    emulator = subprocess.Popen(cluster.command(*program), env=cluster.environment)
    try:
        output = cluster.train("STORAGE=gs://qfleet-test/runs", *SETTINGS).wait(0)
        number = re.search(r"job (\d+)", output)
        assert number is not None
        (ROOT / f"qfleet-r-{number[1]}.log").unlink()
        code = (
            "from common import runs, storage; root = storage.path('gs://qfleet-test/runs');"
            " print(storage.read_bytes(runs.Run.at(root, 'r').weights).hex())"
        )
        assert cluster.run(sys.executable, "-c", code).split()[-1] == reference.hex()
    finally:
        emulator.terminate()
        emulator.wait()
