"""Noise channels: density matrices against Cirq's, and gradients against finite differences."""

import pickle

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.circuits import qcnn
from qfleet.compiler.circuit.channel import channel_of
from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.errors import ArgumentError, CircuitError

A, B, C = cirq.LineQubit.range(3)
ALL_WORDS = [
    cirq.DensePauliString(word, coefficient=1.0).on(A, B)
    for word in ("XI", "YI", "ZI", "IX", "IY", "IZ", "XX", "XY", "XZ", "YX", "YY", "YZ", "ZX")
] + [cirq.Z(A) * cirq.Y(B), cirq.Z(A) * cirq.Z(B)]
CHANNELS = {
    "depolarizing": cirq.depolarize(0.13),
    "depolarizing on two qubits": cirq.depolarize(0.2, 2),
    "amplitude damping": cirq.amplitude_damp(0.3),
    "generalized amplitude damping": cirq.generalized_amplitude_damp(0.3, 0.4),
    "phase damping": cirq.phase_damp(0.25),
    "bit flip": cirq.bit_flip(0.2),
    "phase flip": cirq.phase_flip(0.15),
    "Pauli": cirq.asymmetric_depolarize(0.1, 0.05, 0.2),
    "Pauli on two qubits": cirq.asymmetric_depolarize(
        error_probabilities={"XY": 0.1, "ZI": 0.2, "IZ": 0.05, "II": 0.65}
    ),
    "reset": cirq.ResetChannel(),
    "random gate": cirq.RandomGateChannel(sub_gate=cirq.X**0.3, probability=0.4),
    "over-rotation": cirq.rx(0.05),
    "ZZ crosstalk": cirq.ZZ**0.02,
}


def reference(circuit: cirq.Circuit, observables: list, symbols: dict[str, float]) -> np.ndarray:
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex128)
    resolved = cirq.resolve_parameters(circuit, symbols)
    sums = [cirq.PauliSum.wrap(one) for one in observables]
    return np.real(simulator.simulate_expectation_values(resolved, sums))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", CHANNELS)
def test_channel_equals_cirqs_on_every_pauli_word(name: str, reverse: bool) -> None:
    gate = CHANNELS[name]
    qubits = (B, A) if reverse else (A, B)
    circuit = cirq.Circuit(
        cirq.ry(0.7)(A), cirq.rx(-1.1)(B), cirq.CNOT(A, B) ** 0.4, cirq.rz(0.3)(A),
        gate(*qubits[: gate.num_qubits()]),
        cirq.ISWAP(B, A) ** 0.3,
    )  # fmt: skip
    compiled = qfleet.compile(circuit, observables=ALL_WORDS, method="density_matrix")
    assert compiled.method == "density_matrix"
    found = compiled.expectation()
    assert found == pytest.approx(reference(circuit, ALL_WORDS, {}), abs=1e-12)


