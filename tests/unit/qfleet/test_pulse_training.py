"""Pulses with symbols in circuits: values, derivatives, resolution, JSON, refusals."""

import pickle
from collections.abc import Callable
from dataclasses import replace

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.circuits.circuit_json import from_json, to_json
from qfleet.errors import ArgumentError, CircuitError
from qfleet.pulses import (
    BSplineSeries,
    Coupling,
    Grid,
    PiecewiseConstant,
    Propagator,
    Pulse,
    PulseGate,
    Transmons,
    drive,
)
from qfleet.pulses.unitary_angles import Exponential, generators, matrix_exponents
from tests.support.pulse_circuits import (
    NAMES,
    OBSERVABLES,
    PAIR,
    POINT,
    QUBITS,
    TRANSMON,
    circuit_of,
    one_qubit_gate,
    two_qubit_gate,
)

ROWS = np.array([[0.4, -0.9], [1.3, 0.2], [-0.5, 2.0]])
GATES = pytest.mark.parametrize("gate", [one_qubit_gate(), two_qubit_gate()], ids=["one", "two"])


def derivative(function: Callable[[float], np.ndarray], step: float = 1e-3) -> np.ndarray:
    """Return the derivative at 0 by differences of fourth order."""
    two, one, other, third = (function(at * step) for at in (-2, -1, 1, 2))
    return (two - 8 * one + 8 * other - third) / (12 * step)


def direction(at: int) -> np.ndarray:
    return np.eye(len(POINT))[at]


@pytest.mark.parametrize("qubits", [1, 2, 3])
def test_exponentials_have_the_matrix(qubits: int) -> None:
    size = 2**qubits
    matrices = [cirq.testing.random_unitary(size, random_state=seed) for seed in range(5)]
    matrices += [np.eye(size), np.eye(size)[::-1], -1j * np.diag(np.arange(size) % 2 * 2 - 1)]
    for matrix, exponents in zip(matrices, matrix_exponents(np.stack(matrices)), strict=True):
        total = np.eye(size)
        for generator, exponent in zip(generators(qubits), exponents, strict=False):
            total = cirq.unitary(Exponential(generator, exponent)) @ total
        np.testing.assert_allclose(total, matrix, atol=1e-13)


@GATES
def test_values_are_those_of_cirq_with_numbers(gate: PulseGate) -> None:
    circuit = circuit_of(gate)
    compiled = qfleet.compile(circuit, ["x", "y"], NAMES, OBSERVABLES)
    found = compiled.expectation(ROWS, POINT)
    simulator = cirq.Simulator(dtype=np.complex128)
    for row, values in zip(ROWS, found, strict=True):
        numbers = dict(zip(("x", "y", *NAMES), (*row, *POINT), strict=True))
        wanted = simulator.simulate_expectation_values(circuit, OBSERVABLES, numbers)
        np.testing.assert_allclose(values, np.real(wanted), atol=1e-10)


@pytest.mark.parametrize(
    "method", ["state_vector", "tensor_network", "density_matrix", "trajectories"]
)
@GATES
def test_gradient_agrees_with_differences(gate: PulseGate, method: str) -> None:
    circuit = circuit_of(gate)
    if method in ("density_matrix", "trajectories"):
        circuit += cirq.depolarize(0.1).on_each(*QUBITS)
    compiled = qfleet.compile(circuit, ["x", "y"], NAMES, OBSERVABLES, method=method)
    upstream = np.random.default_rng(1).normal(size=(len(ROWS), 2))
    _, gradients = compiled.value_and_gradient(ROWS, POINT, upstream)
    for at in range(len(POINT)):
        wanted = derivative(
            lambda step, at=at: compiled.expectation(ROWS, POINT + step * direction(at))
        )
        assert gradients.parameters[at] == pytest.approx((upstream * wanted).sum(), abs=1e-7)


@GATES
def test_gradient_by_numbers_of_each_example(gate: PulseGate) -> None:
    compiled = qfleet.compile(circuit_of(gate), [*NAMES, "x"], ["y"], OBSERVABLES)
    rows = np.concatenate([POINT + 0.1 * ROWS[:, :1], ROWS[:, 1:]], axis=1)
    values, gradients = compiled.value_and_gradient(rows, [0.3])
    shared = qfleet.compile(circuit_of(gate), ["x", "y"], NAMES, OBSERVABLES)
    for row, found, by_inputs in zip(rows, values, gradients.inputs, strict=True):
        wanted, expected = shared.value_and_gradient([row[4], 0.3], row[:4])
        np.testing.assert_allclose(found, wanted, atol=1e-12)
        np.testing.assert_allclose(by_inputs[:4], expected.parameters, atol=1e-10)


