"""Gradients by the inputs of layers in functions that TensorFlow traces within a tape."""

from collections.abc import Callable

import cirq
import numpy as np
import pytest
import sympy

from qfleet.errors import CircuitError
from qfleet.tensorflow.layers import ControlledExpectation, Expectation, State
from qfleet.tensorflow.runtime import keras, tf

QUBITS = cirq.LineQubit.range(2)
X, P = sympy.symbols("x p")
CIRCUIT = cirq.Circuit(cirq.rx(X).on(QUBITS[0]), cirq.CNOT(*QUBITS), cirq.ry(P).on(QUBITS[1]))
POINT = tf.constant([[0.3], [-0.7], [1.1]], tf.float64)
LAYERS = {
    "Expectation": lambda: Expectation(CIRCUIT, ["x"], [cirq.Z(QUBITS[1])], dtype="float64"),
    "State": lambda: State(CIRCUIT, ["x"], dtype="float64"),
}


@pytest.fixture(autouse=True)
def seed() -> None:
    """Let each test begin with the same angles, whichever ran before it in this process."""
    keras.utils.set_random_seed(1)


def gradient(function: Callable[[tf.Tensor], tf.Tensor]) -> np.ndarray:
    """Return the gradient of a function of POINT."""
    with tf.GradientTape() as tape:
        tape.watch(POINT)
        values = function(POINT)
        parts = values if values.dtype.is_floating else tf.math.real(values)
        loss = tf.reduce_sum(parts * [[0.3 + at for at in range(parts.shape[1])]])
    return tape.gradient(loss, POINT, unconnected_gradients="zero").numpy()


@pytest.mark.parametrize("is_built", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_function_traced_in_a_callers_tape_has_gradients(name: str, is_built: bool) -> None:
    layer = LAYERS[name]()
    if is_built:
        layer(POINT)
    traced = tf.function(layer)
    first, second = gradient(traced), gradient(traced)
    expected = gradient(layer)
    assert np.abs(expected).max() > 0.05
    np.testing.assert_allclose(first, expected, atol=1e-12)
    np.testing.assert_allclose(second, expected, atol=1e-12)


def test_finished_tape_of_the_trace_is_not_the_callers() -> None:
    layer = LAYERS["Expectation"]()
    layer(POINT)

    @tf.function
    def twice(inputs: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            inner = tf.reduce_sum(layer(inputs))
        by_angles = tape.gradient(inner, layer.angles)
        return layer(inputs) + 0 * tf.reduce_sum(by_angles)

    np.testing.assert_allclose(gradient(twice), gradient(layer), atol=1e-12)


def test_traced_model_has_gradients_by_its_input() -> None:
    inputs = keras.Input((1,), dtype="float64")
    angles = keras.layers.Dense(1, dtype="float64")(inputs)
    layer = ControlledExpectation(CIRCUIT, ["x"], [cirq.Z(QUBITS[1])], dtype="float64")
    model = keras.Model(inputs, layer([inputs, angles]))
    np.testing.assert_allclose(gradient(tf.function(model)), gradient(model), atol=1e-12)


def test_tape_of_the_trace_watches_only_what_it_is_told() -> None:
    layer = LAYERS["Expectation"]()
    layer(POINT)

    @tf.function
    def step(inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(layer(inputs))
        return tape.gradient(loss, [inputs, layer.angles])

    by_inputs, by_angles = step(POINT)
    np.testing.assert_allclose(by_inputs, gradient(layer) / 0.3, atol=1e-12)
    assert by_angles.shape == (1,)


@pytest.mark.parametrize("name", LAYERS)
def test_forward_mode_is_refused_by_name(name: str) -> None:
    layer = LAYERS[name]()
    tangent = tf.autodiff.ForwardAccumulator(POINT, tf.ones_like(POINT))
    with pytest.raises(CircuitError, match="forward mode"), tangent:
        layer(POINT)
