"""Real trainings of circuits with noise, and inference with the same noise, another, and none."""

import json
import re
from pathlib import Path

import cirq
import pytest

from tests.support.devices import made_up_device, write_device
from tests.support.training_processes import (
    assert_killed_run_has_equal_weights,
    checkpoints,
    inference_output,
    training_processes,
)

pytestmark = pytest.mark.exhaustive

start = pytest.fixture(training_processes)

SAMPLED = ("SHOTS=200", "TRAJECTORIES=20")
NOISY = ("QUBITS=4", "EPOCHS=4", "INITIALIZATIONS=1", "TRAIN_EXAMPLES=100", "RUN=r",
         "VALIDATION_EXAMPLES=50", "TEST_EXAMPLES=100", "WORKERS=2",
         "NOISE=depolarizing:0.01,amplitude-damping:0.02,readout:0.03")  # fmt: skip


def infer(storage: Path, *args: str) -> float:
    """Return the mean squared error that inference prints."""
    (found,) = re.findall(r"^hybrid +(\S+)", inference_output(storage, *args), re.MULTILINE)
    return float(found)


def test_noisy_training_and_inference(start, tmp_path):
    from common.runs.loading import load

    trained = start(tmp_path, *NOISY, "WORKERS=1")
    assert trained.wait() == 0, trained.output
    result = json.loads((tmp_path / "r" / "result.json").read_text())
    recorded = result["metrics"]["test"]["mse"]
    assert infer(tmp_path) == pytest.approx(recorded, abs=1e-4)
    assert abs(infer(tmp_path, "NOISE=none") - recorded) > 1e-3
    circuit = load("r", str(tmp_path)).circuit
    channels = {type(one.gate) for one in circuit.all_operations() if not cirq.has_unitary(one)}
    assert channels >= {cirq.DepolarizingChannel, cirq.AmplitudeDampingChannel}


@pytest.mark.nightly
def test_inference_samples_and_mitigates(start, tmp_path):
    trained = start(tmp_path, *NOISY, "WORKERS=1")
    assert trained.wait() == 0, trained.output
    recorded = json.loads((tmp_path / "r" / "result.json").read_text())["metrics"]["test"]["mse"]
    ideal = infer(tmp_path, "NOISE=none")
    sampled = [infer(tmp_path, "SHOTS=5", *extra) for extra in ((), ("PARALLELISM=2", "BATCH=16"))]
    assert sampled[0] == pytest.approx(sampled[1], abs=1e-4)
    assert abs(sampled[0] - recorded) > 1e-3
    noise = "NOISE=depolarizing:0.001,readout:0.03"
    noisy = infer(tmp_path, noise)
    mitigated = infer(tmp_path, noise, "ZNE=1,3,5")
    assert abs(mitigated - ideal) < 0.5 * abs(noisy - ideal)


@pytest.mark.nightly
def test_circuits_on_a_device_train_and_predict(start, tmp_path):
    device = write_device(tmp_path)
    other = write_device(tmp_path / "other", made_up_device(p10=0.3))
    noisy = [*NOISY[:-1], f"NOISE={device}", "WORKERS=1"]
    trained = start(tmp_path, *noisy)
    assert trained.wait() == 0, trained.output
    device.unlink()  # the run has its content
    result = json.loads((tmp_path / "r" / "result.json").read_text())
    recorded = result["metrics"]["test"]["mse"]
    assert infer(tmp_path) == pytest.approx(recorded, abs=1e-4)
    others = [infer(tmp_path, f"NOISE={noise}") for noise in ("none", "readout:0.3", other)]
    assert min(abs(one - recorded) for one in others) > 1e-3


def test_run_with_other_calibration_is_refused(start, tmp_path):
    noisy = [*NOISY[:-1], "EPOCHS=1000", "WORKERS=1"]
    begun = start(tmp_path, *noisy, f"NOISE={write_device(tmp_path)}")
    begun.wait_until(lambda: checkpoints(tmp_path / "r"))
    begun.close()
    changed = write_device(tmp_path, made_up_device(t1=50.0))
    resumed = start(tmp_path, *noisy, f"NOISE={changed}")
    assert resumed.wait() == 2
    assert "NOISE=made_up (sha256" in resumed.output


@pytest.mark.nightly
@pytest.mark.parametrize("samples", [(), SAMPLED], ids=["exact", "sampled"])
def test_killed_noisy_training_resumes_with_equal_weights(start, tmp_path, samples):
    assert_killed_run_has_equal_weights(
        start, tmp_path, *NOISY, *samples, "EPOCHS=40", "CHECKPOINT_INTERVAL=5"
    )


@pytest.mark.nightly
def test_sampled_training_has_equal_weights_for_any_workers(start, tmp_path):
    found = []
    for workers in (1, 3):
        storage = tmp_path / str(workers)
        storage.mkdir()
        trained = start(storage, *NOISY, *SAMPLED, "REPRODUCIBLE=true", f"WORKERS={workers}")
        assert trained.wait() == 0, trained.output
        result = json.loads((storage / "r" / "result.json").read_text())
        found.append((result["weights"]["sha256"], result["metrics"]["test"]))
    assert found[0] == found[1]
    recorded = found[0][1]["mse"]
    assert infer(tmp_path / "3") == pytest.approx(recorded, abs=1e-4)
