"""Noisy values with noiseless gradients: compiled circuits, samplers, and word values of states."""

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.circuits import add_noise, hardware_efficient
from qfleet.errors import ArgumentError, CircuitError
from qfleet.noise_rates import NoiseRates
from qfleet.problems import (
    fidelity,
    pauli_words,
    purity,
    scaled_infidelity_gradient,
    target_states,
    word_values,
)

A, B = cirq.LineQubit.range(2)
X, P = sympy.symbols("x p")
CIRCUIT = cirq.Circuit(cirq.rx(X)(A), cirq.ry(P)(B), cirq.CNOT(A, B), cirq.rz(P)(B))
NOISY = add_noise(CIRCUIT, NoiseRates(depolarizing=0.05, over_rotation=0.1))
WORDS = (cirq.Z(A), 0.5 * cirq.X(B) + cirq.Y(B) * cirq.Z(A), cirq.Y(A) * cirq.X(B))
ROWS, SHARED = np.array([[0.3], [1.1]]), np.array([0.7])


def compiled(circuit: cirq.Circuit) -> qfleet.CompiledCircuit:
    return qfleet.compile(circuit, ["x"], ["p"], WORDS)


def sampled(circuit: cirq.Circuit, shots: int = 20_000) -> qfleet.SampledForward:
    sampler = cirq.DensityMatrixSimulator(seed=1)
    return qfleet.SampledForward(circuit, ["x"], ["p"], WORDS, sampler=sampler, shots=shots)


def test_noisy_forward_joins_values_and_gradients() -> None:
    noisy, ideal = compiled(NOISY), compiled(CIRCUIT)
    joined = qfleet.NoisyForward(noisy, ideal)
    values, gradients = joined.value_and_gradient(ROWS, SHARED, lambda found: 2 * (found - 0.1))
    np.testing.assert_array_equal(values, noisy.expectation(ROWS, SHARED))
    expected = ideal.vjp(ROWS, SHARED, 2 * (values - 0.1))
    np.testing.assert_array_equal(gradients.parameters, expected.parameters)
    np.testing.assert_array_equal(gradients.inputs, expected.inputs)


@pytest.mark.parametrize("circuit", [CIRCUIT, NOISY])
def test_sampled_forward_estimates_expectations(circuit: cirq.Circuit) -> None:
    expected = compiled(circuit).expectation(ROWS, SHARED)
    found = sampled(circuit).expectation(ROWS, SHARED)
    assert found == pytest.approx(expected, abs=0.05)
    assert sampled(circuit).expectation(ROWS[0], SHARED) == pytest.approx(expected[0], abs=0.05)
    assert sampled(circuit).expectation(ROWS[:0], SHARED).shape == (0, 3)


def test_sampled_forward_counts_its_shots() -> None:
    found = sampled(CIRCUIT, shots=4).expectation(ROWS, SHARED)
    np.testing.assert_array_equal(found[:, 0] * 4 % 2, 0)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"sampler": np.random.default_rng()}, "sampler"),
        ({"shots": 0}, "shots"),
        ({"shots": 1.5}, "shots"),
        ({"shots": True}, "shots"),
        ({"observables": ()}, "observables"),
        ({"inputs": ["x", "x"]}, "symbol x is listed more than once"),
        ({"parameters": []}, "symbol p"),
    ],
)
def test_sampled_forward_names_a_wrong_argument(changes: dict, word: str) -> None:
    good = {"inputs": ["x"], "observables": WORDS, "sampler": cirq.Simulator(), "shots": 1}
    with pytest.raises((ArgumentError, CircuitError), match=word):
        qfleet.SampledForward(CIRCUIT, **{**good, **changes})


def test_sampled_forward_with_a_wrong_shape_raises() -> None:
    for rows, shared, word in ((ROWS[:, :0], SHARED, "inputs"), (ROWS, ROWS, "parameters")):
        with pytest.raises(ArgumentError, match=word):
            sampled(CIRCUIT, 1).expectation(rows, shared)


