"""`make calibration`: made-up contents of the packages become files, and mistakes one sentence."""

import json
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import cirq
import pytest

from common.calibrations import __main__ as command
from common.calibrations import google, ibm
from common.errors import SettingsError
from common.settings.noise_file import read_calibration
from qfleet.errors import ArgumentError
from qfleet.pulses import calibrated_transmons
from tests.support.devices import made_up_device


def value(name: str, number: float, unit: str = "") -> dict[str, Any]:
    return {"name": name, "value": number, "unit": unit}


def gate(name: str, qubits: list[int], error: float) -> dict[str, Any]:
    numbers = [value("gate_error", error), value("gate_length", 50.0, "ns")]
    return {"gate": name, "qubits": qubits, "parameters": numbers}


def snapshot(pair_error: float = 0.02) -> dict[str, Any]:
    """Return the properties of four qubits, the last of which was not measured."""
    qubit = [value("T1", 90.0, "us"), value("T2", 70.0, "µs"),
             value("frequency", 4.9716543, "GHz"), value("anharmonicity", -310.0, "MHz"),
             value("prob_meas1_prep0", 0.01), value("prob_meas0_prep1", 0.03)]  # fmt: skip
    return {
        "last_update_date": "2026-01-31T12:00:00Z",
        "qubits": [qubit, qubit, qubit, []],
        "gates": [
            *(gate("sx", [at], 0.001) for at in range(4)),
            gate("cx", [1, 0], pair_error),
            gate("cx", [0, 1], 0.9 * pair_error),
            gate("cx", [1, 2], 1.0),
            gate("cx", [2, 3], pair_error),
        ],
    }


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of made-up snapshots, and a current folder."""
    for name, content in (("small", snapshot()), ("broken", snapshot(0.9))):
        folder = tmp_path / "backends" / name
        folder.mkdir(parents=True)
        (folder / f"props_{name}.json").write_text(json.dumps(content))
    terms = {"hamiltonian": {"vars": {"jq0q1": 0.0117, "wq0": 31.2, "omegad0": 1.5}}}
    (tmp_path / "backends" / "small" / "conf_small.json").write_text(json.dumps(terms))
    monkeypatch.setattr(ibm, "_folder", lambda: tmp_path / "backends")
    for module in (ibm, google):
        monkeypatch.setattr(module, "version", lambda package: "1.0")
    monkeypatch.chdir(tmp_path)


def test_names_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 0
    assert capsys.readouterr().out.split()[-2:] == ["ibm_broken", "ibm_small"]


def test_ibm_snapshot_becomes_a_calibration(tmp_path: Path) -> None:
    assert command.main(["DEVICE=ibm_small"]) == 0
    device = read_calibration("ibm_small")
    assert list(device.qubits) == ["0", "1", "2"]
    assert {pair: one.error for pair, one in device.pairs.items()} == {("0", "1"): 0.018}
    qubit = device.qubits["0"]
    assert (qubit.t1, qubit.t2, qubit.error, qubit.duration) == (90, 70, 0.001, 50)
    assert (qubit.p01, qubit.p10) == (0.01, 0.03)
    assert "2026-01-31" in (tmp_path / "calibrations" / "ibm_small.yaml").read_text()


def test_ibm_snapshot_has_the_numbers_of_pulses() -> None:
    assert command.main(["DEVICE=ibm_small"]) == 0
    transmons = calibrated_transmons(read_calibration("ibm_small"), ["0", "1"])
    assert transmons.qubits[0].frequency == 4.971654
    assert transmons.qubits[0].anharmonicity == pytest.approx(-0.31)
    assert transmons.couplings[0].exchange == pytest.approx(0.0117 / (2 * math.pi), rel=1e-6)
    with pytest.raises(ArgumentError, match="frequency of qubit 0"):
        calibrated_transmons(made_up_device(), ["0"])


def test_google_calibration_has_average_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = cirq.GridQubit(2, 3), cirq.GridQubit(2, 4)
    errors = {
        OperationKey(cirq.PhasedXZGate, (a,)): 0.003,
        OperationKey(cirq.PhasedXZGate, (b,)): 0.003,
        OperationKey(cirq.CZPowGate, (b, a)): 0.01,
    }
    properties = SimpleNamespace(
        gate_pauli_errors=errors,
        gate_times_ns={cirq.PhasedXZGate: 25.0, cirq.CZPowGate: 42.0},
        t1_ns={a: 20_000.0, b: 20_000.0},
        tphi_ns={a: 40_000.0, b: 40_000.0},
        readout_errors={a: [0.01, 0.02], b: [0.01, 0.02]},
    )
    engine = ModuleType("cirq_google.engine")
    engine.load_device_noise_properties = lambda name: properties
    engine.load_median_device_calibration = lambda name: SimpleNamespace(timestamp=10**12)
    monkeypatch.setitem(sys.modules, "cirq_google", ModuleType("cirq_google"))
    monkeypatch.setitem(sys.modules, "cirq_google.engine", engine)
    device, date, _ = google.read("willow_pink")
    assert (device.gate, device.pulse, date) == ("cz", "phased_x", "2001-09-09")
    assert device.pairs["2_3", "2_4"].error == pytest.approx(0.008)
    assert device.qubits["2_3"].error == pytest.approx(0.002)
    assert device.qubits["2_3"].t2 == pytest.approx(20)


class OperationKey:
    """Stands for cirq.devices.noise_utils.OpIdentifier."""

    def __init__(self, gate_type: type, qubits: tuple[cirq.Qid, ...]) -> None:
        self.gate_type, self.qubits = gate_type, qubits


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["DEVICE=ibm_other"], "DEVICE=ibm_other"),
        (["DEVICE=ibm_broken"], "no two-qubit gate"),
        (["QUBITS=4"], "QUBITS=4"),
        (["DEVICE=ibm_small", "DEVICE=ibm_other"], "DEVICE=ibm_other"),
    ],
)
def test_mistakes_are_refused(arguments: list[str], words: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        command.main(arguments)
    assert words in str(caught.value)
    assert not (tmp_path / "calibrations").exists()
