"""Populations while a pulse lasts, and tables of amplitudes."""

import csv
from dataclasses import replace

import cirq
import numpy as np
import pytest

from qfleet.errors import ArgumentError
from qfleet.pulses import (
    Grid,
    Propagator,
    Transmons,
    amplitude_table,
    decay_limit,
    drive,
    populations,
)
from qfleet.pulses.fidelity import GateFidelity
from tests.support.pulse_circuits import (
    NAMES,
    POINT,
    TRANSMON,
    one_qubit_gate,
    two_qubit_gate,
)

NUMBERS = dict(zip(NAMES, POINT, strict=True))


@pytest.mark.parametrize("gate", [one_qubit_gate(), two_qubit_gate()], ids=["one", "two"])
def test_populations_end_at_the_propagator(gate: cirq.Gate) -> None:
    resolved = cirq.resolve_parameters(gate, NUMBERS)
    propagator, amplitudes = resolved.propagator, resolved.amplitudes
    found = populations(propagator, amplitudes)
    states = 2 ** len(propagator.levels)
    assert found.shape == (propagator.grid.samples + 1, states, propagator.dimension)
    np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-12)
    places = [0, 1] if states == 2 else [0, 1, 3, 4]
    np.testing.assert_array_equal(found[0], np.eye(propagator.dimension)[places])
    wanted = np.abs(propagator(amplitudes)[:, places].T) ** 2
    np.testing.assert_allclose(found[-1], wanted, atol=1e-12)
    leakage = 1 - found[-1][:, places].sum() / states
    assert resolved.leakage == pytest.approx(leakage, abs=1e-12)


def test_populations_refuse_several_devices_and_decay() -> None:
    gate = cirq.resolve_parameters(one_qubit_gate(), NUMBERS)
    several = replace(gate.propagator, devices=Transmons([TRANSMON]).perturbed(frequency=[0, 0.1]))
    decaying = replace(gate.propagator, decay=True)
    for wrong in (several, decaying):
        with pytest.raises(ArgumentError, match="devices"):
            populations(wrong, gate.amplitudes)
    with pytest.raises(ArgumentError, match="devices"):
        several.samples(gate.amplitudes)


def test_table_has_a_row_per_sample() -> None:
    gate = cirq.resolve_parameters(two_qubit_gate(), NUMBERS)
    rows = [*csv.reader(amplitude_table(gate).splitlines())]
    assert rows[0] == ["time_ns", "in_phase_0", "in_phase_1", "coupler_0_1"]
    assert [float(row[0]) for row in rows[1:]] == [at + 0.5 for at in range(10)]
    np.testing.assert_array_equal(np.array(rows[1:], float)[:, 1:], gate.amplitudes)
    with pytest.raises(ArgumentError, match="symbol a"):
        amplitude_table(two_qubit_gate())


@pytest.mark.parametrize("qubits", [1, 2])
def test_decay_limit_is_the_fidelity_of_waiting(qubits: int) -> None:
    times = replace(TRANSMON, levels=2, t1=200.0, t2=150.0), replace(TRANSMON, levels=2, t1=300.0)
    device, grid = Transmons(times[:qubits]), Grid(20, 1)
    waiting = Propagator(device, drive(0), grid, decay=True)(np.zeros((20, 2)))
    found = GateFidelity(np.eye(2**qubits), device.levels)
    wanted = found.of_channels(waiting[np.newaxis], np.zeros(qubits)).fidelity[0]
    assert decay_limit(device, 20) == pytest.approx(wanted, abs=1e-12)
    assert decay_limit(Transmons([TRANSMON]), 20) == 1
    with pytest.raises(ArgumentError, match="duration"):
        decay_limit(device, 0)
