"""Real trainings that drop angles, a worker that is killed after that, and inference."""

import json
import re

import numpy as np
import pytest

from tests.support.training_processes import inference_output, training_processes

pytestmark = pytest.mark.exhaustive

start = pytest.fixture(training_processes)

ENERGY = ("TASK=energy", "DATA=tfim:4:1.0", "MODEL=hardware-efficient", "LAYERS=4", "QUBITS=4",
          "EPOCHS=150", "INITIALIZATIONS=1", "RUN=r", "PRUNE=0.7", "LEARNING_RATE=0.05",
          "WORKERS=1")  # fmt: skip
LABELLED = ("QUBITS=4", "EPOCHS=60", "INITIALIZATIONS=2", "INITIALIZATION_EPOCHS=3", "PRUNE=0.6",
            "TRAIN_EXAMPLES=100", "VALIDATION_EXAMPLES=50", "TEST_EXAMPLES=100", "RUN=r",
            "WORKERS=2", "REPRODUCIBLE=true", "KEEP_BEST=true",
            "NOISE=depolarizing:0.01")  # fmt: skip


def pruned_angles(run) -> list[float]:
    """Return the dropped angles by epoch."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["pruned_angles"] for line in lines]


@pytest.mark.nightly
def test_worker_killed_after_pruning_ends_with_equal_weights(start, tmp_path):
    found = []
    for name in ("calm", "killed"):
        storage, run = tmp_path / name, tmp_path / name / "r"
        storage.mkdir()
        trained = start(storage, *LABELLED)
        if name == "killed":
            trained.wait_until(
                lambda run=run: (run / "metrics.jsonl").exists() and sum(pruned_angles(run)[:-1])
            )
            trained.worker(1).kill()
        assert trained.wait() == 0, trained.output
        assert ("restart" in trained.output.lower()) == (name == "killed")
        (last,) = sorted((run / "checkpoints").glob("*.npz"))[-1:]
        found.append((np.load(last), pruned_angles(run)))
    (calm, calm_angles), (killed, killed_angles) = found
    assert calm_angles == killed_angles
    for name in calm.files:
        np.testing.assert_array_equal(calm[name], killed[name])


def test_pruned_training_predicts_as_recorded(start, tmp_path):
    from common.runs.loading import load

    trained = start(tmp_path, *ENERGY)
    assert trained.wait() == 0, trained.output
    result = json.loads((tmp_path / "r" / "result.json").read_text())
    dropped, angles = result["pruned"]["dropped"], result["pruned"]["angles"]
    assert 0 < dropped <= 0.7 * angles
    assert dropped == pruned_angles(tmp_path / "r")[-1]
    (energy,) = re.findall(r"^hardware-efficient +(\S+)", inference_output(tmp_path), re.MULTILINE)
    assert float(energy) == pytest.approx(result["metrics"]["test"]["energy"], abs=1e-4)
    (circuit,) = load("r", str(tmp_path)).circuits
    values = np.array(list(circuit.trained.values()))
    assert (values == 0).sum() == dropped
    assert len(list(circuit.circuit.all_operations())) < angles + 3 * 4 - dropped + 1
