"""Quantum trajectories and shots: convergence to density matrices, and random numbers."""

import functools
import pickle

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.engine import memory
from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.errors import ArgumentError, CircuitError, MemoryLimitError
from tests.unit.qfleet.test_density import differences, random_case

LINE = cirq.LineQubit.range(3)
INPUTS, PARAMETERS = ["x0", "x1"], ["a", "b"]
ROW, WEIGHTS = np.array([[0.4, -0.7]]), np.array([0.9, 0.3])
UPSTREAM = np.array([[1.0, -0.5, 0.3]])
CHANNELS = {
    "depolarizing": cirq.depolarize(0.2),
    "amplitude damping": cirq.amplitude_damp(0.35),
    "phase damping": cirq.phase_damp(0.3),
    "generalized amplitude damping": cirq.generalized_amplitude_damp(0.3, 0.4),
    "Kraus operators": cirq.KrausChannel(
        [np.array([[0.8, 0], [0, 0.6]]), np.array([[0, 0.8], [0.6j, 0]])]
    ),
    "reset": cirq.ResetChannel(),
    "depolarizing on two qubits": cirq.depolarize(0.3, 2),
    "random gate": cirq.RandomGateChannel(sub_gate=cirq.X**0.3, probability=0.4),
}
# Thousands of trajectories each: the others are in the exhaustive tier.
DEFAULT_CHANNELS = ("generalized amplitude damping", "Kraus operators", "random gate")
OBSERVABLES = [
    cirq.Z(LINE[0]) * cirq.X(LINE[1]),
    0.7 * cirq.Y(LINE[2]) - 1.5 * cirq.Z(LINE[1]) + 0.25,
    cirq.Z(LINE[2]),
]


def noisy(channel: cirq.Gate) -> cirq.Circuit:
    """Return a circuit of three qubits with a channel after each entangling gate."""
    x0, x1, a, b = sympy.symbols("x0 x1 a b")
    p, q, r = LINE
    circuit = cirq.Circuit(cirq.rx(x0)(p), cirq.ry(x1 + 0.3)(q), cirq.ry(0.8)(r))
    for pair, angle in (((p, q), a), ((r, q), b), ((q, p), a * b)):
        circuit += [cirq.CNOT(*pair) ** 0.7, cirq.ry(angle)(pair[0]), cirq.rx(angle + x0)(pair[1])]
        circuit += channel(*pair[: channel.num_qubits()])
    return circuit


def compiled(channel: cirq.Gate, **options: object) -> CompiledCircuit:
    return qfleet.compile(noisy(channel), INPUTS, PARAMETERS, OBSERVABLES, **options)


def slopes(circuit: CompiledCircuit) -> np.ndarray:
    """Return values and gradients of one example as one vector."""
    values, gradients = circuit.value_and_gradient(ROW, WEIGHTS, UPSTREAM)
    return np.concatenate([values.ravel(), gradients.inputs.ravel(), gradients.parameters])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in DEFAULT_CHANNELS else [pytest.mark.exhaustive])
        for name in CHANNELS
    ],
)
def test_means_converge_to_those_of_density_matrices(name: str) -> None:
    seeds, trajectories = 48, 64
    exact = slopes(compiled(CHANNELS[name], method="density_matrix"))
    found = np.stack([
        slopes(compiled(CHANNELS[name], method="trajectories", trajectories=trajectories, seed=one))
        for one in range(seeds)
    ])  # fmt: skip
    error = found.std(axis=0, ddof=1) / np.sqrt(seeds)
    assert (np.abs(found.mean(axis=0) - exact) <= 4.5 * error + 1e-9).all()
    assert found.std(axis=0).max() < 3 / np.sqrt(trajectories)


@pytest.mark.exhaustive
@pytest.mark.parametrize("qubits", [3, 7])
def test_random_circuits_converge(qubits: int) -> None:
    circuit, inputs, parameters, observables = random_case(3, qubits=qubits, depth=20)
    compile_ = functools.partial(qfleet.compile, circuit, inputs, parameters, observables)
    rows, weights = np.full((1, 2), 0.3), np.array([0.2, -0.4, 0.9])
    exact = compile_(method="density_matrix").value_and_gradient(rows, weights)
    found = [
        compile_(method="trajectories", trajectories=50, seed=seed).value_and_gradient(
            rows, weights
        )
        for seed in range(40)
    ]
    for of in (lambda one: one[0][0], lambda one: one[1].parameters, lambda one: one[1].inputs[0]):
        values = np.stack([of(one) for one in found])
        error = values.std(axis=0, ddof=1) / np.sqrt(len(found))
        assert (np.abs(values.mean(axis=0) - of(exact)) <= 5 * error + 1e-9).all()


