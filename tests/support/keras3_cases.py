"""A circuit for the tests of Keras 3, its model, and gradients on every backend."""

from collections.abc import Callable
from typing import Any

import cirq
import keras
import numpy as np
import sympy

import qfleet
from qfleet.keras import Expectation

A, B, C = QUBITS = cirq.LineQubit.range(3)
X, Y = sympy.symbols("x0 x1")
P, Q = sympy.symbols("p q")
CIRCUIT = cirq.Circuit(
    cirq.rx(X).on(A),
    cirq.X(B) ** (Y * P),  # a trained symbol and a data symbol in one gate
    cirq.ry(P + 2 * Q).on(C),
    cirq.CNOT(A, B),
    (cirq.ISWAP**P).on(B, C),
    cirq.rz(Q).on(C).controlled_by(A),
    cirq.ry(sympy.sin(X)).on(A),
)
INPUTS = ("x0", "x1")
SUMS = [cirq.Z(A) * cirq.Z(B) + 0.5 * cirq.X(C) - 0.25, 0.8 * cirq.Y(A) * cirq.X(C) + cirq.Z(B)]
ANGLES = np.random.default_rng(0).uniform(-1.5, 1.5, (4, 2))
TRAINED = np.array([0.7, -0.4])
UPSTREAM = np.random.default_rng(1).normal(size=(4, 2))
KERNEL, BIAS = np.array([[0.5], [-1.5]]), np.array([0.25])

BACKEND = keras.backend.backend()


def array(tensor: Any) -> np.ndarray:
    """Return a tensor of the backend as an array."""
    return keras.ops.convert_to_numpy(tensor)


def trained(layer: keras.layers.Layer) -> keras.layers.Layer:
    """Build a layer of the circuit and set its angles to TRAINED."""
    layer.build((None, 2))
    layer.angles.assign(TRAINED)
    return layer


def plain_model() -> keras.Model:
    """Build a model of the circuit and a plain layer, with known weights."""
    inputs = keras.Input((2,))
    layer = Expectation(CIRCUIT, INPUTS, SUMS, name="circuit")
    model = keras.Model(inputs, keras.layers.Dense(1, name="head")(layer(inputs)))
    model.set_weights([TRAINED, KERNEL, BIAS])
    return model


def plain_values() -> np.ndarray:
    """Return what `plain_model` predicts for ANGLES, computed in NumPy."""
    compiled = qfleet.compile(CIRCUIT, INPUTS, observables=SUMS)
    return compiled.expectation(ANGLES, TRAINED) @ KERNEL + BIAS


def gradients(
    layer: keras.layers.Layer, loss: Callable[[Any], Any], *sources: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Differentiate loss(layer(sources)) by the sources and by the layer's weights.

    Args:
        layer: A built layer.
        loss: Maps the layer's result to a scalar.
        sources: What the layer is called with: an array, or several in a list.
    """
    tensors = [keras.ops.convert_to_tensor(one) for one in sources]

    def call(*given: Any) -> Any:
        return loss(layer(given[0] if len(given) == 1 else list(given)))

    return GRADIENTS[BACKEND](layer, call, tensors)


def _tensorflow(layer: Any, call: Callable[..., Any], tensors: list[Any]) -> Any:
    import tensorflow as tf

    weights = [one.value for one in layer.trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        value = call(*tensors)
    by_each = tape.gradient(value, [*tensors, *weights])
    return _split(by_each, len(tensors))


def _jax(layer: Any, call: Callable[..., Any], tensors: list[Any]) -> Any:
    import jax

    def value(tensors: list[Any], weights: list[Any]) -> Any:
        pairs = zip(layer.trainable_variables, weights, strict=True)
        with keras.StatelessScope(state_mapping=list(pairs)):
            return call(*tensors)

    weights = [one.value for one in layer.trainable_variables]
    by_tensors, by_weights = jax.jit(jax.grad(value, (0, 1)))(tensors, weights)
    return _split([*by_tensors, *by_weights], len(tensors))


def _torch(layer: Any, call: Callable[..., Any], tensors: list[Any]) -> Any:
    import torch

    tensors = [one.requires_grad_() for one in tensors]
    weights = [one.value for one in layer.trainable_variables]
    return _split(torch.autograd.grad(call(*tensors), [*tensors, *weights]), len(tensors))


def _split(gradients: Any, count: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    arrays = [array(one) for one in gradients]
    return arrays[:count], arrays[count:]


GRADIENTS = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
