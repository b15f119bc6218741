"""A training whose circuits run on a device, compared with one on the CPU.

QFLEET_TEST_DEVICE names the device, as for test_device_engine.py.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from common.devices import entered
from common.settings import Settings
from qfleet.engine import device_choice, devices, gpus
from tests.support.device_library import DEVICE, build_device_library
from tests.support.training_processes import distance, inference_output, training_processes

pytest.importorskip("tensorflow", exc_type=ImportError)

TOLERANCE = 1e-4  # of trained weights, after 6 steps
SMALL = (
    *("QUBITS=4", "WORKERS=2", "EPOCHS=3", "INITIALIZATIONS=1", "BATCH=16", "RUN=r"),
    *("TRAIN_EXAMPLES=32", "VALIDATION_EXAMPLES=16", "TEST_EXAMPLES=16"),
)

start = pytest.fixture(training_processes)


device_library = pytest.fixture(build_device_library, scope="module", autouse=True)


def test_training_on_a_device_equals_that_on_the_cpu(start: Callable, tmp_path: Path) -> None:
    recorded = []
    for device in ("cpu", DEVICE):
        process = start(tmp_path / device, *SMALL, f"DEVICE={device}")
        assert process.wait() == 0, process.output
        recorded.append(json.loads((tmp_path / device / "r/result.json").read_text())["device"])
        assert f"Device: {recorded[-1]}\n" in process.output
    assert recorded[0] == "cpu"
    assert recorded[1].startswith(DEVICE)
    assert 0 < distance(tmp_path / "cpu/r", tmp_path / DEVICE / "r") < TOLERANCE
    assert "accuracy" in inference_output(tmp_path / DEVICE, f"DEVICE={DEVICE}")


def test_model_with_noise_has_the_gradients_of_the_cpu() -> None:
    from common.models import build_model
    from common.models.device import device_of_circuits
    from qfleet.tensorflow.runtime import tf

    found = []
    for device in ("cpu", DEVICE):
        settings = Settings.from_args(["NOISE=depolarizing:0.01", "QUBITS=4", f"DEVICE={device}"])
        with entered(settings):
            tf.keras.utils.set_random_seed(1)
            model = build_model(4, settings)
        assert device_of_circuits(model).startswith(device)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)) ** 2)
        found.append(tape.gradient(loss, model.trainable_variables))
    assert np.abs(found[0][0]).max() > TOLERANCE
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("seconds", "wanted"), [(0.0, "cuda:0, "), (1e9, "cpu")])
def test_auto_of_a_model_is_the_faster_device(
    seconds: float, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from common.models import build_model
    from common.models.device import device_of_circuits

    if DEVICE == "host":  # which takes the place of a GPU
        monkeypatch.setattr(devices, "cuda_path", devices.host_path)
    monkeypatch.setattr(gpus, "may_use_gpu", lambda: True)
    monkeypatch.setattr(device_choice, "gpu_seconds", lambda *_: seconds)
    monkeypatch.setenv("QFLEET_DEVICE", "auto")
    model = build_model(4, Settings.from_values(qubits=4))
    assert device_of_circuits(model).startswith(wanted)
    assert np.isfinite(model(np.ones((2, 4), np.float32))).all()
