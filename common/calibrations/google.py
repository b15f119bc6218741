"""Calibrations in the package cirq-google: medians over some weeks of Google's devices."""

from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from qfleet.devices.calibration import Calibration
from qfleet.devices.qubit_names import ordered
from qfleet.devices.rates import PairCalibration, QubitCalibration
from qfleet.noise_rates import MAX_READOUT_ERROR

if TYPE_CHECKING:
    import cirq
    import cirq_google

PACKAGE = "cirq-google"

NAMES = ("rainbow", "weber", "willow_pink")

_MAX_ERROR = 0.5
_GATES = {"CZPowGate": "cz", "ISwapPowGate": "sqrt_iswap"}


def names() -> list[str]:
    """Return the names of all devices."""
    return list(NAMES)


def read(name: str) -> tuple[Calibration, str, str]:
    """Return the calibration of a device, its date, and its source.

    Args:
        name: One of `names()`.
    """
    from cirq_google.engine import load_device_noise_properties, load_median_device_calibration

    properties = load_device_noise_properties(name)
    measured = load_median_device_calibration(name).timestamp / 1000
    kinds = {one.gate_type.__name__ for one in properties.gate_pauli_errors}
    kind, gate = next(pair for pair in _GATES.items() if pair[0] in kinds)
    times = {one.__name__: duration for one, duration in properties.gate_times_ns.items()}
    pulses = _averages(properties, "PhasedXZGate")
    qubits = {}
    for qubit, t1 in properties.t1_ns.items():
        error, read = pulses.get((qubit,)), properties.readout_errors.get(qubit)
        if error is None or read is None or max(read) > MAX_READOUT_ERROR:
            continue
        # 1 / T2 = 1 / T_phi + 1 / (2 T1)
        t2 = 1 / (1 / properties.tphi_ns[qubit] + 0.5 / t1)
        qubits[_name(qubit)] = QubitCalibration(
            t1 / 1e3, t2 / 1e3, error, times["PhasedXZGate"], *map(float, read)
        )
    pairs = {
        ordered(*map(_name, pair)): PairCalibration(error, times[kind])
        for pair, error in _averages(properties, kind).items()
        if {*map(_name, pair)} <= qubits.keys()
    }
    date = datetime.fromtimestamp(measured, UTC).strftime("%Y-%m-%d")
    calibration = Calibration(name, gate, "phased_x", qubits, pairs)
    return calibration, date, f"{PACKAGE} {version(PACKAGE)}"


def _name(qubit: "cirq.GridQubit") -> str:
    return f"{qubit.row}_{qubit.col}"


def _averages(
    properties: "cirq_google.GoogleNoiseProperties", kind: str
) -> dict[tuple["cirq.GridQubit", ...], float]:
    """Return the average infidelity of a kind of gate, by its qubits.

    A Pauli error is larger by 1 + 1 / d, where d is the dimension.
    """
    found = {
        one.qubits: error / (1 + 0.5 ** len(one.qubits))
        for one, error in properties.gate_pauli_errors.items()
        if one.gate_type.__name__ == kind
    }
    return {qubits: error for qubits, error in found.items() if error <= _MAX_ERROR}