def random_case(seed: int, qubits: int = 4, depth: int = 12) -> tuple:
    """Return a random noisy circuit, its symbols and observables."""
    random = np.random.default_rng(seed)
    line = cirq.LineQubit.range(qubits)
    names = ["x0", "x1", "a", "b", "c"]
    symbols = [sympy.Symbol(name) for name in names]
    one = [cirq.rx, cirq.ry, cirq.rz, lambda t: cirq.PhasedXPowGate(phase_exponent=t, exponent=0.3)]
    two = [cirq.CNOT, cirq.CZ, cirq.ISWAP, cirq.ZZ, cirq.SWAP]
    channels = list(CHANNELS.values())
    circuit = cirq.Circuit()
    for _ in range(depth):
        angle = symbols[random.integers(5)] * float(random.normal()) + float(random.normal())
        places = [line[int(at)] for at in random.permutation(qubits)[:2]]
        circuit += one[random.integers(4)](angle)(places[0])
        circuit += (two[random.integers(5)] ** symbols[random.integers(5)])(*places)
        channel = channels[random.integers(len(channels))]
        circuit += channel(*places[: channel.num_qubits()])
    observables = [
        cirq.PauliSum.wrap(cirq.Z(line[0])),
        0.7 * cirq.X(line[1]) * cirq.Y(line[2]) - 2 * cirq.Z(line[0]) * cirq.Z(line[1]) + 0.25,
        cirq.PauliSum.wrap(cirq.X(line[1])),
    ]
    return circuit, names[:2], names[2:], observables


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("batch", [1, 3, 21])
@pytest.mark.parametrize("seed", range(4))
def test_random_circuits_equal_cirq(seed: int, batch: int, dtype: str) -> None:
    case = random_case(seed)
    compiled = qfleet.compile(*case, dtype=dtype)
    random = np.random.default_rng(seed)
    inputs, parameters = random.normal(size=(batch, 2)), random.normal(size=3)
    found = compiled.expectation(inputs, parameters)
    for row in {0, batch // 2, batch - 1}:
        values = dict(zip([*case[1], *case[2]], [*inputs[row], *parameters], strict=True))
        expected = reference(case[0], case[3], values)
        assert found[row] == pytest.approx(expected, abs=1e-6 if dtype == "complex64" else 1e-12)


def differences(
    compiled: CompiledCircuit, inputs: np.ndarray, parameters: np.ndarray, upstream: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    step = 1e-6
    by_inputs = np.empty_like(inputs)
    for column in range(inputs.shape[1]):
        move = step * np.eye(inputs.shape[1])[column]
        high, low = (compiled.expectation(inputs + sign * move, parameters) for sign in (1, -1))
        by_inputs[:, column] = ((high - low) * upstream).sum(1) / (2 * step)
    by_parameters = [
        ((compiled.expectation(inputs, parameters + move)
          - compiled.expectation(inputs, parameters - move)) * upstream).sum() / (2 * step)
        for move in step * np.eye(len(parameters))
    ]  # fmt: skip
    return by_inputs, np.array(by_parameters)


@pytest.mark.parametrize("batch", [1, 3, 21])
@pytest.mark.parametrize("seed", range(4))
def test_gradients_equal_finite_differences(seed: int, batch: int) -> None:
    compiled = qfleet.compile(*random_case(seed, qubits=3))
    random = np.random.default_rng(seed)
    inputs, parameters = random.normal(size=(batch, 2)), random.normal(size=3)
    upstream = random.normal(size=(batch, 3))
    values, gradients = compiled.value_and_gradient(inputs, parameters, upstream)
    assert values == pytest.approx(compiled.expectation(inputs, parameters), abs=1e-14)
    by_inputs, by_parameters = differences(compiled, inputs, parameters, upstream)
    assert gradients.inputs == pytest.approx(by_inputs, abs=1e-7)
    assert gradients.parameters == pytest.approx(by_parameters, abs=1e-7)
    _, fewer = compiled.value_and_gradient(inputs, parameters, upstream, input_gradients=False)
    assert fewer.parameters == pytest.approx(gradients.parameters, abs=1e-12)


@pytest.mark.parametrize("qubits", [5, 9])
def test_gradients_do_not_depend_on_the_states_that_are_kept(qubits: int) -> None:
    compiled = qfleet.compile(*random_case(5, qubits=qubits, depth=30), dtype="complex64")
    random = np.random.default_rng(1)
    exponents = compiled.symbols(random.normal(size=(3, 2)), random.normal(size=3))
    upstream = random.normal(size=(3, 3))
    gradients = []
    for limit in (1 << 32, 0):  # all states, or those of one segment
        compiled.program.memory_limit = limit
        gradients.append(compiled.program.gradient(*exponents, upstream))
    (shared, rows), (few_shared, few_rows) = gradients
    assert np.array_equal(shared, few_shared)
    assert np.array_equal(rows, few_rows)


@pytest.mark.parametrize("qubits", [4, 10])
def test_results_do_not_depend_on_the_number_of_threads(qubits: int) -> None:
    compiled = qfleet.compile(*random_case(6, qubits=qubits), dtype="complex64")
    random = np.random.default_rng(2)
    inputs, parameters = random.normal(size=(5, 2)), random.normal(size=3)
    before, found = qfleet.num_threads(), []
    try:
        for count in (1, 2, 3):
            qfleet.set_num_threads(count)
            values, gradients = compiled.value_and_gradient(inputs, parameters)
            found.append((values, gradients.inputs, gradients.parameters))
    finally:
        qfleet.set_num_threads(before)
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_noise_model_of_cirq_on_the_qcnn() -> None:
    made = qcnn(6, encoder="angle")
    noisy = made.circuit.with_noise(cirq.ConstantQubitNoiseModel(cirq.depolarize(0.01)))
    compiled = qfleet.compile(noisy, made.inputs, made.parameters, made.observables)
    random = np.random.default_rng(3)
    inputs, parameters = random.normal(size=6), random.normal(size=len(made.parameters))
    values = dict(zip([*made.inputs, *made.parameters], [*inputs, *parameters], strict=True))
    expected = reference(noisy, list(made.observables), values)
    assert compiled.expectation(inputs, parameters) == pytest.approx(expected, abs=1e-12)
    assert len(pickle.loads(pickle.dumps(compiled)).inputs) == 6
    assert "channels" in compiled.describe()


def test_noise_without_gates_and_qubits_out_of_the_light_cone() -> None:
    circuit = cirq.Circuit(cirq.bit_flip(0.25)(A), cirq.depolarize(0.5)(B), cirq.X(C))
    compiled = qfleet.compile(circuit, observables=[cirq.Z(A), cirq.Z(A) * 2 + 1])
    assert compiled.qubits == (A,)
    assert compiled.expectation() == pytest.approx([0.5, 2.0])
    constant = qfleet.compile(circuit, observables=[cirq.PauliSum() + 3])
    assert constant.expectation() == pytest.approx([3.0])


def test_keras_layer_has_the_same_values_and_gradients() -> None:
    from qfleet.tensorflow.layers import Expectation
    from qfleet.tensorflow.runtime import tf

    circuit, inputs, parameters, observables = random_case(8)
    layer = Expectation(circuit, inputs, observables, dtype="float64")
    compiled = qfleet.compile(circuit, inputs, parameters, observables)
    angles = np.random.default_rng(4).normal(size=(5, 2))
    with tf.GradientTape() as tape:
        values = layer(tf.constant(angles))
        loss = tf.reduce_sum(values)
    (slopes,) = tape.gradient(loss, layer.trainable_variables)
    weights = layer.trainable_variables[0].numpy()
    expected, gradients = compiled.value_and_gradient(angles, weights)
    assert values.numpy() == pytest.approx(expected, abs=1e-12)
    assert slopes.numpy() == pytest.approx(gradients.parameters, abs=1e-12)

    def curvature() -> tf.Tensor:
        weight = layer.trainable_variables[0]
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = tf.reduce_sum(layer(tf.constant(angles)))
            slope = inner.gradient(loss, weight)
        return outer.gradient(slope, weight)

    with pytest.raises(CircuitError, match="second derivatives"):
        curvature()


NOISY = cirq.Circuit(cirq.H(A), cirq.depolarize(0.1)(A))


@pytest.mark.parametrize(
    ("circuit", "arguments", "words"),
    [
        (NOISY, {}, "trajectories, with observables"),
        (NOISY, {"observables": [cirq.Z(A)], "initial_state": [1, 0]}, "without an initial state"),
        (NOISY, {"observables": [cirq.Z(A)], "method": "state_vector"}, "method density_matrix"),
        (NOISY, {"observables": [cirq.Z(A)], "method": "tensor_network"}, "depolarize"),
        (cirq.Circuit(cirq.H(A)), {"method": "density_matrix"}, "pass observables"),
        (
            cirq.Circuit(cirq.depolarize(0.1, 3)(A, B, C)),
            {"observables": [cirq.Z(A)]},
            "moment 0 on qubits q(0), q(1), q(2) cannot be simulated: noise channels act on one or"
            " two qubits",
        ),
        (
            cirq.Circuit(cirq.KrausChannel([np.diag([1, 0.5])], validate=False)(A)),
            {"observables": [cirq.Z(A)]},
            "not the identity",
        ),
        (
            cirq.Circuit(cirq.depolarize(0.1).on_each(*cirq.LineQubit.range(17))),
            {
                "observables": [cirq.Z(q) for q in cirq.LineQubit.range(17)],
                "method": "density_matrix",
            },
            "use the method trajectories",
        ),
    ],
)
def test_impossible_noise_is_refused(circuit: cirq.Circuit, arguments: dict, words: str) -> None:
    with pytest.raises(CircuitError) as caught:
        qfleet.compile(circuit, **arguments)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_state_and_second_derivatives_are_refused() -> None:
    compiled = qfleet.compile(NOISY, observables=[cirq.Z(A)])
    with pytest.raises(ArgumentError, match="observables"):
        compiled.state()
    with pytest.raises(ArgumentError, match="Hessian"):
        compiled.hvp(None, None)


def test_channel_needs_normalized_kraus_operators() -> None:
    with pytest.raises(ValueError, match="normalize"):
        channel_of((A,), [np.eye(2), np.eye(2)])