def test_derivative_is_exact_where_angles_are_singular() -> None:
    grid = Grid(4, 1)
    pulse = Pulse([(PiecewiseConstant(grid), one) for one in drive(0)])
    propagator = Propagator(Transmons((replace(TRANSMON, levels=2),)), pulse.channels, grid)
    gate = PulseGate(propagator, pulse, sympy.symbols("c:8"))
    qubit = QUBITS[0]
    compiled = qfleet.compile(cirq.Circuit(gate(qubit)), observables=[cirq.X(qubit), cirq.Y(qubit)])
    _, gradients = compiled.value_and_gradient(None, np.zeros(8), [1.0, 0.0])
    np.testing.assert_allclose(gradients.parameters, [0] * 4 + [1.0] * 4, atol=1e-12)


def test_state_has_the_phase_of_the_pulse() -> None:
    circuit = cirq.Circuit(one_qubit_gate()(QUBITS[0]))
    compiled = qfleet.compile(circuit, parameters=NAMES)
    weights = np.array([0.3 - 0.2j, 0.5 + 0.7j])
    at = dict(zip(NAMES, POINT, strict=True))
    wanted = cirq.unitary(cirq.resolve_parameters(circuit, at))[:, 0]
    np.testing.assert_allclose(compiled.state(None, POINT), wanted, atol=1e-12)
    found = compiled.state_vjp(None, POINT, weights).parameters
    for number in range(len(POINT)):
        change = derivative(
            lambda step, at=number: compiled.state(None, POINT + step * direction(at))
        )
        assert found[number] == pytest.approx(np.vdot(weights, change).real, abs=1e-7)


def test_controlled_pulse_is_that_of_cirq() -> None:
    gate = one_qubit_gate()
    circuit = cirq.Circuit(cirq.H.on_each(*QUBITS), gate.controlled().on(*QUBITS))
    compiled = qfleet.compile(circuit, parameters=NAMES, observables=OBSERVABLES)
    numbers = dict(zip(NAMES, POINT, strict=True))
    simulator = cirq.Simulator(dtype=np.complex128)
    wanted = simulator.simulate_expectation_values(circuit, OBSERVABLES, numbers)
    np.testing.assert_allclose(compiled.expectation(None, POINT), np.real(wanted), atol=1e-10)


@GATES
def test_gate_is_drawn_resolved_and_saved(gate: PulseGate) -> None:
    circuit = circuit_of(gate)
    assert "Pulse(10 ns, a, b, s, ...)" in str(circuit)
    assert cirq.parameter_names(gate) == set(NAMES)
    assert not cirq.has_unitary(gate)
    partly = cirq.resolve_parameters(gate, {"a": 0.3})
    assert cirq.parameter_names(partly) == {"s", "b", "v"}
    rest = dict(zip(NAMES[1:], POINT[1:], strict=True))
    assert cirq.resolve_parameters(partly, rest).leakage < 0.1
    saved = from_json(to_json(circuit))
    assert saved == circuit
    assert pickle.loads(pickle.dumps(gate)) == gate
    compiled = [qfleet.compile(one, ["x", "y"], NAMES, OBSERVABLES) for one in (circuit, saved)]
    compiled.append(pickle.loads(pickle.dumps(compiled[0])))
    values = [one.expectation(ROWS, POINT) for one in compiled]
    np.testing.assert_array_equal(values[0], values[1])
    np.testing.assert_array_equal(values[0], values[2])


def test_equal_pulses_are_one_call() -> None:
    gate, other = (
        one_qubit_gate(),
        cirq.resolve_parameters(one_qubit_gate(), {"a": sympy.Symbol("c")}),
    )
    a, b = QUBITS
    circuit = cirq.Circuit(gate(a), gate(b), cirq.CZ(a, b), gate(a), other(b))
    compiled = qfleet.compile(circuit, parameters=[*NAMES, "c"], observables=OBSERVABLES)
    assert len(compiled.symbols.shared) <= 2 * 8 + 1


def test_symbols_of_a_pulse_keep_its_bounds() -> None:
    gate = one_qubit_gate()
    expressions = gate.pulse.symbols("p")
    free = PulseGate(gate.propagator, gate.pulse, expressions)
    random = np.random.default_rng(3)
    for _ in range(20):
        values = dict(
            zip(sorted(cirq.parameter_names(free)), random.normal(size=3) * 9, strict=True)
        )
        for one, (low, high) in zip(expressions, gate.pulse.bounds, strict=True):
            assert low <= float(one.subs(values)) <= high


def test_second_derivatives_are_refused() -> None:
    compiled = qfleet.compile(circuit_of(one_qubit_gate()), ["x", "y"], NAMES, OBSERVABLES)
    with pytest.raises(ArgumentError, match="second derivatives"):
        compiled.hvp(ROWS, POINT, parameter_tangents=direction(0))


