"""Circuits that the Cirq adapter hands to Cirq's own simulator."""

import warnings
from typing import Any

import cirq
import numpy as np
import pytest
import sympy

import qfleet.cirq
from qfleet.errors import ArgumentError, CircuitError

A, B, C = cirq.LineQubit.range(3)
QUTRIT = cirq.LineQid(0, 3)
TELEPORT = cirq.Circuit(
    cirq.ry(sympy.Symbol("x"))(A),
    [cirq.H(B), cirq.CNOT(B, C), cirq.CNOT(A, B), cirq.H(A)],
    [cirq.measure(A, key="z"), cirq.measure(B, key="x")],
    [cirq.X(C).with_classical_controls("x"), cirq.Z(C).with_classical_controls("z")],
    cirq.measure(C, key="m"),
)
LOOP = cirq.CircuitOperation(
    cirq.FrozenCircuit(cirq.H(A), cirq.measure(A, key="a")),
    use_repetition_ids=False,
    repeat_until=cirq.KeyCondition(cirq.MeasurementKey("a")),
)
CONFUSED = {(0,): np.array([[0.9, 0.1], [0.2, 0.8]])}
SAMPLED = [  # by Cirq
    (cirq.Circuit(cirq.XPowGate(dimension=3)(QUTRIT), cirq.measure(QUTRIT)), "qudits"),
    (cirq.Circuit(LOOP), "can't be unrolled"),
    (
        cirq.Circuit(cirq.depolarize(0.1, n_qubits=3)(A, B, C), cirq.measure(A)),
        "moment 0 .* is noise on more than 2 qubits",
    ),
    (
        cirq.Circuit(
            [cirq.H(A), cirq.measure(A, key="a", confusion_map=CONFUSED)],
            [cirq.X(B).with_classical_controls("a"), cirq.measure(B, key="b")],
        ),
        "a measurement with a confusion map",
    ),
    (
        cirq.Circuit(
            cirq.KrausChannel([np.diag([1, 0]), np.diag([0, 1])], key="k")(A), cirq.measure(A)
        ),
        "other than cirq.measure",
    ),
]
DYNAMIC = [
    TELEPORT,
    cirq.Circuit(cirq.H(A), cirq.measure(A, key="m"), cirq.X(A)),
    cirq.Circuit(cirq.measure(A, B, key="a"), cirq.measure(B, key="b")),
    cirq.Circuit(cirq.depolarize(0.1)(A), cirq.measure(A)),
    cirq.Circuit(cirq.X(A), cirq.reset(A), cirq.measure(A)),
    cirq.Circuit(cirq.measure_single_paulistring(cirq.Z(A) * cirq.X(B))),
]


@pytest.mark.parametrize(("circuit", "reason"), SAMPLED)
def test_circuit_without_a_form_is_sampled_by_cirq(circuit: cirq.Circuit, reason: str) -> None:
    values = {"x": 0.7}
    simulator = qfleet.cirq.Simulator(seed=5)
    with pytest.warns(qfleet.cirq.FallbackWarning, match=f"since .*{reason}"):
        found = simulator.run(circuit, values, 50)
    assert found == cirq.Simulator(seed=5).run(circuit, values, 50)


@pytest.mark.parametrize(("circuit", "reason"), SAMPLED)
def test_circuit_without_a_form_is_simulated_by_cirq(circuit: cirq.Circuit, reason: str) -> None:
    simulator = qfleet.cirq.Simulator(seed=5)
    with pytest.warns(qfleet.cirq.FallbackWarning, match=reason):
        found = simulator.simulate(circuit, {"x": 0.7})
    expected = cirq.Simulator(seed=5).simulate(circuit, {"x": 0.7})
    np.testing.assert_array_equal(found.final_state_vector, expected.final_state_vector)


