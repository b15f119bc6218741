"""Real trainings of TASK=gate: killed and resumed with the same bits, and their inference."""

import json
from pathlib import Path

import pytest

from tests.support.training_processes import distance, inference_output, training_processes

pytestmark = pytest.mark.nightly

start = pytest.fixture(training_processes)

DEVICE = """
name: pair
gate: cz
pulse: sx
qubits:
  0: {t1: 120, t2: 90, frequency: 5.03, anharmonicity: -0.336}
  1: {t1: 120, t2: 90, frequency: 5.128, anharmonicity: -0.336}
pairs:
  0-1: {exchange: 0.0018}
"""


def starts(storage: Path) -> list[Path]:
    return sorted(storage.glob("r/pulse/*/start-*.bin"))


def test_killed_gate_training_ends_with_the_same_bits(start, tmp_path):
    device = tmp_path / "device.yaml"
    device.write_text(DEVICE)
    settings = ("TASK=gate", "DATA=cz", f"NOISE={device}", "RUN=r", "EPOCHS=60")
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    for storage in (calm, killed):
        storage.mkdir()
    alone = start(calm, *settings, "WORKERS=1", "INITIALIZATIONS=4")
    assert alone.wait() == 0, alone.output
    trained = start(killed, *settings, "WORKERS=2", "INITIALIZATIONS=4")
    trained.wait_until(lambda: starts(killed))
    trained.worker(1).kill()
    assert trained.wait() == 0, trained.output
    assert "restart" in trained.output.lower()
    assert [one.read_bytes() for one in starts(calm)] == [
        one.read_bytes() for one in starts(killed)
    ]
    assert distance(calm / "r", killed / "r") == 0
    recorded = json.loads((killed / "r" / "result.json").read_text())["metrics"]["test"]
    assert recorded["fidelity"] > 0.99
    assert recorded["leakage"] < 1e-2
    printed = inference_output(killed, "PARALLELISM=2")
    assert "Training recorded" not in printed
    folder = killed / "r" / "predictions"
    page = (folder / "report.html").read_text()
    for heading in ("Envelopes", "Populations", "Sensitivity"):
        assert f"<h3>{heading}</h3>" in page
    assert "fidelity with T1 and T2" in page
    assert "<h2>Loss</h2>" not in page
    assert (folder / "pulse.csv").read_text().startswith("time_ns,detuning_1,coupler_0_1\n")
    assert json.loads((folder / "pulse.json").read_text())["cirq_type"] == "qfleet.PulseGate"
