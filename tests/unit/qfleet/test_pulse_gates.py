"""Fidelities of pulses as gates, their gradients, and pulses that are found for gates."""

import pickle
from dataclasses import replace

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.circuits.circuit_json import from_json, to_json
from qfleet.errors import ArgumentError
from qfleet.pulses import (
    BSplineSeries,
    ControlChannel,
    Coupling,
    GateObjective,
    Grid,
    PiecewiseConstant,
    Propagator,
    Pulse,
    PulseGate,
    Transmon,
    Transmons,
    drive,
    optimize,
)
from qfleet.pulses.fidelity import GateFidelity

RANDOM = np.random.default_rng(5)
TRANSMON = Transmon(frequency=5.0, anharmonicity=-0.3, levels=3)
PAIR = Transmons((TRANSMON, replace(TRANSMON, frequency=5.3)), (Coupling(0, 1, exchange=0.01),))


def random_unitary(size: int) -> np.ndarray:
    return cirq.testing.random_unitary(size, random_state=int(RANDOM.integers(1 << 31)))


def one_qubit(
    target: np.ndarray, *, duration: float, decay: bool = False, **deviations: list[float]
) -> GateObjective:
    """Return the objective of a gate on a transmon of three levels."""
    device = Transmons((TRANSMON,))
    if decay:
        device = Transmons((replace(TRANSMON, t1=30_000, t2=20_000),))
    devices = device.perturbed(**deviations) if deviations else device
    grid = Grid(duration, 0.5)
    i, q = drive(0, bound=0.6)
    pulse = Pulse([(BSplineSeries(grid, 6), i), (BSplineSeries(grid, 6), q)])
    propagator = Propagator(devices, pulse.channels, grid, decay=decay)
    return GateObjective(propagator, pulse, target)


def start_of(objective: GateObjective) -> np.ndarray:
    return np.random.default_rng(0).normal(size=len(objective.bounds)) * 0.05


def mean_over_states(target: np.ndarray, channel: np.ndarray, levels: int) -> float:
    """Return the fidelity of a one-qubit gate, averaged over six states (a 2-design)."""
    states = [[1, 0], [0, 1], [1, 1], [1, -1], [1, 1j], [1, -1j]]
    total = 0.0
    for state in states:
        vector = np.array(state) / np.linalg.norm(state)
        inside = np.zeros(levels, np.complex128)
        inside[:2] = vector
        after = (channel @ np.outer(inside, inside.conj()).ravel()).reshape(levels, levels)
        wanted = target @ vector
        total += (wanted.conj() @ after[:2, :2] @ wanted).real
    return total / len(states)


def test_fidelity_is_the_mean_over_states() -> None:
    unitary, target, angle = random_unitary(3), random_unitary(2), np.array([0.7])
    fidelity = GateFidelity(target, [3])
    rotated = np.diag([1, np.exp(-0.7j)]) @ target
    channel = np.kron(unitary, unitary.conj())
    wanted = mean_over_states(rotated, channel, 3)
    found = fidelity.of_unitaries(unitary[np.newaxis], angle)
    assert found.fidelity[0] == pytest.approx(wanted, abs=1e-12)
    by_channel = fidelity.of_channels(channel[np.newaxis], angle)
    assert by_channel.fidelity[0] == pytest.approx(wanted, abs=1e-12)
    assert by_channel.leakage == pytest.approx(found.leakage, abs=1e-12)
    np.testing.assert_allclose(by_channel.by_virtual_z, found.by_virtual_z, atol=1e-12)


