"""Devices: their calibrations, circuits mapped to them, and their noise.

The names below are imported when they are first used: Cirq takes seconds.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qfleet.devices.calibration import Calibration
    from qfleet.devices.coherent import with_coherent_errors
    from qfleet.devices.fidelity import predict_fidelity
    from qfleet.devices.mapping import MappedCircuit, map_to_device
    from qfleet.devices.noise import add_device_noise
    from qfleet.devices.rates import PairCalibration, QubitCalibration

_MODULES = {
    "Calibration": "calibration",
    "MappedCircuit": "mapping",
    "PairCalibration": "rates",
    "QubitCalibration": "rates",
    "add_device_noise": "noise",
    "map_to_device": "mapping",
    "predict_fidelity": "fidelity",
    "with_coherent_errors": "coherent",
}

__all__ = [
    "Calibration",
    "MappedCircuit",
    "PairCalibration",
    "QubitCalibration",
    "add_device_noise",
    "map_to_device",
    "predict_fidelity",
    "with_coherent_errors",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'qfleet.devices' has no attribute {name!r}")
    return getattr(importlib.import_module(f"qfleet.devices.{_MODULES[name]}"), name)
