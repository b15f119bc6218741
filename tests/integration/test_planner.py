"""A real plan, and a training with WORKERS=auto and BATCH=auto."""

import json
import os
import subprocess
import sys

import pytest

from common.settings import Settings
from tests.support.training_processes import ROOT, training_processes

start = pytest.fixture(training_processes)

WORKLOAD = (
    "QUBITS=4",
    "TRAIN_EXAMPLES=400",
    "VALIDATION_EXAMPLES=30",
    "TEST_EXAMPLES=50",
    "MODEL=qcnn",
)


@pytest.mark.exhaustive
def test_plan_is_measured_once_and_used_by_training(start, tmp_path):
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("QFLEET_", "TF_"))}
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    plan = subprocess.run(
        [sys.executable, "-m", "planning", *WORKLOAD, "QUICK=1", "APPLY=1",
         "PRICE_PER_WORKER_HOUR=2"],
        cwd=tmp_path, env={**clean, **cache, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert plan.returncode == 0, plan.stdout + plan.stderr
    assert "qcnn: 4 qubits" in plan.stdout
    assert "measured in" in plan.stdout
    assert "at 4 qubits and batch" in plan.stdout
    assert "price per" in plan.stdout
    chosen = Settings.from_args([f"CONFIG={tmp_path / 'plan.yaml'}"])
    assert (chosen.model.qubits, chosen.data.train_examples) == (4, 400)
    assert chosen.training.global_batch <= 400 / 16

    more = ("WORKERS=auto", "BATCH=auto", "EPOCHS=2", "INITIALIZATIONS=1", "PROFILER_PORT=0")
    training = start(tmp_path / "runs", *WORKLOAD, *more, **cache)
    assert training.wait() == 0, training.output
    workers, batch = chosen.training.workers, chosen.training.global_batch
    assert f"WORKERS={workers} BATCH={batch}: " in training.output
    assert "(cached measurements)" in training.output
    record = json.loads((tmp_path / "runs" / "qcnn" / "run.json").read_text())
    assert record["settings"]["batch"] == chosen.training.global_batch
    assert record["other"]["workers"] == chosen.training.workers


def test_plan_error_is_one_sentence(tmp_path):
    (tmp_path / "plan.yaml").write_text("epochs: 3\n")
    done = subprocess.run(
        [sys.executable, "-m", "planning", "APPLY=1"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("qfleet: APPLY would overwrite plan.yaml")
    assert done.stderr.count("\n") == 1
