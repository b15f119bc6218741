"""A study whose trials are tasks of an array, in a real Slurm of two nodes."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.support.patience import seconds
from tests.support.slurm import SlurmCluster

TRIALS = (
    "NAME=s", "SEEDS=0,1", "LAYERS=1,2", "MODEL=hybrid", "QUBITS=4", "EPOCHS=2", "CPU=1",
    "TRAIN_EXAMPLES=40", "VALIDATION_EXAMPLES=10", "TEST_EXAMPLES=20", "PARALLELISM=3",
)  # fmt: skip


@pytest.mark.nightly
def test_killed_study_follows_its_array(cluster: SlurmCluster, tmp_path: Path) -> None:
    """No trial is submitted twice, and a killed worker is requeued by its own task."""
    study = cluster.study(f"STORAGE={tmp_path}", *TRIALS)
    end = time.monotonic() + seconds(120)
    while not (workers := cluster.workers(tmp_path)):
        assert study.process.poll() is None, study.output
        assert time.monotonic() < end, study.output
        time.sleep(0.1)
    study.process.kill()
    study.process.wait()
    os.kill(workers[0], signal.SIGKILL)
    tasks = cluster.run("squeue", "--array", "--noheader", "--format=%F %j").splitlines()
    (array,) = set(tasks)
    assert array.endswith(" qfleet-s")
    output = cluster.study(f"STORAGE={tmp_path}", *TRIALS).wait(0)
    assert output.count(": finished") == 4
    logs = {path.name: path.read_text() for path in (tmp_path / "studies/s/slurm").iterdir()}
    number = array.split()[0]
    assert set(logs) == {f"job-{number}_{task}.log" for task in range(4)}
    assert sum("Requeueing job" in text for text in logs.values()) == 1
    rows = (tmp_path / "studies" / "s" / "trials.csv").read_text().splitlines()
    assert [row.split(",")[2] for row in rows[1:]] == ["finished"] * 4
    record = json.loads((tmp_path / "s-0003" / "run.json").read_text())
    assert record["other"]["study"] == "s"


@pytest.mark.nightly
def test_budget_cancels_the_array(cluster: SlurmCluster, tmp_path: Path) -> None:
    args = (f"STORAGE={tmp_path}", *TRIALS, "EPOCHS=3000", "BUDGET=12s")
    (tmp_path / "studies" / "s").mkdir(parents=True)
    forecast = {"shortest": 1.0, "longest": 1.0, "wall": 1.0, "worker": 1.0, "predicted": 1}
    (tmp_path / "studies" / "s" / "forecast.json").write_text(json.dumps(forecast))
    assert "BUDGET=12s is used up" in cluster.study(*args).wait(0)
    assert cluster.run("squeue", "--noheader") == ""


def test_unknown_partition_is_one_sentence(cluster: SlurmCluster, tmp_path: Path) -> None:
    output = cluster.study(f"STORAGE={tmp_path}", *TRIALS, "PARTITION=nowhere").wait(2)
    (line,) = [one for one in output.splitlines() if one.startswith("qfleet:")]
    assert re.search("PARTITION=nowhere.*choose one of main", line)
