"""A circuit and layers of it, shared by the tests of the layers."""

from collections.abc import Callable
from typing import Any

import cirq
import numpy as np
import sympy

from qfleet.tensorflow.backends import Dtype, build_simulator
from qfleet.tensorflow.layers import (
    ControlledExpectation,
    Expectation,
    SampledExpectation,
    Samples,
    State,
)
from qfleet.tensorflow.runtime import keras, tf

A, B, C = QUBITS = cirq.LineQubit.range(3)
X, Y = sympy.symbols("x0 x1")
P, Q = sympy.symbols("p q")
CIRCUIT = cirq.Circuit(
    cirq.rx(X).on(A),
    cirq.X(B) ** (Y * P),  # a trained symbol and a data symbol in one gate
    cirq.ry(P + 2 * Q).on(C),
    cirq.CNOT(A, B),
    (cirq.ISWAP**P).on(B, C),  # three eigenvalues: a single two-term rule is not exact
    cirq.rz(Q).on(C).controlled_by(A),
    cirq.ry(sympy.sin(X)).on(A),
)
INPUTS = ("x0", "x1")
SUMS = [cirq.Z(A) * cirq.Z(B) + 0.5 * cirq.X(C) - 0.25, 0.8 * cirq.Y(A) * cirq.X(C) + cirq.Z(B)]
ANGLES = np.random.default_rng(0).uniform(-1.5, 1.5, (4, 2)).astype(np.float32)
TRAINED = np.array([0.7, -0.4], np.float32)

MAKERS: dict[str, Callable[..., keras.layers.Layer]] = {
    "Expectation": lambda **how: Expectation(CIRCUIT, INPUTS, SUMS, **how),
    "State": lambda **how: State(CIRCUIT, INPUTS, **how),
    "Samples": lambda **how: Samples(CIRCUIT, INPUTS, 20, seed=3, **how),
    "SampledExpectation": lambda **how: SampledExpectation(
        CIRCUIT, INPUTS, SUMS, 20, seed=3, **how
    ),
}


def trained(layer: keras.layers.Layer) -> keras.layers.Layer:
    """Build the layer and set its angles to TRAINED."""
    layer(ANGLES[:1])
    layer.angles.assign(TRAINED)
    return layer


def exact(dtype: Dtype = "complex128") -> Any:
    """Build the simulator to compare with; it is tested elsewhere."""
    return build_simulator(CIRCUIT, INPUTS, ("p", "q"), SUMS, backend="tensorflow", dtype=dtype)


def value_and_gradients(
    function: Callable[..., tf.Tensor], *sources: tf.Tensor
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Return a function's values, and the gradients of a weighted sum of them."""
    with tf.GradientTape() as tape:
        tape.watch(sources)
        values = function(*sources)
        weights = np.random.default_rng(1).normal(size=values.shape)
        total = tf.reduce_sum(values * tf.constant(weights, values.dtype))
    return values, tape.gradient(total, sources)


def dense(units: int, seed: int) -> keras.layers.Layer:
    return keras.layers.Dense(
        units, "tanh", kernel_initializer=keras.initializers.GlorotUniform(seed)
    )


def mixed() -> keras.Model:
    """Build a model of all layers between Keras layers."""
    inputs = keras.Input((3,), name="features")
    angles, parameters = dense(2, 1)(inputs), dense(2, 2)(inputs)
    amplitudes = State(CIRCUIT, INPUTS, seed=1)(angles)
    bits = Samples(CIRCUIT, INPUTS, 4, seed=5)(angles)
    outputs = [
        Expectation(CIRCUIT, INPUTS, SUMS, seed=2)(angles),
        ControlledExpectation(CIRCUIT, INPUTS, SUMS)([angles, parameters]),
        SampledExpectation(CIRCUIT, INPUTS, SUMS, 20, seed=3)(angles),
        keras.layers.Lambda(lambda a: tf.abs(a))(amplitudes),
        keras.layers.Flatten()(keras.layers.Lambda(lambda b: tf.cast(b, tf.float32))(bits)),
    ]
    return keras.Model(inputs, dense(1, 3)(keras.layers.Concatenate()(outputs)))


FEATURES = np.random.default_rng(4).normal(size=(6, 3)).astype(np.float32)
