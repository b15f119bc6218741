"""Simulators called eagerly, in graphs, loops and strategies, with any batch."""

import cirq
import numpy as np
import pytest
import sympy

from qfleet.circuits.qcnn import qcnn
from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.runtime import tf
from qfleet.tensorflow.simulator import Simulator

MODEL = qcnn(4, encoder="reupload", features=4)


def build(backend: str = "qfleet") -> Simulator:
    return build_simulator(
        MODEL.circuit, MODEL.inputs, MODEL.parameters, MODEL.observables, backend=backend
    )


def point(batch: int) -> tuple[tf.Tensor, tf.Tensor]:
    rng = np.random.default_rng(5)
    angles = rng.uniform(-2, 2, (batch, len(MODEL.inputs))).astype(np.float32)
    return tf.constant(angles), tf.constant(
        rng.uniform(-2, 2, len(MODEL.parameters)).astype(np.float32)
    )


@pytest.mark.parametrize("backend", ["qfleet", pytest.param("tfq", marks=pytest.mark.tfq)])
def test_expectation_in_graph_and_loop_equals_eager(backend: str) -> None:
    simulator = build(backend)
    angles, parameters = point(3)

    def step(parameters: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            loss = tf.reduce_sum(simulator.expectation(angles, parameters) ** 2)
        return parameters - 0.1 * tape.gradient(loss, parameters)

    @tf.function
    def looped(parameters: tf.Tensor) -> tf.Tensor:
        for _ in tf.range(3):
            parameters = step(parameters)
        return parameters

    eager = parameters
    for _ in range(3):
        eager = step(eager)
    np.testing.assert_allclose(looped(parameters), eager, atol=1e-5)


@pytest.mark.parametrize("backend", ["qfleet", pytest.param("tfq", marks=pytest.mark.tfq)])
def test_graph_accepts_every_batch_size(backend: str) -> None:
    simulator = build(backend)
    width = len(MODEL.inputs)
    graph = tf.function(
        simulator.expectation,
        input_signature=[
            tf.TensorSpec([None, width], tf.float32),
            tf.TensorSpec([len(MODEL.parameters)], tf.float32),
        ],
    )
    angles, parameters = point(7)
    whole = graph(angles, parameters)
    assert whole.shape == (7, 1)
    np.testing.assert_allclose(graph(angles[:1], parameters), whole[:1], atol=1e-6)
    np.testing.assert_allclose(graph(angles[2:], parameters), whole[2:], atol=1e-6)


def test_simulator_is_deterministic_without_variables() -> None:
    simulator = build()
    angles, parameters = point(5)
    first = simulator.expectation(angles, parameters)
    np.testing.assert_array_equal(first, simulator.expectation(angles, parameters))
    np.testing.assert_array_equal(first, build().expectation(angles, parameters))
    assert not [value for value in vars(simulator).values() if isinstance(value, tf.Variable)]


def test_simulator_works_in_a_strategy() -> None:
    simulator = build()
    angles, parameters = point(2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    graph = tf.function(lambda: strategy.run(simulator.expectation, (angles, parameters)))
    expected = simulator.expectation(angles, parameters)
    np.testing.assert_allclose(graph(), expected, atol=1e-6)


def test_expectation_without_inputs_is_equal_for_all_examples() -> None:
    qubit = cirq.LineQubit(0)
    circuit = cirq.Circuit(cirq.rx(sympy.Symbol("p")).on(qubit))
    simulator = build_simulator(circuit, (), ("p",), [cirq.PauliSum() + 2 * cirq.Z(qubit) + 1])
    values = simulator.expectation(tf.zeros([3, 0]), tf.constant([0.3]))
    np.testing.assert_allclose(values, np.full((3, 1), 2 * np.cos(0.3) + 1), atol=1e-6)


@pytest.mark.parametrize("backend", ["qfleet", pytest.param("tfq", marks=pytest.mark.tfq)])
def test_constant_observable_returns_the_constant(backend: str) -> None:
    qubit = cirq.LineQubit(0)
    circuit = cirq.Circuit(cirq.rx(sympy.Symbol("x")).on(qubit))
    simulator = build_simulator(circuit, ("x",), (), [cirq.PauliSum() + 0.25], backend=backend)
    values = simulator.expectation(tf.ones([2, 1]), tf.zeros([0]))
    np.testing.assert_allclose(values, [[0.25], [0.25]])


def test_expectation_has_second_derivatives() -> None:
    qubit = cirq.LineQubit.range(2)
    p = sympy.symbols("p0:2")
    circuit = cirq.Circuit(
        cirq.rx(p[0]).on(qubit[0]), cirq.CNOT(*qubit), cirq.rx(p[1]).on(qubit[1])
    )
    simulator = build_simulator(circuit, (), ("p0", "p1"), [cirq.PauliSum() + cirq.Z(qubit[1])])
    parameters = tf.constant([0.4, 0.7])
    with tf.GradientTape() as outer:
        outer.watch(parameters)
        with tf.GradientTape() as inner:
            inner.watch(parameters)
            value = simulator.expectation(tf.zeros([1, 0]), parameters)[0, 0]
        gradient = inner.gradient(value, parameters)
    found = outer.jacobian(gradient, parameters)
    c, s = np.cos([0.4, 0.7]), np.sin([0.4, 0.7])
    both, mixed = -c[0] * c[1], s[0] * s[1]
    np.testing.assert_allclose(found, [[both, mixed], [mixed, both]], atol=1e-5)
