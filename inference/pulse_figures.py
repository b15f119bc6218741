"""Figures of TASK=gate for the report: envelopes, populations, sensitivity; files of the pulse."""

from dataclasses import dataclass

import cirq
import numpy as np

from common import storage
from common.data.target import Target
from common.pulse_objectives import gate_of, pulse_objective
from common.settings import ModelSettings
from common.storage import StoragePath
from qfleet.errors import ArgumentError
from qfleet.pulses import (
    GateResult,
    PulseGate,
    Transmons,
    amplitude_table,
    decay_limit,
    populations,
)

POINTS = 21
"""Devices of each curve of the sensitivity."""

FREQUENCY_REACH, DRIVE_REACH = 1e-4, 0.01
"""Largest deviations there, if training has none: GHz, and relative."""

TIMES_TRAINED = 5
"""Largest deviations there, in units of the largest of training."""


@dataclass(frozen=True)
class Sensitivity:
    """Infidelities of one pulse on perturbed devices.

    Attributes:
        deviations: float64 [n]: POINTS in equal steps, and those of training; sorted.
        infidelities: float64 [n].
        trained: Deviations over which training averaged.
    """

    deviations: np.ndarray
    infidelities: np.ndarray
    trained: tuple[float, ...]


@dataclass(frozen=True)
class PulseFigures:
    """A pulse on its device.

    Attributes:
        gate: The pulse as a gate of a circuit; None if too much of it leaks.
        channels: Names of the channels.
        times: float64 [N], the middle of each sample in ns.
        amplitudes: float64 [N, C] in rad/ns.
        populations: float64 [N + 1, 2^n, D], see `qfleet.pulses.populations`.
        levels: Levels of each qubit.
        nominal: Fidelity and leakage without deviations.
        decayed: The fidelity with T1 and T2; None without them, or for too many levels.
        limit: What T1 and T2 leave to a perfect gate.
        step_error: Estimated error of the propagator by its steps.
        by_frequency: Sensitivity to the frequencies.
        by_drive: Sensitivity to the drives' strength.
    """

    gate: PulseGate | None
    channels: tuple[str, ...]
    times: np.ndarray
    amplitudes: np.ndarray
    populations: np.ndarray
    levels: tuple[int, ...]
    nominal: GateResult
    decayed: float | None
    limit: float
    step_error: float
    by_frequency: Sensitivity
    by_drive: Sensitivity


def measure_pulse(model: ModelSettings, target: Target, values: np.ndarray) -> PulseFigures:
    """Compute the figures of a trained pulse.

    Args:
        model: The settings of the training.
        target: The gate.
        values: [P + n] numbers of the pulse.
    """
    objective = pulse_objective(model, target)
    propagator, pulse = objective.propagator, objective.pulse
    amplitudes = pulse.sample(values[: len(pulse.names)])
    device = propagator.devices
    assert isinstance(device, Transmons)
    trained = gate_of(target)
    decayed = None
    if device.collapse_operators() and np.prod(device.levels) <= 16:
        channel = pulse_objective(model, target, decay=True)
        decayed = float(channel.result(values).fidelity[0])
    try:
        gate = PulseGate.from_objective(objective, values)
    except ArgumentError:  # more than 10 % leaks
        gate = None
    return PulseFigures(
        gate=gate,
        channels=tuple(
            f"{one.kind} {', '.join(map(str, one.qubits))}".replace("_", " ")
            for one in propagator.channels
        ),
        times=pulse.grid.times,
        amplitudes=amplitudes,
        populations=populations(propagator, amplitudes),
        levels=device.levels,
        nominal=objective.result(values),
        decayed=decayed,
        limit=decay_limit(device, pulse.grid.duration),
        step_error=propagator.error(amplitudes),
        by_frequency=_sensitivity(model, target, values, 0, trained.frequency, FREQUENCY_REACH),
        by_drive=_sensitivity(
            model, target, values, 1, tuple(one - 1 for one in trained.drive_strength), DRIVE_REACH
        ),
    )


def export(figures: PulseFigures, folder: StoragePath) -> None:
    """Write pulse.csv and pulse.json; nothing for a pulse that leaks too much.

    Args:
        figures: Those of the pulse.
        folder: Folder of the predictions.
    """
    if figures.gate is None:
        return
    storage.write_atomic(folder / "pulse.csv", amplitude_table(figures.gate).encode())
    storage.write_atomic(folder / "pulse.json", cirq.to_json(figures.gate).encode())


def _sensitivity(
    model: ModelSettings,
    target: Target,
    values: np.ndarray,
    column: int,
    trained: tuple[float, ...],
    reach: float,
) -> Sensitivity:
    largest = TIMES_TRAINED * max(map(abs, trained)) or reach
    deviations = np.union1d(np.linspace(-largest, largest, POINTS), trained)
    rows = np.zeros((len(deviations), 2))
    rows[:, column] = deviations
    found = pulse_objective(model, target, rows).result(values)
    return Sensitivity(deviations, 1 - found.fidelity, tuple(dict.fromkeys(trained)))