def test_values_above_a_bound_and_leakage_are_refused() -> None:
    compiled = qfleet.compile(circuit_of(one_qubit_gate()), ["x", "y"], NAMES, OBSERVABLES)
    with pytest.raises(ArgumentError, match="bound"):
        compiled.expectation(ROWS, [5.0, *POINT[1:]])
    device = Transmons((replace(TRANSMON, anharmonicity=-0.01),))
    gate = one_qubit_gate()
    leaking = PulseGate(replace(gate.propagator, devices=device), gate.pulse, [*"asb"])
    compiled = qfleet.compile(cirq.Circuit(leaking(QUBITS[0])), observables=cirq.Z(QUBITS[0]))
    with pytest.raises(ArgumentError, match="leaks"):
        compiled.value_and_gradient(None, [0.8, 0.0, 3.0])


@pytest.mark.nightly
def test_pulse_of_three_qubits_has_values_and_gradients() -> None:
    device = replace(PAIR, qubits=(*PAIR.qubits, replace(TRANSMON, frequency=4.95)))
    device = replace(device, couplings=(*PAIR.couplings, Coupling(1, 2, exchange=0.02)))
    grid = Grid(6, 1)
    pulse = Pulse([(BSplineSeries(grid, 2), drive(at)[0]) for at in range(3)])
    propagator = Propagator(device, pulse.channels, grid, order=4, steps_per_sample=4)
    a, s, b = sympy.symbols("a s b")
    gate = PulseGate(propagator, pulse, [a, 0.1 * b, 0.05 * s, 0.2, 0.1 * a, b / 2], ["v", 0, "b"])
    qubits = cirq.LineQubit.range(4)
    outer = cirq.CZ(*qubits[2:])
    circuit = cirq.Circuit(circuit_of(one_qubit_gate())[:2], cirq.H(qubits[2]), outer)
    circuit += cirq.Circuit(gate(*qubits[:3]), outer, cirq.H.on_each(qubits[2:]))
    observables = [*OBSERVABLES, cirq.Y(qubits[2]) * cirq.Z(qubits[3]) * cirq.Z(qubits[0])]
    compiled = qfleet.compile(circuit, ["x", "y"], NAMES, observables)
    upstream = np.random.default_rng(2).normal(size=(3, 3))
    values, gradients = compiled.value_and_gradient(ROWS, POINT, upstream)
    bound = cirq.resolve_parameters(circuit, dict(zip(NAMES, POINT.tolist(), strict=True)))
    wanted = qfleet.compile(bound, ["x", "y"], observables=observables).expectation(ROWS)
    np.testing.assert_allclose(values, wanted, atol=1e-11)
    for at, found in enumerate(gradients.parameters):
        change = derivative(lambda h, at=at: compiled.expectation(ROWS, POINT + h * direction(at)))
        np.testing.assert_allclose(found, (upstream * change).sum(), atol=1e-7)
    assert np.abs(gradients.parameters).min() > 1e-4


def test_pulse_of_four_qubits_with_symbols_is_refused() -> None:
    grid = Grid(4, 1)
    pulse = Pulse([(PiecewiseConstant(grid), drive(2)[0])])
    device = Transmons([replace(TRANSMON, levels=2)] * 4)
    gate = PulseGate(Propagator(device, pulse.channels, grid), pulse, sympy.symbols("c:4"))
    qubits = cirq.LineQubit.range(4)
    with pytest.raises(CircuitError, match="use at most 3 qubits"):
        qfleet.compile(cirq.Circuit(gate(*qubits)), observables=cirq.Z(qubits[0]))
    resolved = cirq.resolve_parameters(gate, {f"c{at}": 0.1 for at in range(4)})
    values = qfleet.compile(cirq.Circuit(resolved(*qubits)), observables=cirq.Z(qubits[2]))
    assert values.expectation() == pytest.approx([np.cos(0.4)])


def test_gate_refuses_other_counts_and_channels() -> None:
    gate = one_qubit_gate()
    with pytest.raises(ArgumentError, match="values"):
        PulseGate(gate.propagator, gate.pulse, ["a"])
    with pytest.raises(ArgumentError, match="values"):
        PulseGate(gate.propagator, gate.pulse, [sympy.I, 0, 1])
    other = Propagator(PAIR, gate.pulse.channels[:1], gate.pulse.grid)
    with pytest.raises(ArgumentError, match="other channels"):
        PulseGate(other, gate.pulse, ["a", "s", "b"])
    with pytest.raises(ArgumentError, match="symbol a"):
        _ = gate.leakage


def test_saved_gate_of_an_unknown_class_is_refused() -> None:
    text = to_json(circuit_of(one_qubit_gate()))
    for wrong in (
        text.replace('"Drag"', '"Path"'),
        text.replace('"duration": 10', '"duration": 9.7'),
    ):
        assert wrong != text
        with pytest.raises(ArgumentError, match=r"type is|multiple of dt"):
            from_json(wrong)