class Returning(cirq.Sampler):
    """A sampler of one's own that returns the same for each circuit."""

    def __init__(self, found: object) -> None:
        self._found = found

    def run_sweep(self, *arguments: object, **named: object) -> object:
        return self._found


def result(key: str, *shape: int, value: int = 0) -> cirq.Result:
    return cirq.ResultDict(records={key: np.full(shape, value)})


@pytest.mark.parametrize(
    "found",
    [
        [], None, [None], [result("m", 5, 1, 1)], [result("qfleet", 4, 1, 1)],
        [result("qfleet", 5, 1, 2)], [result("qfleet", 5, 1, 1, value=2)],
        [result("qfleet", 5, 1, 1)] * 2,
    ],
    ids=range(8),
)  # fmt: skip
def test_wrong_results_of_a_sampler_are_refused(found: object) -> None:
    forward = qfleet.SampledForward(
        CIRCUIT, ["x"], ["p"], WORDS[0], sampler=Returning(found), shots=5
    )
    with pytest.raises(ArgumentError, match="sampler"):
        forward.expectation(ROWS[0], SHARED)


def test_noisy_forward_of_other_symbols_raises() -> None:
    other = qfleet.compile(CIRCUIT, ["p"], ["x"], WORDS)
    with pytest.raises(ArgumentError, match="inputs"):
        qfleet.NoisyForward(compiled(NOISY), other)


def test_word_values_are_expectation_values() -> None:
    (state,) = target_states("random:4", 3)
    qubits = cirq.LineQubit.range(3)
    words = [cirq.DensePauliString(word).on(*qubits).matrix(qubits) for word in pauli_words(3)]
    expected = [np.vdot(state, word @ state).real for word in words]
    values = word_values(state)
    assert values == pytest.approx(np.array(expected), abs=1e-12)
    assert fidelity(values, values) == pytest.approx(1)
    assert purity(0.5 * values) == pytest.approx((1 + 7 / 4) / 8)


def test_scaled_infidelity_gradient_matches_differences() -> None:
    target, other = (word_values(target_states(name, 2)[0]) for name in ("ghz", "random:2"))
    values = 0.8 * other

    def loss(values: np.ndarray) -> float:
        return 1 - fidelity(values, target) / purity(values) ** 0.5

    steps = 1e-6 * np.eye(len(values))
    expected = [(loss(values + step) - loss(values - step)) / 2e-6 for step in steps]
    found = scaled_infidelity_gradient(values, target)
    assert found == pytest.approx(np.array(expected), abs=1e-8)


def test_robust_training_removes_a_coherent_error() -> None:
    model = hardware_efficient(2, 1)
    words = [cirq.DensePauliString(word).on(*model.qubits) for word in pauli_words(2)]

    def circuit(rates: NoiseRates) -> qfleet.CompiledCircuit:
        return qfleet.compile(add_noise(model.circuit, rates), (), model.parameters, words)

    ideal = qfleet.compile(model.circuit, (), model.parameters, words)
    noisy = circuit(NoiseRates(depolarizing=0.01, over_rotation=0.1, crosstalk=0.1))
    ceiling = circuit(NoiseRates(depolarizing=0.01))
    target = word_values(target_states("ghz", 2)[0])
    angles = np.random.default_rng(0).normal(size=len(model.parameters))
    for _ in range(200):
        angles -= ideal.vjp(None, angles, -target).parameters / 10
    before = angles.copy()
    joined = qfleet.NoisyForward(noisy, ideal)
    for _ in range(200):
        _, gradients = joined.value_and_gradient(
            None, angles, lambda values: scaled_infidelity_gradient(values, target)
        )
        angles -= gradients.parameters / 2
    reached = [fidelity(noisy.expectation(None, at), target) for at in (before, angles)]
    best = fidelity(ceiling.expectation(None, before), target)
    assert (reached[1] - reached[0]) / (best - reached[0]) > 0.8