def test_gradients_are_those_of_fixed_random_numbers() -> None:
    # Unitaries are drawn whatever the parameters, so values are differentiable in these.
    for channel in (CHANNELS["depolarizing"], CHANNELS["depolarizing on two qubits"]):
        circuit = compiled(channel, method="trajectories", trajectories=7, seed=3)
        _, gradients = circuit.value_and_gradient(ROW, WEIGHTS, UPSTREAM)
        _, expected = differences(circuit, ROW, WEIGHTS, UPSTREAM)
        assert gradients.parameters == pytest.approx(expected, abs=1e-7)
        assert np.abs(expected).max() > 0.01


@pytest.mark.parametrize("input_gradients", [True, False])
def test_gradients_include_noise_before_the_first_angle(input_gradients: bool) -> None:
    # Trajectories branch off in blocks without a gradient, too.
    p, q, r = LINE
    a, b, x = sympy.symbols("a b x")
    circuit = cirq.Circuit(cirq.ry(x)(p), cirq.depolarize(0.4, 2)(p, q), cirq.bit_flip(0.3)(r))
    circuit += [cirq.ISWAP(p, r) ** a, cirq.depolarize(0.3)(r), cirq.CNOT(q, r) ** b]
    built = qfleet.compile(circuit, ["x"], ["a", "b"], OBSERVABLES, trajectories=37)
    _, gradients = built.value_and_gradient(
        [[0.4]], WEIGHTS, UPSTREAM, input_gradients=input_gradients
    )
    _, expected = differences(built, np.array([[0.4]]), WEIGHTS, UPSTREAM)
    assert gradients.parameters == pytest.approx(expected, abs=1e-7)


def test_float32_gradients_equal_those_of_float64() -> None:
    for name in ("amplitude damping", "reset", "depolarizing"):
        found = [
            slopes(compiled(CHANNELS[name], method="trajectories", trajectories=40, dtype=dtype))
            for dtype in ("complex64", "complex128")
        ]
        assert found[0] == pytest.approx(found[1], abs=2e-4)


@pytest.mark.parametrize("name", ["amplitude damping", "reset"])
def test_gradients_do_not_depend_on_the_copies_that_are_kept(name: str) -> None:
    x, a = sympy.symbols("x a")
    line = cirq.LineQubit.range(4)
    circuit = cirq.Circuit()
    for layer in range(6):
        for at, qubit in enumerate(line):
            circuit += [cirq.ry(x + a * (layer + 0.3 * at))(qubit), CHANNELS[name](qubit)]
        circuit += [cirq.CZ(*line[at : at + 2]) ** 0.6 for at in range(3)]
    built = qfleet.compile(
        circuit, ["x"], ["a"], [cirq.X(line[3])], method="trajectories", trajectories=20
    )
    exponents = built.symbols(np.array([[0.3], [-0.6]]), np.array([0.2]))
    found = []
    for limit in (1 << 32, 0):
        built.program.memory_limit = limit
        found.append(built.program.gradient(*exponents, np.ones((2, 1))))
    for many, few in zip(*found, strict=True):
        np.testing.assert_allclose(many, few, atol=1e-9)


