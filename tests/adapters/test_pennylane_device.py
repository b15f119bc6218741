"""Programs, samples and errors of the PennyLane device."""

from collections import Counter
from typing import Any

import numpy as np
import pennylane as qml
import pytest
import torch
from pennylane import numpy as pnp
from pennylane.exceptions import DeviceError, QuantumFunctionError, WireError
from scipy import sparse

from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.engine.exponent_program import ExponentProgram
from qfleet.errors import ArgumentError
from qfleet.pennylane import QfleetDevice

INPUTS = np.random.default_rng(0).normal(size=(5, 2))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter:
    """Count the calls of the core, and the compiled circuits."""
    counter: Counter = Counter()

    def count(owner: type, name: str, label: str) -> None:
        original = getattr(owner, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            counter[label] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, counted)

    for name in ("expectation", "forward", "gradient", "state", "state_gradient", "hvp", "sample"):
        count(ExponentProgram, name, name)
    count(CompiledCircuit, "__init__", "compiled")
    return counter


def layers(inputs: Any, weights: Any) -> Any:
    """Return one expectation value of entangling layers."""
    qml.AngleEmbedding(inputs, wires=range(2))
    qml.StronglyEntanglingLayers(weights, wires=range(2))
    return qml.expval(qml.Z(0))


def test_broadcast_step_calls_the_core_twice(calls: Counter) -> None:
    node = qml.QNode(layers, QfleetDevice(wires=2))
    weights = torch.ones((1, 2, 3), dtype=torch.float64, requires_grad=True)
    for _ in range(3):
        node(torch.tensor(INPUTS), weights).sum().backward()
    assert calls == {"compiled": 1, "forward": 3, "gradient": 3}


def test_jit_step_calls_the_core_twice(calls: Counter) -> None:
    jax = pytest.importorskip("jax")
    node = qml.QNode(layers, QfleetDevice(wires=2))
    step = jax.jit(jax.grad(lambda weights: (node(INPUTS, weights) ** 2).sum()))
    for scale in (0.1, 0.2, 0.3):
        step(scale * jax.numpy.ones((1, 2, 3))).block_until_ready()
    assert calls == {"compiled": 1, "forward": 3, "gradient": 3}


def test_evaluation_without_gradients_keeps_no_states(calls: Counter) -> None:
    node = qml.QNode(layers, QfleetDevice(wires=2))
    node(INPUTS, np.ones((1, 2, 3)))
    assert calls == {"compiled": 1, "expectation": 1}


def test_programs_are_shared_by_tapes_of_one_structure(calls: Counter) -> None:
    node = qml.QNode(layers, QfleetDevice(wires=2))
    for batch in (5, 3):
        for scale in (0.1, 0.4):
            node(INPUTS[:batch], scale * np.ones((1, 2, 3)))
    node(INPUTS[0], np.ones((1, 2, 3)))  # without a batch: another structure
    node(INPUTS, np.ones((2, 2, 3)))
    assert calls["compiled"] == 3


def test_constant_matrices_are_part_of_the_structure() -> None:
    @qml.qnode(QfleetDevice(wires=1))
    def circuit(matrix: np.ndarray) -> Any:
        qml.QubitUnitary(matrix, wires=0)
        return qml.expval(qml.Z(0))

    values = [circuit(qml.matrix(qml.RX(angle, 0))) for angle in (0.3, 0.9, 0.3)]
    np.testing.assert_allclose(values, np.cos([0.3, 0.9, 0.3]), atol=1e-12)


def test_observables_are_part_of_the_structure() -> None:
    @qml.qnode(QfleetDevice(wires=2))
    def circuit(coefficient: float) -> Any:
        return qml.expval(qml.Hamiltonian([coefficient], [qml.Z(0)]))

    np.testing.assert_allclose([circuit(0.3), circuit(0.9)], [0.3, 0.9])


def test_complex64_device_returns_float64() -> None:
    node = qml.QNode(layers, QfleetDevice(wires=2, c_dtype=np.complex64))
    exact = qml.QNode(layers, QfleetDevice(wires=2))
    weights = np.full((2, 2, 3), 0.3)
    values = node(INPUTS, weights)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, exact(INPUTS, weights), atol=1e-6)


def test_sampled_expectation_values_are_near_the_exact_ones() -> None:
    weights = np.full((2, 2, 3), 0.3)
    exact = qml.QNode(layers, QfleetDevice(wires=2))(INPUTS, weights)
    sampled = qml.QNode(layers, QfleetDevice(wires=2, seed=1), shots=40_000)(INPUTS, weights)
    assert sampled.shape == (5,)
    np.testing.assert_allclose(sampled, exact, atol=0.03)


