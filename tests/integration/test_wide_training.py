"""Trainings of more qubits than a state vector has: contraction, resuming, inference, planning."""

import numpy as np
import pytest

from common import runs
from common.settings import Settings
from planning.workload_analysis import analyze_workload
from tests.support.training_processes import training_processes
from training.contraction_paths import FILE

pytestmark = pytest.mark.exhaustive

start = pytest.fixture(training_processes)

WIDE = (
    "LAYERS=1", "TRAIN_EXAMPLES=100", "VALIDATION_EXAMPLES=30", "TEST_EXAMPLES=50",
    "BATCH=32", "INITIALIZATIONS=1", "EPOCHS=12",
)  # fmt: skip


def weights(storage):
    return runs.load("hybrid", str(storage)).model.get_weights()


@pytest.fixture
def no_search(tmp_path):
    """Return an environment in which no contraction path can be searched."""
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "cotengra.py").write_text("raise RuntimeError('a path was searched')\n")
    return {"PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(tmp_path / "empty")}


@pytest.mark.nightly
def test_1024_qubits_survive_a_kill_and_predict(start, tmp_path, no_search):
    settings = ("QUBITS=1024", *WIDE, "WORKERS=2")
    whole = start(tmp_path / "whole", *settings)
    assert whole.wait() == 0, whole.output
    assert "Circuit 0: tensor networks of width 4" in whole.output

    killed = start(tmp_path / "killed", *settings)
    run = tmp_path / "killed" / "hybrid"
    killed.wait_until(lambda: (run / "metrics.jsonl").exists())
    killed.worker(1).kill()
    assert killed.wait() == 0, killed.output
    for found, wanted in zip(
        weights(tmp_path / "killed"), weights(tmp_path / "whole"), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)

    (loaded,) = runs.load("hybrid", str(tmp_path / "whole")).circuits
    assert len(loaded.circuit.all_qubits()) == 1024
    inference = start(tmp_path / "whole", module="inference", **no_search)
    assert inference.wait() == 0, inference.output
    report = (tmp_path / "whole" / "hybrid" / "predictions" / "report.html").read_text()
    assert "tensor networks of width 4" in report
    assert "Excerpt: the first 12 of 1,024 qubits" in report


@pytest.mark.nightly
def test_a_resumed_run_contracts_in_the_recorded_order(start, tmp_path, no_search):
    settings = ("QUBITS=40", *WIDE, "WORKERS=1")
    whole = start(tmp_path / "whole", *settings)
    assert whole.wait() == 0, whole.output
    stopped = start(tmp_path / "stopped", *settings)
    run = tmp_path / "stopped" / "hybrid"
    stopped.wait_until(lambda: (run / FILE).exists())
    stopped.close()
    resumed = start(tmp_path / "stopped", *settings, **no_search)
    assert resumed.wait() == 0, resumed.output
    for found, wanted in zip(weights(run.parent), weights(tmp_path / "whole"), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_width_without_a_plan_is_refused_before_the_run_starts(start, tmp_path):
    process = start(tmp_path, "QUBITS=128", "WORKERS=2", "EPOCHS=1", "INITIALIZATIONS=1")
    assert process.wait() == 2, process.output
    assert "set LAYERS=3, or POOLING=neighbours" in process.output
    assert "Traceback" not in process.output


def test_plan_says_that_circuits_are_contracted(tmp_path):
    settings = Settings.from_args(["QUBITS=64", "LAYERS=1", f"STORAGE={tmp_path}"])
    workload = analyze_workload(settings)
    assert (workload.qubits, workload.network_width) == (64, 4)
    assert workload.repeats
    assert workload.family == "hybrid by tensor networks"
    work = workload.tile_work[1]
    assert work[0] < work[-1] == pytest.approx(64)
