"""States: global phases, the order of qubits, gradients and errors."""

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.compiler.state.program import compile_program
from qfleet.errors import CircuitError
from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.runtime import tf

QUBITS = cirq.LineQubit.range(3)
A, B, C = QUBITS
X, P = sympy.symbols("x p")
BACKENDS = ["qfleet", "tensorflow", pytest.param("tfq", marks=pytest.mark.tfq)]
TOLERANCE = {"qfleet": 1e-6, "tensorflow": 1e-6, "tfq": 1e-5}


def wanted(circuit: cirq.Circuit, x: float, p: float) -> np.ndarray:
    """Return Cirq's state, complex128."""
    simulator = cirq.Simulator(dtype=np.complex128)
    resolved = cirq.resolve_parameters(circuit, {"x": x, "p": p})
    return simulator.simulate(resolved, qubit_order=sorted(circuit.all_qubits())).final_state_vector


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "operation",
    [
        (cirq.X**X).on(A),
        (cirq.X**P).on(A),
        cirq.XPowGate(exponent=P, global_shift=0.3).on(B),
        cirq.ZZPowGate(exponent=X, global_shift=-0.2).on(C, A),
        (cirq.X**X).controlled().on(B, C),
        (cirq.Y**P).controlled(2, control_values=[0, 0]).on(*QUBITS),
        (cirq.ZZ**X).controlled(control_values=[0]).on(*QUBITS),
        (cirq.CCX**P).on(C, A, B),
        cirq.MatrixGate(cirq.testing.random_unitary(2, random_state=1)).on(A),
        cirq.MatrixGate(cirq.testing.random_unitary(4, random_state=2)).on(C, A),
        cirq.MatrixGate(cirq.testing.random_unitary(8, random_state=3)).on(C, A, B),
        cirq.GlobalPhaseGate(1j**0.3).on(),
        cirq.GlobalPhaseGate(sympy.exp(sympy.I * X / 2) * 1j**P).on(),
        cirq.GlobalPhaseGate(sympy.exp(sympy.I * P)).controlled(2).on(C, A),
        cirq.ThreeQubitDiagonalGate([X, 0.1, 0.2, P, 0.4, 0.5, 0.6, 0.7]).on(*QUBITS),
        cirq.CircuitOperation(
            cirq.FrozenCircuit(cirq.X(A) ** 0.3, cirq.global_phase_operation(1j)),
            use_repetition_ids=False,
        ),
    ],
)
def test_state_has_the_global_phase_of_cirq(backend: str, operation: cirq.Operation) -> None:
    # Without a symbol before it on its qubits, and with one.
    spread = [cirq.H.on_each(*QUBITS), (cirq.Y**0.3).on_each(A, C), cirq.rx(X).on(B)]
    circuit = cirq.Circuit(spread, operation, cirq.CNOT(A, B), operation)
    simulator = build_simulator(circuit, ["x"], ["p"], (), backend=backend)
    found = simulator.state(tf.constant([[0.7], [-1.3]]), tf.constant([0.4]))
    assert found.dtype == tf.complex64
    for row, x in zip(found.numpy(), (0.7, -1.3), strict=True):
        np.testing.assert_allclose(row, wanted(circuit, x, 0.4), rtol=0, atol=TOLERANCE[backend])


@pytest.mark.parametrize("backend", BACKENDS)
def test_first_of_twelve_qubits_is_the_highest_bit(backend: str) -> None:
    qubits = cirq.LineQubit.range(12)
    circuit = cirq.Circuit(cirq.X(qubits[0]), cirq.X(qubits[10]) ** X, cirq.I.on_each(*qubits))
    simulator = build_simulator(circuit, ["x"], (), (), backend=backend)
    assert simulator.qubits == tuple(qubits)
    state = simulator.state(tf.constant([[1.0]]), tf.zeros([0])).numpy()
    assert state.shape == (1, 4096)
    assert abs(state[0, 0b100000000010]) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("backend", ["qfleet", "tensorflow"])