def test_samples_of_one_seed_are_equal() -> None:
    def circuit() -> Any:
        qml.Hadamard(0)
        return qml.sample(wires=[0, 1]), qml.counts(wires=[0])

    first, second = (
        qml.QNode(circuit, QfleetDevice(wires=2, seed=5), shots=20)() for _ in range(2)
    )
    np.testing.assert_array_equal(first[0], second[0])
    assert first[1] == second[1]


@pytest.mark.parametrize("shots", [None, 5])
def test_each_tape_with_shots_is_validated(shots: int | None) -> None:
    """A valid tape of the same gates does not make other measurements valid."""

    def measured(*measurements: Any) -> Any:
        def circuit() -> Any:
            qml.Hadamard(0)
            return tuple(qml.apply(one) for one in measurements)

        return qml.QNode(circuit, device, shots=shots)()

    device = QfleetDevice(wires=3)
    measured(qml.probs(wires=[0]))
    (probabilities,) = measured(qml.probs())
    assert probabilities.shape == (8,)
    with pytest.raises(DeviceError, match="not accepted"):
        measured(qml.sample(wires=[0]) if shots is None else qml.purity(wires=[0]))


def test_shadows_of_a_batch_are_those_of_its_examples() -> None:
    @qml.set_shots(shots=20_000)
    @qml.qnode(QfleetDevice(wires=2, seed=1))
    def circuit(angles: Any) -> Any:
        qml.RX(angles, wires=0)
        return qml.shadow_expval(qml.Z(0)), qml.classical_shadow(wires=[0, 1])

    angles = np.array([0.1, 1.0, 2.5])
    values, shadows = circuit(angles)
    np.testing.assert_allclose(values, np.cos(angles), atol=0.05)
    assert shadows.shape == (3, 2, 20_000, 2)


@pytest.mark.parametrize("shots", [None, 10])
@pytest.mark.parametrize(
    "observable", [qml.S(0), qml.SparseHamiltonian(sparse.eye(2).tocsr(), [0])], ids=["S", "sparse"]
)
def test_observable_without_eigenvectors_is_refused(shots: int | None, observable: Any) -> None:
    circuit = qml.QNode(lambda: qml.var(observable), QfleetDevice(wires=1), shots=shots)
    with pytest.raises(DeviceError, match="cannot be measured"):
        circuit()


@pytest.mark.parametrize("is_sum", [False, True])
def test_observable_with_a_batch_of_coefficients_is_exact(is_sum: bool) -> None:
    weights = np.array([0.1, 0.2, -0.4])

    @qml.qnode(QfleetDevice(wires=1))
    def circuit() -> Any:
        qml.RX(0.3, wires=0)
        term = qml.s_prod(weights, qml.Z(0))
        return qml.expval(qml.sum(term, qml.Y(0)) if is_sum else term)

    expected = weights * np.cos(0.3) - is_sum * np.sin(0.3)
    np.testing.assert_allclose(circuit(), expected, atol=1e-12)


def test_parameter_shift_of_shots_is_near_the_gradient() -> None:
    node = qml.QNode(layers, QfleetDevice(wires=2, seed=1), shots=20_000)
    exact = qml.QNode(layers, QfleetDevice(wires=2))
    gradients = []
    for one in (node, exact):
        weights = torch.full((1, 2, 3), 0.3, dtype=torch.float64, requires_grad=True)
        one(torch.tensor(INPUTS[0]), weights).backward()
        gradients.append(weights.grad.numpy())
    np.testing.assert_allclose(*gradients, atol=0.05)


def test_mid_circuit_measurement_is_deferred() -> None:
    @qml.qnode(QfleetDevice(wires=2))
    def circuit() -> Any:
        qml.RX(0.7, wires=0)
        outcome = qml.measure(0)
        qml.cond(outcome, qml.X)(wires=0)
        return qml.expval(outcome), qml.expval(qml.Z(0))

    np.testing.assert_allclose(circuit(), [np.sin(0.35) ** 2, 1], atol=1e-12)


def test_wires_of_any_label_and_order_are_exact() -> None:
    def circuit() -> Any:
        qml.RX(0.3, wires="b")
        qml.CNOT(wires=["b", 7])
        qml.RY(0.8, wires="a")
        return qml.state(), qml.probs(wires=[7, "a"]), qml.expval(qml.Z("b") @ qml.X("a"))

    wires = ["a", 7, "b"]
    expected = qml.QNode(circuit, qml.device("default.qubit", wires=wires))()
    actual = qml.QNode(circuit, QfleetDevice(wires=wires))()
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_device_without_wires_takes_those_of_the_circuit() -> None:
    def circuit() -> Any:
        qml.RX(0.3, wires=4)
        qml.RY(0.8, wires=1)
        return qml.state()

    expected = qml.QNode(circuit, qml.device("default.qubit"))()
    np.testing.assert_allclose(qml.QNode(circuit, QfleetDevice())(), expected, atol=1e-12)


