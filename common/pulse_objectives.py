"""The infidelity of a pulse for TASK=gate: device, channels and envelopes. Without TensorFlow."""

import json
import math
from dataclasses import replace

import cirq
import numpy as np

from common.data.target import Target
from common.errors import SettingsError
from common.settings import ModelSettings
from common.settings.gate_file import GateFile
from qfleet.devices.calibration import Calibration, short_name
from qfleet.devices.lines import best_line, inline_calibration
from qfleet.errors import LibraryError, NoiseError
from qfleet.pulses import (
    BSplineSeries,
    ControlChannel,
    GateObjective,
    GaussianFilter,
    Grid,
    Propagator,
    Pulse,
    Transmons,
    calibrated_transmons,
    drive,
)

STEP_ERROR = 1e-6
"""Largest error of a propagator by its steps, estimated by halving them."""

_CROSS = math.cos(math.pi / 4) * np.eye(4) - 1j * math.sin(math.pi / 4) * np.kron(
    np.diag([1, -1]), [[0, 1], [1, 0]]
)
UNITARIES = {
    "x": cirq.unitary(cirq.X),
    "sx": cirq.unitary(cirq.X**0.5),
    "cz": cirq.unitary(cirq.CZ),
    "iswap": cirq.unitary(cirq.ISWAP),
    "cr": _CROSS,
}
"""Matrices of the named gates, the first qubit leftmost."""


def gate_of(target: Target) -> GateFile:
    """Return the gate of a target of kind gate.

    Raises:
        DataError: It is damaged.
        ValueError: It is not JSON.
    """
    return GateFile.from_values(json.loads(target.gate), "the gate")


def pulse_objective(
    model: ModelSettings,
    target: Target,
    deviations: np.ndarray | None = None,
    *,
    decay: bool = False,
) -> GateObjective:
    """Return the infidelity of the pulse of a gate.

    Args:
        model: NOISE is the device.
        target: The gate.
        deviations: [B, 2] of perturbed devices: of the frequencies in GHz, and relative ones of the
            drives. By default the device itself.
        decay: Let T1 and T2 act.

    Raises:
        SettingsError: The device lacks qubits or numbers, or the pulse is impossible.
    """
    gate = gate_of(target)
    try:
        device = device_of(model, gate)
        grid = Grid(gate.duration, gate.dt)
        channels = _channels(gate, device)
        filtered = GaussianFilter(gate.bandwidth) if gate.bandwidth else None
        pulse = Pulse([(BSplineSeries(grid, gate.numbers), one) for one in channels], filtered)
        devices = device if deviations is None else _perturbed(device, deviations)
        steps = Propagator(device, pulse.channels, grid, order=4).within(
            STEP_ERROR, np.zeros((grid.samples, len(channels)))
        )
        propagator = replace(steps, devices=devices, decay=decay)
        unitary = UNITARIES[gate.gate] if gate.gate else np.array(gate.unitary)
        return GateObjective(propagator, pulse, unitary)
    except LibraryError as error:
        title = gate.gate or "a unitary"
        raise SettingsError(
            f"a pulse for {title} on NOISE={short_name(model.noise)} is impossible: {error}"
        ) from None


def device_of(model: ModelSettings, gate: GateFile) -> Transmons:
    """Return the qubits of NOISE that a gate acts on.

    Args:
        model: NOISE is used.
        gate: The gate.

    Raises:
        LibraryError: The device lacks qubits or numbers.
    """
    calibration = inline_calibration(model.noise)
    names = gate.qubits or best_qubits(calibration, gate.width)
    device = calibrated_transmons(calibration, names, levels=gate.levels)
    if "cross-drive" not in gate.controls:
        return device
    last = device.qubits[-1].frequency
    qubits = tuple(replace(one, drive_frequency=last) for one in device.qubits)
    return replace(device, qubits=qubits)


def best_qubits(calibration: Calibration, count: int) -> tuple[str, ...]:
    """Return the line of qubits with the lowest errors, among those with known couplings.

    Args:
        calibration: The device.
        count: Number of qubits.

    Raises:
        NoiseError: There is no such line.
    """
    if count > 1 and not calibration.pairs:
        raise NoiseError(
            f"the calibration of {calibration.name} has no pairs: add their exchange in GHz to its"
            " file"
        )
    coupled = {pair: one for pair, one in calibration.pairs.items() if one.exchange or one.zz}
    return best_line(replace(calibration, pairs=coupled or calibration.pairs), count)


def _channels(gate: GateFile, device: Transmons) -> list[ControlChannel]:
    found: list[ControlChannel] = []
    for kind in gate.controls:
        if kind in ("drive", "cross-drive"):
            for qubit in range(gate.width):
                found += drive(qubit, bound=gate.drive)
        elif kind == "detuning":
            frequencies = [one.frequency for one in device.qubits]
            highest = max(range(gate.width), key=frequencies.__getitem__)
            found.append(ControlChannel("detuning", (highest,), gate.detuning))
        else:
            found.append(ControlChannel("coupler", (0, 1), gate.coupler))
    return found


def _perturbed(device: Transmons, deviations: np.ndarray) -> list[Transmons]:
    return [
        one
        for shift, factor in np.asarray(deviations, np.float64)[:, :2].tolist()
        for one in device.perturbed(frequency=[shift], drive_strength=[1 + factor])
    ]