def test_equal_seeds_give_equal_bits_on_any_threads_and_batch() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 2))
    circuit = compiled(CHANNELS["amplitude damping"], trajectories=40, shots=1000, seed=5)
    threads = qfleet.num_threads()
    expected = circuit.expectation(rows, WEIGHTS)
    slope = circuit.vjp(rows, WEIGHTS, np.ones((5, 3)))
    try:
        for count in (1, 3):
            qfleet.set_num_threads(count)
            np.testing.assert_array_equal(circuit.expectation(rows, WEIGHTS), expected)
            again = circuit.vjp(rows, WEIGHTS, np.ones((5, 3)))
            np.testing.assert_array_equal(again.parameters, slope.parameters)
            np.testing.assert_array_equal(again.inputs, slope.inputs)
    finally:
        qfleet.set_num_threads(threads)
    split = [circuit.expectation(part, WEIGHTS) for part in (rows[:2], rows[2:])]
    np.testing.assert_array_equal(np.concatenate(split), expected)
    copy = pickle.loads(pickle.dumps(circuit))
    np.testing.assert_array_equal(copy.expectation(rows, WEIGHTS), expected)
    other = compiled(CHANNELS["amplitude damping"], trajectories=40, shots=1000, seed=6)
    assert (other.expectation(rows, WEIGHTS) != expected).any()


@pytest.mark.parametrize("method", ["density_matrix", "trajectories"])
def test_shots_have_the_mean_and_variance_of_measurements(method: str) -> None:
    p, q = LINE[:2]
    x = sympy.Symbol("x")
    circuit = cirq.Circuit(cirq.ry(x)(p), cirq.CNOT(p, q))
    observables = [cirq.Z(p), 2.0 * cirq.X(p) * cirq.X(q) - cirq.Z(q) + 0.5]
    rows = np.linspace(0.5, 0.5 + 1e-6, 4000)[:, None]  # other inputs draw other numbers
    exact = qfleet.compile(circuit, ["x"], (), observables).expectation(rows[0])
    for shots in (1, 20, 3000):
        built = qfleet.compile(circuit, ["x"], (), observables, method=method, shots=shots, seed=1)
        found = built.expectation(rows)
        words = np.cos(0.5), np.sin(0.5)
        variance = np.array([1 - words[0] ** 2, 4 * (1 - words[1] ** 2) + 1 - words[0] ** 2])
        error = np.sqrt(variance / shots / len(rows))
        assert (np.abs(found.mean(axis=0) - exact) <= 4.5 * error).all()
        assert found.var(axis=0) == pytest.approx(variance / shots, rel=0.12)
        if shots == 1:
            assert set(found[:, 0]) == {-1.0, 1.0}
    gradients = built.vjp(rows[:1], (), np.ones((1, 2)))
    assert gradients.inputs[0, 0] == pytest.approx(-np.sin(0.5) + 2 * np.cos(0.5) + np.sin(0.5))


def test_auto_chooses_by_noise_width_and_shots() -> None:
    def method(qubits: int, *noise: cirq.Gate, **options: int) -> str:
        line = cirq.LineQubit.range(qubits)
        circuit = cirq.Circuit(
            [cirq.H(line[0]), *(cirq.CNOT(*line[at : at + 2]) for at in range(qubits - 1))]
        )
        circuit += [gate(line[-1]) for gate in noise]
        return qfleet.compile(circuit, observables=[cirq.Z(line[-1])], **options).method

    damping = cirq.amplitude_damp(0.1)
    assert method(12, damping) == "density_matrix"
    assert method(13, damping) == "trajectories"
    assert method(3, damping, shots=10) == "density_matrix"
    assert method(3, damping, trajectories=10) == "trajectories"
    assert method(3, shots=10) == "trajectories"
    assert method(3) == "state_vector"


def test_circuit_without_noise_has_one_trajectory() -> None:
    circuit = cirq.Circuit(cirq.ry(0.4)(LINE[0]))
    built = qfleet.compile(circuit, observables=[cirq.Z(LINE[0])], method="trajectories")
    assert " 1 trajectories" in built.describe()
    assert built.expectation() == pytest.approx([np.cos(0.4)])


@pytest.mark.parametrize("options", [
    {"shots": 0}, {"shots": -3}, {"shots": 2.5}, {"trajectories": 0}, {"trajectories": -1},
    {"trajectories": True}, {"seed": -1}, {"seed": None},
])  # fmt: skip
def test_number_out_of_range_is_refused(options: dict) -> None:
    with pytest.raises(ArgumentError, match=next(iter(options))):
        compiled(CHANNELS["depolarizing"], **options)