def test_state_gradient_equals_finite_differences(backend: str) -> None:
    circuit = cirq.Circuit(
        cirq.X(A) ** X, cirq.CNOT(A, B), (cirq.Y**P).controlled(2).on(*QUBITS), cirq.H(C) ** (X * P)
    )
    simulator = build_simulator(circuit, ["x"], ["p"], (), backend=backend, dtype="complex128")
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(2, 8)) + 1j * rng.normal(size=(2, 8))

    def loss(angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.math.real(simulator.state(angles, parameters) * weights))

    angles, parameters = tf.constant([[0.3], [-0.8]], tf.float64), tf.constant([0.6], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch([angles, parameters])
        value = loss(angles, parameters)
    by_angles, by_parameters = tape.gradient(value, [angles, parameters])
    step = 1e-5
    for row in range(2):
        shift = step * tf.one_hot([row], 2, dtype=tf.float64, axis=0)
        difference = (loss(angles + shift, parameters) - loss(angles - shift, parameters)) / (
            2 * step
        )
        assert by_angles[row, 0].numpy() == pytest.approx(difference.numpy(), abs=1e-8)
    difference = (loss(angles, parameters + step) - loss(angles, parameters - step)) / (2 * step)
    assert by_parameters[0].numpy() == pytest.approx(difference.numpy(), abs=1e-8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_state_without_inputs_is_equal_for_all_examples(backend: str) -> None:
    simulator = build_simulator(cirq.Circuit(cirq.ry(P).on(A)), (), ["p"], (), backend=backend)
    state = simulator.state(tf.zeros([3, 0]), tf.constant([0.4]))
    np.testing.assert_allclose(state, [[np.cos(0.2), np.sin(0.2)]] * 3, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_empty_batch_has_empty_results(backend: str) -> None:
    circuit = cirq.Circuit(cirq.ry(X).on(A), cirq.CNOT(A, B))
    nothing, parameters = tf.zeros([0, 1]), tf.zeros([0])
    states = build_simulator(circuit, ["x"], (), (), backend=backend)
    assert states.state(nothing, parameters).shape == (0, 4)
    values = build_simulator(circuit, ["x"], (), [cirq.Z(A), cirq.X(B)], backend=backend)
    assert values.expectation(nothing, parameters).shape == (0, 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_state_with_observables_raises(backend: str) -> None:
    simulator = build_simulator(
        cirq.Circuit(cirq.rx(X).on(A)), ["x"], (), [cirq.Z(A)], backend=backend
    )
    with pytest.raises(ValueError, match="build it with observables="):
        simulator.state(tf.zeros([1, 1]), tf.zeros([0]))


@pytest.mark.tfq
@pytest.mark.parametrize("backend", ["tfq"])
def test_tfq_state_gradient_raises(backend: str) -> None:
    simulator = build_simulator(cirq.Circuit(cirq.rx(X).on(A)), ["x"], (), (), backend=backend)
    angles = tf.zeros([1, 1])
    with tf.GradientTape() as tape:
        tape.watch(angles)
        total = tf.reduce_sum(tf.math.real(simulator.state(angles, tf.zeros([0]))))
    with pytest.raises(CircuitError, match="has no gradient: use backend='qfleet'"):
        tape.gradient(total, angles)


def test_circuit_without_qubits_raises() -> None:
    with pytest.raises(CircuitError, match="no qubits"):
        compile_program(cirq.Circuit(cirq.global_phase_operation(1j)), (), (), ())


@pytest.mark.parametrize(
    ("coefficient", "fragment"),
    [
        (2**P, "2**p is not a phase"),
        (sympy.exp(P), "contains I"),
        (sympy.gamma(P), "gamma(p) is not"),
    ],
)
def test_global_phase_of_other_norm_raises(coefficient: sympy.Expr, fragment: str) -> None:
    operation = cirq.GlobalPhaseGate(coefficient).on()
    with pytest.raises(CircuitError) as caught:
        compile_program(cirq.Circuit(cirq.X(A), operation), (), ("p",), ())
    assert fragment in str(caught.value)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("exponent", [-3, -1, 0, 1, 2, 5, 2**40 + 1])
def test_whole_exponent_gives_the_exact_gate(dtype: str, exponent: int) -> None:
    circuit = cirq.Circuit(cirq.X(A) ** X, cirq.CNOT(A, B) ** X, cirq.Z(A) ** X)
    found = qfleet.compile(circuit, ["x"], dtype=dtype).state([exponent])
    np.testing.assert_array_equal(found, [0, 0, 0, -1] if exponent % 2 else [1, 0, 0, 0])