def test_unknown_wire_raises_wire_error() -> None:
    @qml.qnode(QfleetDevice(wires=2))
    def circuit() -> Any:
        qml.RX(0.3, wires=5)
        return qml.expval(qml.Z(0))

    with pytest.raises(WireError, match="5"):
        circuit()


def test_batches_of_two_sizes_raise_value_error() -> None:
    @qml.qnode(QfleetDevice(wires=2))
    def circuit(first: Any, second: Any) -> Any:
        qml.RX(first, wires=0)
        qml.RY(second, wires=1)
        return qml.expval(qml.Z(0))

    with pytest.raises(ValueError, match=r"RY.*\[1\].*3"):
        circuit(torch.zeros(2), torch.zeros(3))


def test_channel_raises_device_error() -> None:
    @qml.qnode(QfleetDevice(wires=1))
    def circuit() -> Any:
        qml.AmplitudeDamping(0.1, wires=0)
        return qml.expval(qml.Z(0))

    with pytest.raises(DeviceError, match="AmplitudeDamping"):
        circuit()


@pytest.mark.parametrize(
    "observable",
    [
        qml.X(0) @ qml.Y(0),
        qml.prod(qml.X(0), qml.Z(1), qml.Y(0)),
        qml.sum(qml.prod(qml.Y(1), qml.Z(1)), qml.X(0)),
        qml.s_prod(1j, qml.X(0)),
        qml.Hamiltonian([0.5, 1.0], [qml.Z(1), qml.Z(0) @ qml.X(0)]),
        qml.exp(qml.X(0), 0.5j),
        qml.prod(qml.Hermitian(np.array([[1.0, 2.0], [2.0, 3.0]]), 0), qml.Z(0)),
    ],
    ids=str,
)
def test_observable_that_is_not_hermitian_is_refused(observable: qml.operation.Operator) -> None:
    circuit = qml.QNode(lambda: qml.expval(observable), QfleetDevice(wires=2))
    with pytest.raises(DeviceError, match="Hermitian"):
        circuit()


def test_mixed_state_raises_device_error() -> None:
    @qml.qnode(QfleetDevice())
    def circuit() -> Any:
        qml.QubitDensityMatrix(np.eye(2) / 2, wires=[0])
        return qml.expval(qml.Z(0))

    with pytest.raises(DeviceError, match=r"QubitDensityMatrix on wires \[0\] is a mixed state"):
        circuit()


def test_postselection_raises_device_error() -> None:
    @qml.qnode(QfleetDevice(wires=2))
    def circuit() -> Any:
        qml.measure(0, postselect=1)
        return qml.expval(qml.Z(0))

    with pytest.raises(DeviceError, match="postselect"):
        circuit()


def test_unsupported_gradient_method_raises_pennylanes_error() -> None:
    node = qml.QNode(layers, QfleetDevice(wires=2), diff_method="adjoint", shots=10)
    with pytest.raises(QuantumFunctionError, match="adjoint"):
        node(INPUTS[0], torch.ones((1, 2, 3), requires_grad=True))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("c_dtype", np.float64),
        ("c_dtype", "complex256"),
        ("c_dtype", "float"),
        ("c_dtype", "none"),
        ("seed", -1),
        ("seed", "none"),
        ("seed", np.array([0.5])),
    ],
)
def test_wrong_option_raises_device_error(name: str, value: Any) -> None:
    with pytest.raises(DeviceError, match=name):
        QfleetDevice(wires=1, **{name: value})


def test_non_finite_angle_raises_an_error_that_names_it() -> None:
    node = qml.QNode(layers, QfleetDevice(wires=2))
    with pytest.raises(ValueError, match="finite"):
        node(np.array([np.nan, 0.1]), np.ones((1, 2, 3)))


@pytest.mark.parametrize("make", [np.complex128, pnp.array, torch.tensor, np.atleast_1d])
def test_angle_with_an_imaginary_part_is_refused(make: Any) -> None:
    @qml.qnode(QfleetDevice(wires=1))
    def circuit(angle: Any) -> Any:
        qml.RY(0.1, wires=0)
        qml.RX(angle, wires=0)
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(circuit(make(0.3 + 0j)), np.cos(0.1) * np.cos(0.3))
    with pytest.raises(ArgumentError, match="angle"):
        circuit(make(0.3 + 0.2j))


@pytest.mark.parametrize("angle", [None, "a", b"a", 1j, 0.5 + 1e-3j])
def test_angle_that_is_no_real_number_is_refused(angle: object) -> None:
    @qml.qnode(QfleetDevice(wires=1))
    def node() -> object:
        qml.RX(angle, 0)
        return qml.expval(qml.Z(0))

    with pytest.raises(ArgumentError, match="an angle is"):
        node()