@pytest.mark.parametrize("options", [
    {"method": "state_vector", "shots": 10}, {"method": "tensor_network", "shots": 10},
    {"method": "subspace", "trajectories": 10}, {"method": "density_matrix", "trajectories": 10},
])  # fmt: skip
def test_method_without_samples_is_refused(options: dict) -> None:
    circuit = cirq.Circuit(cirq.H(LINE[0]))
    with pytest.raises(CircuitError, match=options["method"]):
        qfleet.compile(circuit, observables=[cirq.Z(LINE[0])], **options)


@pytest.mark.parametrize("sampling", [
    {"trajectories": 20}, {"shots": 100}, {"trajectories": 20, "shots": 100, "fresh": True},
])  # fmt: skip
def test_keras_layer_draws_the_numbers_of_numpy(sampling: dict) -> None:
    from qfleet.tensorflow.layers import Expectation
    from qfleet.tensorflow.runtime import tf

    circuit = noisy(CHANNELS["amplitude damping"])
    layer = Expectation(circuit, INPUTS, OBSERVABLES, sampling=sampling, dtype="float64")
    layer = Expectation.from_config(layer.get_config())
    rows = np.random.default_rng(0).normal(size=(3, 2))
    layer.build(rows.shape)
    layer.angles.assign(WEIGHTS)
    with tf.GradientTape() as tape:
        values = layer(rows)
        total = tf.reduce_sum(values)
    slopes = tape.gradient(total, layer.angles).numpy()
    np.testing.assert_array_equal(layer(rows), values)
    layer.angles.assign(WEIGHTS + 1e-9)
    is_equal = np.allclose(layer(rows), values, atol=1e-6)
    assert is_equal != sampling.get("fresh", False)
    if is_equal:
        built = compiled(CHANNELS["amplitude damping"], **sampling)
        np.testing.assert_allclose(values, built.expectation(rows, WEIGHTS), atol=1e-12)
        expected = built.vjp(rows, WEIGHTS, np.ones((3, 3))).parameters
        np.testing.assert_allclose(slopes, expected, atol=1e-10)


def test_layer_of_another_backend_refuses_shots() -> None:
    from qfleet.tensorflow.layers import Expectation

    circuit = cirq.Circuit(cirq.H(LINE[0]))
    with pytest.raises(CircuitError, match="native engine"):
        Expectation(circuit, (), [cirq.Z(LINE[0])], sampling={"shots": 5}, backend="tensorflow")


def test_sampled_state_and_hessian_are_refused() -> None:
    circuit = cirq.Circuit(cirq.ry(sympy.Symbol("a"))(LINE[0]))
    with pytest.raises(CircuitError, match="observables"):
        qfleet.compile(circuit, shots=10)
    built = qfleet.compile(circuit, observables=[cirq.Z(LINE[0])], shots=10)
    with pytest.raises(ArgumentError, match="trajectories have no Hessian"):
        built.hvp(None, [0.1], parameter_tangents=[1.0])


@pytest.mark.parametrize("qubits", [2, 13, 16])
def test_without_noise_equals_the_state_vector(qubits: int) -> None:
    line = cirq.LineQubit.range(qubits)
    circuit = cirq.Circuit(
        cirq.ry(sympy.Symbol("x") * (1 + 0.1 * at))(q) for at, q in enumerate(line)
    )
    for at in range(qubits - 1):
        circuit += [cirq.CZ(*line[at : at + 2]), cirq.rx(sympy.Symbol("a") * at + 0.3)(line[at])]
    observables = [cirq.X(line[-1]) * cirq.Y(line[0]), cirq.Z(line[0])]
    found, expected = (
        qfleet.compile(circuit, ["x"], ["a"], observables, method=method).value_and_gradient(
            [[0.4], [-1.0]], [0.7]
        )
        for method in ("trajectories", "state_vector")
    )
    assert found[0] == pytest.approx(expected[0], abs=1e-12)
    assert found[1].inputs == pytest.approx(expected[1].inputs, abs=1e-11)
    assert found[1].parameters == pytest.approx(expected[1].parameters, abs=1e-11)


def test_density_matrix_without_memory_names_trajectories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 20)
    line = cirq.LineQubit.range(12)
    circuit = cirq.Circuit(cirq.depolarize(0.1).on_each(*line))
    with pytest.raises(MemoryLimitError, match="use the method trajectories"):
        qfleet.compile(circuit, observables=[cirq.Z(q) for q in line], method="density_matrix")
