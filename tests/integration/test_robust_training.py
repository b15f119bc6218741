"""Real trainings with noiseless gradients, normalised readouts and a sampler, and inference."""

import json
import re
from pathlib import Path

import pytest

from tests.support.training_processes import (
    assert_killed_run_has_equal_weights,
    inference_output,
    training_processes,
)

pytestmark = pytest.mark.exhaustive

start = pytest.fixture(training_processes)

NOISE = "NOISE=two-qubit-depolarizing:0.01,over-rotation:0.05,crosstalk:0.02"
STATE = ("TASK=state", "DATA=ghz", "MODEL=hardware-efficient", "QUBITS=3", "LAYERS=2", "EPOCHS=60",
         "GRADIENT=noiseless", NOISE)  # fmt: skip
DIGITS = ("DATA=digits", "CLASSES=0,1,2", "QUBITS=4", "EPOCHS=12", "TRAIN_EXAMPLES=128",
          "NORMALIZE_READOUTS=true", "NOISE=depolarizing:0.01")  # fmt: skip
COMMON = ("INITIALIZATIONS=1", "RUN=r", "WORKERS=2")


def infer(storage: Path, *args: str) -> list[float]:
    """Return the metrics of the model that inference prints."""
    (found,) = re.findall(r"^h[-\w]+ +([0-9. ]+)$", inference_output(storage, *args), re.MULTILINE)
    return [float(number) for number in found.split()]


@pytest.mark.nightly
@pytest.mark.parametrize("settings", [STATE, DIGITS], ids=["noiseless", "normalized"])
def test_killed_training_resumes_with_equal_weights(start, tmp_path, settings):
    assert_killed_run_has_equal_weights(
        start, tmp_path, *COMMON, *settings, "CHECKPOINT_INTERVAL=2"
    )


@pytest.mark.nightly
def test_normalized_inference_adapts_to_another_noise(start, tmp_path):
    trained = start(tmp_path, *COMMON, *DIGITS, "GRADIENT=noiseless")
    assert trained.wait() == 0, trained.output
    result = json.loads((tmp_path / "r" / "result.json").read_text())
    recorded = list(result["metrics"]["test"].values())[:2]
    assert infer(tmp_path) == pytest.approx(recorded, abs=1e-3)
    other = infer(tmp_path, "NOISE=depolarizing:0.05")
    assert infer(tmp_path, "NOISE=depolarizing:0.05", "PARALLELISM=2") == other
    assert other[1] > recorded[1] - 0.2


def test_sampler_trains_and_inference_computes_without_it(start, tmp_path, monkeypatch):
    (tmp_path / "my_sampler.py").write_text(
        "import cirq\n\ndef build(settings):\n    return cirq.DensityMatrixSimulator(seed=1)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    settings = [*STATE[:3], "QUBITS=2", "LAYERS=1", "EPOCHS=15", "LEARNING_RATE=0.4", NOISE]
    sampler = ("SAMPLER=my_sampler:build", "SHOTS=300", "WORKERS=1")
    trained = start(tmp_path, *COMMON, *settings, *sampler)
    assert trained.wait() == 0, trained.output
    (tmp_path / "my_sampler.py").rename(tmp_path / "moved.py")
    (infidelity, fidelity) = infer(tmp_path)[:2]
    assert infidelity + fidelity == pytest.approx(1, abs=1e-3)
    assert fidelity > 0.8