@pytest.mark.parametrize(("circuit", "reason"), SAMPLED)
def test_warning_can_be_made_an_error(circuit: cirq.Circuit, reason: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", qfleet.cirq.FallbackWarning)
        with pytest.raises(qfleet.cirq.FallbackWarning, match=reason):
            qfleet.cirq.Simulator().run(circuit, {"x": 0.7})


def test_qudits_of_the_order_are_simulated_by_cirq() -> None:
    simulator = qfleet.cirq.Simulator()
    with pytest.warns(qfleet.cirq.FallbackWarning, match="qubit_order has qudits"):
        found = simulator.simulate(cirq.Circuit(cirq.X(A)), qubit_order=[A, cirq.LineQid(5, 3)])
    np.testing.assert_allclose(found.final_state_vector, [0, 0, 0, 1, 0, 0])


def test_warning_is_given_once_for_a_reason() -> None:
    simulator, circuit = qfleet.cirq.Simulator(), SAMPLED[3][0]
    with pytest.warns(qfleet.cirq.FallbackWarning):
        simulator.run(circuit)
    simulator.run(circuit)  # a warning is an error here


@pytest.mark.parametrize("circuit", [DYNAMIC[1], DYNAMIC[3], SAMPLED[0][0]])
def test_gradients_without_a_form_are_refused(circuit: cirq.Circuit) -> None:
    with pytest.raises(CircuitError):
        qfleet.cirq.Simulator().simulate_expectation_gradients(
            circuit, cirq.Z(A), permit_terminal_measurements=True
        )


@pytest.mark.parametrize(
    "circuit",
    [
        cirq.Circuit(cirq.H(A), cirq.CNOT(A, B), cirq.measure(A, B, key="m")),
        cirq.Circuit(cirq.H(A), cirq.measure(A, key="a"), cirq.X(B) ** sympy.Symbol("x")),
        cirq.Circuit(cirq.CircuitOperation(cirq.FrozenCircuit(cirq.H(A)), repetitions=3)),
        cirq.Circuit(cirq.ControlledGate(cirq.Y**0.3)(A, B), cirq.global_phase_operation(1j)),
        cirq.Circuit(cirq.qft(A, B, C), cirq.MatrixGate(np.eye(2))(A), cirq.wait(B)),
        *DYNAMIC,
    ],
)
def test_circuit_of_the_engine_gives_no_warning(circuit: cirq.Circuit) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", qfleet.cirq.FallbackWarning)
        qfleet.cirq.Simulator().simulate(circuit, {"x": 0.3})


def test_simulation_state_is_simulated_by_cirq() -> None:
    start = cirq.StateVectorSimulationState(qubits=[A], initial_state=1, dtype=np.complex64)
    with pytest.warns(qfleet.cirq.FallbackWarning, match="is a simulation state"):
        found = qfleet.cirq.Simulator().simulate(cirq.Circuit(cirq.X(A)), initial_state=start)
    np.testing.assert_array_equal(found.final_state_vector, [1, 0])


def test_noise_model_is_kept() -> None:
    noise = cirq.ConstantQubitNoiseModel(cirq.Z)
    assert qfleet.cirq.Simulator(noise=noise).noise == noise


@pytest.mark.parametrize("noise", [cirq.depolarize(0.2, n_qubits=2), "depolarize", 0.1])
def test_wrong_noise_is_refused(noise: Any) -> None:
    with pytest.raises(ArgumentError, match="noise is"):
        qfleet.cirq.Simulator(noise=noise)


def test_moments_are_simulated_by_cirq() -> None:
    circuit = cirq.Circuit(cirq.H(A), cirq.CNOT(A, B), cirq.X(A) ** sympy.Symbol("x"))
    with pytest.warns(qfleet.cirq.FallbackWarning, match="single moments"):
        steps = list(qfleet.cirq.Simulator().simulate_moment_steps(circuit, {"x": 0.4}))
    expected = cirq.Simulator().simulate(circuit, {"x": 0.4}).final_state_vector
    np.testing.assert_array_equal(steps[-1].state_vector(), expected)


@pytest.mark.parametrize("order", [(A, B, C), (C, A, B)])
def test_amplitudes_equal_those_of_cirq(order: tuple) -> None:
    circuit = cirq.Circuit(cirq.H(A), cirq.CNOT(A, B), cirq.ry(sympy.Symbol("x"))(C))
    sweep = cirq.Linspace("x", 0, 1, 3)
    found, expected = (
        kind(dtype=np.complex128).compute_amplitudes_sweep(circuit, [0, 5, 7], sweep, order)
        for kind in (qfleet.cirq.Simulator, cirq.Simulator)
    )
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("wrong", [[4], [-1], [[0, 1]], [0.5], ["01"]])
def test_wrong_bitstrings_are_refused(wrong: list) -> None:
    circuit = cirq.Circuit(cirq.H(A), cirq.CNOT(A, B))
    with pytest.raises(ArgumentError, match="bitstrings is"):
        qfleet.cirq.Simulator().compute_amplitudes(circuit, wrong)


def test_amplitudes_are_sampled() -> None:
    circuit = cirq.Circuit(cirq.H(A), cirq.CNOT(A, B))
    found = qfleet.cirq.Simulator().sample_from_amplitudes(circuit, {}, 1, 100)
    assert found.keys() == {0, 3}
    assert sum(found.values()) == 100
