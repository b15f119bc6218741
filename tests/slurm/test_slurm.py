"""Training in a real Slurm of two nodes: faults, and requests that Slurm refuses."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from common.settings.sources import last_of_each
from tests.support.patience import wait_until
from tests.support.slurm import LOCAL_SETTINGS, ROOT, SETTINGS, SlurmCluster, weights


def test_killed_worker_is_requeued_with_equal_weights(
    cluster: SlurmCluster, reference: bytes, tmp_path: Path
) -> None:
    """The outcome of the killed worker counts; only Slurm listens while workers train."""
    client = cluster.train_20_epochs(tmp_path)
    assert "RUNNING" in cluster.client("list", "TARGET=slurm")
    sockets = "".join(cluster.on_node(node, "ss", "-ltnpH") for node in ("node1", "node2"))
    os.kill(cluster.workers(tmp_path)[1], signal.SIGKILL)
    output = client.wait_resumed()
    # The rendezvous and the mesh are complete, and TensorFlow has no server.
    listening = {name.partition("-")[0] for name in re.findall(r'users:\(\("([^"]+)', sockets)}
    assert "slurmd" in listening
    assert listening <= {"slurmd", "slurmstepd", "srun"}
    assert "worker 1: killed by SIGKILL" in output
    assert "start 2" in output
    assert weights(tmp_path) == reference


def test_sharded_states_end_with_equal_weights(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Workers exchange the parts of states over their own connections, as on this machine."""
    sharded = ("EPOCHS=20", "QUBITS=6", "STATE_SHARDS=2")
    local = (f"STORAGE={tmp_path}/local", *LOCAL_SETTINGS, *sharded)
    command = [sys.executable, "-m", "training", *last_of_each(local)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    cluster.train(f"STORAGE={tmp_path}/slurm", *SETTINGS, *sharded).wait(0)
    assert weights(tmp_path / "slurm") == weights(tmp_path / "local")


@pytest.mark.nightly
def test_kernel_of_a_killed_worker_keeps_its_tiles(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Workers on two nodes share tiles by STORAGE, and a requeued job continues with them."""
    settings = ("MODEL=kernel", "DATA=digits", "QUBITS=6", "WORKERS=2", "RUN=r")
    command = [sys.executable, "-m", "training", f"STORAGE={tmp_path}/local", *settings]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    slurm = tmp_path / "slurm"
    client = cluster.train(f"STORAGE={slurm}", *settings, "CPU=1")
    wait_until(lambda: list(slurm.glob("r/kernel/*/*.bin")), 90)
    os.kill(cluster.workers(slurm)[1], signal.SIGKILL)
    before = {path: path.stat().st_mtime_ns for path in slurm.glob("r/kernel/*/*.bin")}
    assert "start 2" in client.wait(0)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert weights(slurm) == weights(tmp_path / "local")


@pytest.mark.nightly
def test_pulse_of_a_killed_worker_has_equal_weights(cluster: SlurmCluster, tmp_path: Path) -> None:
    """Workers on two nodes share starts, and a requeued job continues their evaluations."""
    noise = "NOISE=examples/tasks/two_transmons.yaml"
    settings = ("TASK=gate", "DATA=cz", noise, "INITIALIZATIONS=4", "WORKERS=2", "RUN=r")
    command = [sys.executable, "-m", "training", f"STORAGE={tmp_path}/local", *settings]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    slurm = tmp_path / "slurm"
    client = cluster.train(f"STORAGE={slurm}", *settings, "CPU=1")
    wait_until(lambda: [one for one in slurm.glob("r/pulse/**/*") if one.is_file()], 90)
    os.kill(cluster.workers(slurm)[1], signal.SIGKILL)
    assert "start 2" in client.wait(0)
    assert weights(slurm) == weights(tmp_path / "local")


@pytest.mark.nightly
def test_cancelled_job_is_not_requeued_and_resumes(
    cluster: SlurmCluster, reference: bytes, tmp_path: Path
) -> None:
    """The job that a user cancelled stays cancelled; the next one resumes its run."""
    client = cluster.train_20_epochs(tmp_path)
    number = re.search(r"job (\d+)", client.output)
    assert number is not None
    cluster.run("scancel", number[1])
    assert "was cancelled" in client.wait(143)
    assert cluster.run("squeue", "--noheader", "--states=PENDING,RUNNING") == ""
    output = cluster.train(f"STORAGE={tmp_path}", *SETTINGS).wait_resumed()
    assert f"job {int(number[1]) + 1} " in output
    assert weights(tmp_path) == reference


@pytest.mark.nightly
def test_sigterm_of_slurm_is_requeued_with_equal_weights(
    cluster: SlurmCluster, reference: bytes, tmp_path: Path
) -> None:
    """Ctrl-C leaves the job; SIGTERM, as before a time limit, leads to a requeue."""
    client = cluster.train_20_epochs(tmp_path)
    assert "keeps running" in client.interrupt()
    selected = ("TARGET=slurm", f"STORAGE={tmp_path}", "RUN=r")
    assert "RUNNING on node[1-2]" in cluster.client("status", *selected)
    number = cluster.run("squeue", "--noheader", "--format=%i").strip()
    cluster.run("scancel", "--signal=TERM", number)
    output = cluster.train(f"STORAGE={tmp_path}", *SETTINGS).wait(0)
    assert f"job {number} already exists" in output
    assert f"Requeueing job {number}" in cluster.client("logs", *selected)
    assert weights(tmp_path) == reference


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        ("PARTITION=nowhere", "PARTITION=nowhere: .*choose one of main"),
        ("CPU=64", "PartitionConfig.*CPU"),
        ("SLURM_ARGS=--constraint=absent", "SLURM_ARGS=--constraint=absent: no node has these"),
        ("TIME_LIMIT=soon", "TIME_LIMIT=soon"),
        (
            "SLURM_ARGS=--segment=4",
            r"--segment .* came with Slurm 24\.05, and this is Slurm 22\.05",
        ),
        ("SLURM_ARGS=--consolidate=1", r"--consolidate .* not an option of this Slurm \(22\.05\)"),
    ],
)
def test_refused_request_exits_2_and_leaves_nothing(
    cluster: SlurmCluster, tmp_path: Path, setting: str, found: str
) -> None:
    """One sentence, and no folder of a run."""
    output = cluster.client(
        "run", f"STORAGE={tmp_path}", *SETTINGS, "TARGET=slurm", setting, code=2
    )
    *_, line = output.splitlines()
    assert re.search(found, line), output
    assert not list(tmp_path.iterdir())