def test_fidelity_of_the_gate_after_a_virtual_z_is_one() -> None:
    target = random_unitary(4)
    after = np.diag(np.exp(-1j * np.array([0, 0.3, -0.8, -0.5]))) @ target
    levels = [3, 2]
    unitary = np.eye(6, dtype=np.complex128)
    places = np.ix_([0, 1, 2, 3], [0, 1, 2, 3])
    unitary[places] = after
    found = GateFidelity(target, levels).of_unitaries(unitary[np.newaxis], np.array([-0.8, 0.3]))
    assert found.fidelity[0] == pytest.approx(1, abs=1e-12)
    assert found.leakage[0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("decay", [False, True])
def test_gradient_of_the_objective_agrees_with_differences(decay: bool) -> None:
    target = cirq.unitary(cirq.X**0.5)
    shifts, factors = [-0.003, 0.002], [0.98, 1.01]
    objective = one_qubit(target, duration=8, decay=decay, frequency=shifts, drive_strength=factors)
    values = start_of(objective)
    _, gradient = objective(values)
    for at in range(len(values)):
        found = []
        for shift in (-2, -1, 1, 2):
            moved = values.copy()
            moved[at] += shift * 1e-3
            found.append(objective(moved)[0])
        wanted = (found[0] - 8 * found[1] + 8 * found[2] - found[3]) / 12e-3
        assert gradient[at] == pytest.approx(wanted, abs=1e-7)


@pytest.mark.parametrize("gate", [cirq.X, cirq.X**0.5])
def test_optimize_finds_one_qubit_gates_without_leakage(gate: cirq.Gate) -> None:
    objective = one_qubit(cirq.unitary(gate), duration=16)
    result = optimize(objective, start_of(objective))
    assert result.fidelity.min() > 0.9999
    assert result.leakage.max() < 1e-4
    assert result.duration <= 20
    assert "fidelity 0.9999" in str(result) or "fidelity 1.0000" in str(result)


def test_optimize_over_devices_is_more_robust() -> None:
    target = cirq.unitary(cirq.X)
    deviations = {"frequency": [-0.001, 0.0, 0.001], "drive_strength": [0.98, 1.0, 1.02]}
    alone, robust = (one_qubit(target, duration=20), one_qubit(target, duration=20, **deviations))
    found = optimize(alone, start_of(alone))
    trained = optimize(robust, found.values, iterations=100)
    assert trained.fidelity.mean() > robust.result(found.values).fidelity.mean()


def test_optimize_finds_cz_with_a_tunable_coupler() -> None:
    grid = Grid(40, 1)
    flux = ControlChannel("detuning", (1,), bound=2.5)
    coupler = ControlChannel("coupler", (0, 1), bound=0.2)
    pulse = Pulse([(BSplineSeries(grid, 8), flux), (BSplineSeries(grid, 8), coupler)])
    propagator = Propagator(PAIR, pulse.channels, grid, order=4).within(1e-5, np.zeros((40, 2)))
    objective = GateObjective(propagator, pulse, cirq.unitary(cirq.CZ))
    results = []
    for seed in range(4):
        start = np.random.default_rng(seed).normal(size=len(objective.bounds)) * 0.3
        results.append(optimize(objective, start, iterations=200, infidelity=5e-4))
        if results[-1].fidelity[0] > 0.999:
            break
    assert max(one.fidelity[0] for one in results) > 0.999


def test_pulse_gate_in_a_circuit_is_compiled_and_saved() -> None:
    objective = one_qubit(cirq.unitary(cirq.X**0.5), duration=12)
    result = optimize(objective, start_of(objective))
    gate = PulseGate.from_objective(objective, result.values)
    wanted = cirq.unitary(cirq.X**0.5)
    assert cirq.allclose_up_to_global_phase(cirq.unitary(gate), wanted, atol=1e-3)
    assert gate.leakage == pytest.approx(result.leakage[0], abs=1e-12)
    assert gate.duration == cirq.Duration(nanos=12)
    a, b = cirq.LineQubit.range(2)
    circuit = cirq.Circuit(cirq.ry(sympy.Symbol("x")).on(a), gate.on(a), cirq.CZ(a, b), gate.on(b))
    assert "Pulse(12 ns)" in str(circuit)
    observables = [cirq.PauliSum.wrap(one) for one in (cirq.Z(a), cirq.X(b))]
    compiled = qfleet.compile(circuit, ["x"], observables=observables, dtype="complex128")
    simulator = cirq.Simulator(dtype=np.complex128)
    values = simulator.simulate_expectation_values(circuit, observables, {"x": 0.7})
    np.testing.assert_allclose(compiled.expectation([[0.7]])[0], np.real(values), atol=1e-10)
    both = [
        cirq.resolve_parameters(one, {"x": 0.7}) for one in (from_json(to_json(circuit)), circuit)
    ]
    cirq.testing.assert_allclose_up_to_global_phase(*map(cirq.unitary, both), atol=1e-7)
    assert pickle.loads(pickle.dumps(gate)) == gate


def test_pulse_gate_refuses_decay_several_devices_and_angles() -> None:
    objective = one_qubit(cirq.unitary(cirq.X), duration=8, decay=True)
    with pytest.raises(ArgumentError, match="decay"):
        PulseGate(objective.propagator, objective.pulse, np.zeros(12))
    several = one_qubit(cirq.unitary(cirq.X), duration=8, frequency=[0.0, 0.1])
    with pytest.raises(ArgumentError, match="one device"):
        PulseGate(several.propagator, several.pulse, np.zeros(12))
    alone = one_qubit(cirq.unitary(cirq.X), duration=8)
    with pytest.raises(ArgumentError, match="virtual_z"):
        PulseGate(alone.propagator, alone.pulse, np.zeros(12), [0.0, 0.0])


def test_pulse_gate_refuses_a_pulse_that_leaks() -> None:
    device = Transmons((replace(TRANSMON, drive_frequency=4.85),))  # half of two photons
    duration = 20
    grid = Grid(duration, 1)
    pulse = Pulse([(PiecewiseConstant(grid), one) for one in drive(0, bound=2)])
    propagator = Propagator(device, pulse.channels, grid)
    amplitudes = [np.tile([strength, 0], (duration, 1)) for strength in np.linspace(0.2, 1.5, 40)]
    leakage = [1 - (np.abs(propagator(one)[:2, :2]) ** 2).sum() / 2 for one in amplitudes]
    assert max(leakage) > 0.1
    with pytest.raises(ArgumentError, match="leaks"):
        PulseGate(propagator, pulse, amplitudes[int(np.argmax(leakage))].T.ravel())


def test_objective_refuses_another_pulse_and_no_unitary() -> None:
    objective = one_qubit(cirq.unitary(cirq.X), duration=8)
    other = replace(objective.propagator, grid=Grid(9, 0.5))
    with pytest.raises(ArgumentError, match="other channels or samples"):
        GateObjective(other, objective.pulse, np.eye(2))
    with pytest.raises(ArgumentError, match="unitary"):
        GateFidelity(np.ones((2, 2)), [2])
    with pytest.raises(ArgumentError, match="1 qubits"):
        GateFidelity(np.eye(4), [2])
