"""The Expectation layer with the gradients of another circuit, or with a sampler."""

import cirq
import numpy as np
import pytest
import sympy

from qfleet.circuits import add_noise
from qfleet.errors import ArgumentError
from qfleet.noise_rates import NoiseRates
from qfleet.tensorflow.layers import Expectation
from qfleet.tensorflow.runtime import keras, tf

A, B = cirq.LineQubit.range(2)
X, P = sympy.symbols("x p")
CIRCUIT = cirq.Circuit(cirq.rx(X)(A), cirq.ry(P)(B), cirq.CNOT(A, B))
NOISY = add_noise(CIRCUIT, NoiseRates(depolarizing=0.1))
WORDS = [cirq.Z(B), cirq.X(B)]
ROWS = tf.constant([[0.3], [1.1]])


def values_and_gradients(layer: Expectation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    @tf.function
    def compute() -> tuple[tf.Tensor, list[tf.Tensor]]:
        with tf.GradientTape() as tape:
            tape.watch(ROWS)
            values = layer(ROWS)
        return values, tape.gradient(values, [ROWS, layer.angles])

    layer(ROWS)
    values, gradients = compute()
    return (values.numpy(), *(one.numpy() for one in gradients))


def test_gradient_circuit_gives_the_gradients_only() -> None:
    robust = Expectation(NOISY, ["x"], WORDS, gradient_circuit=CIRCUIT, seed=1)
    found = values_and_gradients(robust)
    noisy, ideal = (
        values_and_gradients(Expectation(one, ["x"], WORDS, seed=1)) for one in (NOISY, CIRCUIT)
    )
    np.testing.assert_array_equal(found[0], noisy[0])
    assert found[1] == pytest.approx(ideal[1], abs=1e-6)
    assert found[2] == pytest.approx(ideal[2], abs=1e-6)
    assert "values:" in robust.describe()


def test_sampler_measures_the_values() -> None:
    sampler = cirq.DensityMatrixSimulator(seed=2)
    measured = Expectation(NOISY, ["x"], WORDS, gradient_circuit=CIRCUIT, sampler=sampler,
                           shots=20_000, seed=1)  # fmt: skip
    found = values_and_gradients(measured)
    exact = values_and_gradients(Expectation(NOISY, ["x"], WORDS, gradient_circuit=CIRCUIT, seed=1))
    assert found[0] == pytest.approx(exact[0], abs=0.05)
    np.testing.assert_array_equal(found[2], exact[2])


def test_sampler_of_a_noiseless_circuit_needs_no_other() -> None:
    layer = Expectation(CIRCUIT, ["x"], WORDS, sampler=cirq.Simulator(), shots=10, seed=1)
    exact = values_and_gradients(Expectation(CIRCUIT, ["x"], WORDS, seed=1))
    np.testing.assert_array_equal(values_and_gradients(layer)[1], exact[1])


def test_layer_with_a_wrong_sampler_raises() -> None:
    with pytest.raises(ArgumentError, match="sampler"):
        Expectation(CIRCUIT, ["x"], WORDS, sampler=object(), shots=10)  # type: ignore[arg-type]


def test_saved_layer_keeps_its_gradient_circuit() -> None:
    layer = Expectation(NOISY, ["x"], WORDS, gradient_circuit=CIRCUIT, seed=1)
    found = values_and_gradients(layer)
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    again(ROWS)
    again.set_weights(layer.get_weights())
    for one, other in zip(values_and_gradients(again), found, strict=True):
        np.testing.assert_array_equal(one, other)
