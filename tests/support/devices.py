"""A made-up device, and its calibration as a file."""

from pathlib import Path

from common.calibrations.__main__ import write
from qfleet.devices import Calibration, PairCalibration, QubitCalibration
from qfleet.devices.qubit_names import ordered


def made_up_device(
    gate: str = "cz", pulse: str = "sx", qubits: int = 6, **rates: float
) -> Calibration:
    """Return a ring of qubits, one of which has the worst readout.

    Args:
        gate: The two-qubit gate.
        pulse: The gate on one qubit.
        qubits: Number of qubits.
        rates: Numbers of each qubit in place of the usual ones.
    """
    usual = {"t1": 80.0, "t2": 60.0, "error": 1e-3, "duration": 40.0, "p01": 0.02, "p10": 0.05}
    names = [str(number) for number in range(qubits)]
    found = {name: QubitCalibration(**{**usual, **rates}) for name in names}
    found[names[-1]] = QubitCalibration(**{**usual, "p01": 0.3, "p10": 0.4, **rates})
    pairs = {
        ordered(name, names[(at + 1) % qubits]): PairCalibration(round(0.01 + 0.001 * at, 4), 300.0)
        for at, name in enumerate(names)
    }
    return Calibration("made_up", gate, pulse, found, pairs)


def write_device(folder: Path, calibration: Calibration | None = None) -> Path:
    """Write a calibration to a folder and return the file."""
    path = folder / "made_up.yaml"
    write(path, calibration or made_up_device(), "2026-01-31", "a test")
    return path
