"""Calibrations in the package qiskit-ibm-runtime: snapshots of IBM's devices, read as files."""

import importlib.util
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from qfleet.devices.calibration import Calibration
from qfleet.devices.qubit_names import ordered
from qfleet.devices.rates import PairCalibration, QubitCalibration
from qfleet.noise_rates import MAX_READOUT_ERROR

PREFIX = "ibm_"

PACKAGE = "qiskit-ibm-runtime"

_FOLDER = "fake_provider/backends"
_TWO_QUBIT = ("cz", "ecr", "cx")
_PULSES = ("sx", "u2")
_MICROSECONDS = {"us": 1.0, "µs": 1.0, "ns": 1e-3, "ms": 1e3, "s": 1e6}
_NANOSECONDS = {name: 1e3 * factor for name, factor in _MICROSECONDS.items()}
_GIGAHERTZ = {"GHz": 1.0, "MHz": 1e-3, "kHz": 1e-6, "Hz": 1e-9}
_COUPLING = re.compile(r"jq(\d+)q(\d+)")
_MAX_ERROR = 0.5
"""Gates with a larger error are broken, and are left out."""


def names() -> list[str]:
    """Return the names of all devices with a two-qubit gate."""
    found = [folder.name for folder in _folder().iterdir() if _path(folder.name).is_file()]
    return sorted(f"{PREFIX}{name}" for name in found if name != "armonk")  # which has one qubit


def read(name: str) -> tuple[Calibration, str, str]:
    """Return the calibration of a device, its date, and its source.

    Args:
        name: One of `names()`.
    """
    path = _path(name.removeprefix(PREFIX))
    content = json.loads(path.read_text(encoding="utf-8"))
    gates = list(_gates(content))
    pulse = next(one for one in _PULSES if any(gate == one for gate, _, _ in gates))
    pulses = {qubits[0]: rates for gate, qubits, rates in gates if gate == pulse}
    qubits = {}
    for number, listed in enumerate(content["qubits"]):
        qubit = _qubit(listed, pulses.get(str(number)))
        if qubit:
            qubits[str(number)] = qubit
    pairs: dict[tuple[str, str], PairCalibration] = {}
    for gate, (first, *second), rates in gates:
        if gate not in _TWO_QUBIT or not {first, *second} <= qubits.keys():
            continue
        pair = ordered(first, second[0])
        if rates and (pair not in pairs or rates.error < pairs[pair].error):
            pairs[pair] = rates  # the better direction, to which pulses turn the other one
    date = str(content["last_update_date"])[:10]
    exchanges = _exchanges(name.removeprefix(PREFIX))
    coupled = {
        pair: replace(rates, exchange=exchanges.get(pair, 0.0)) for pair, rates in pairs.items()
    }
    calibration = Calibration(name, "cz", "sx", qubits, coupled)
    return calibration, date, f"{PACKAGE} {version(PACKAGE)}"


def _path(name: str) -> Path:
    return _folder() / name / f"props_{name}.json"


def _exchanges(name: str) -> dict[tuple[str, str], float]:
    """Return the known couplings g/2pi in GHz, from the Hamiltonian in rad/ns."""
    path = _folder() / name / f"conf_{name}.json"
    if not path.is_file():
        return {}
    variables = json.loads(path.read_text(encoding="utf-8")).get("hamiltonian", {}).get("vars", {})
    found = {}
    for key, value in variables.items():
        if match := _COUPLING.fullmatch(key):
            found[ordered(*match.groups())] = value / (2 * math.pi)
    return found


def _folder() -> Path:
    found = importlib.util.find_spec("qiskit_ibm_runtime")  # not imported: that takes seconds
    assert found
    assert found.origin
    return Path(found.origin).parent / _FOLDER


def _gates(content: Mapping[str, Any]) -> Iterator[tuple[str, list[str], PairCalibration | None]]:
    """Yield each gate: its name, its qubits, and its rates; None if it does not work."""
    for one in content["gates"]:
        found = {value["name"]: value for value in one["parameters"]}
        rates = None
        if "gate_error" in found and found["gate_error"]["value"] <= _MAX_ERROR:
            length = found.get("gate_length", {"value": 0.0, "unit": "ns"})
            duration = length["value"] * _NANOSECONDS[length["unit"]]
            rates = PairCalibration(found["gate_error"]["value"], duration)
        yield one["gate"], [str(number) for number in one["qubits"]], rates


def _qubit(listed: Any, pulse: PairCalibration | None) -> QubitCalibration | None:
    """Return a qubit; None if it does not work or was not measured."""
    found = {one["name"]: one for one in listed}
    try:
        t1, t2 = (found[key]["value"] * _MICROSECONDS[found[key]["unit"]] for key in ("T1", "T2"))
        p01, p10 = (found[key]["value"] for key in ("prob_meas1_prep0", "prob_meas0_prep1"))
    except KeyError:
        return None
    if pulse is None or min(t1, t2) <= 0 or max(p01, p10) > MAX_READOUT_ERROR:
        return None
    measured = {
        key: found[key]["value"] * _GIGAHERTZ[found[key]["unit"]]
        for key in ("frequency", "anharmonicity")
        if key in found and found[key]["unit"] in _GIGAHERTZ
    }
    return QubitCalibration(t1, t2, pulse.error, pulse.duration, p01, p10, **measured)
