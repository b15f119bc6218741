"""A training whose circuits run on a device, compared with one on the CPU.

QFLEET_TEST_DEVICE names the device, as for test_device_engine.py.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.training_processes import ROOT, distance, inference_output, training_processes

pytest.importorskip("tensorflow", exc_type=ImportError)

DEVICE = os.environ.get("QFLEET_TEST_DEVICE", "host")
TOLERANCE = 1e-4  # of trained weights, after 6 steps
SMALL = (
    *("QUBITS=4", "WORKERS=2", "EPOCHS=3", "INITIALIZATIONS=1", "BATCH=16", "RUN=r"),
    *("TRAIN_EXAMPLES=32", "VALIDATION_EXAMPLES=16", "TEST_EXAMPLES=16"),
)

start = pytest.fixture(training_processes)


@pytest.fixture(scope="module", autouse=True)
def device_library() -> None:
    """Build the library of the device."""
    option = ["--host"] if DEVICE == "host" else []
    command = [sys.executable, "-m", "qfleet.native.cuda", *option]
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
