"""The Keras model of MODEL=kernel: a sum of fidelities with stored rows."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from common.data.target import Target
from common.model_circuits import kernel_circuit
from common.settings import Settings
from qfleet.circuits import ModelCircuit
from qfleet.tensorflow.layers import State
from qfleet.tensorflow.runtime import keras, tf

MAX_ROWS = 100_000
"""Most stored rows of a model: more than a kernel matrix can be computed of."""

_BLOCK_ROWS = 1024
"""Stored rows whose states are computed at a time."""

_LAYER = "kernel"


class KernelShape(NamedTuple):
    """The parts of a fitted kernel that its model is built from, besides settings.

    Attributes:
        rows: Number of stored rows.
        bandwidth: Factor of the angles in the feature map.
    """

    rows: int
    bandwidth: float


class KernelMachine(keras.layers.Layer):
    """Sums of the fidelities with stored rows: angles [B, features] -> [B, outputs].

    Output k is sum_i c_ik |<psi(x)|psi(x_i)>|^2 + b_k. All is computed in 64 bits, since the
    coefficients c may be large and of both signs.

    Args:
        circuit: The feature map, whose states are compared.
        rows: Number S of stored rows.
        outputs: Numbers per example.
        keras_args: Keras's arguments.

    Attributes:
        rows: float64 [S, features], the stored rows in radians.
        coefficients: float64 [S, outputs], c.
        constant: float64 [outputs], b.
    """

    def __init__(
        self, circuit: ModelCircuit, rows: int, outputs: int, **keras_args: object
    ) -> None:
        super().__init__(trainable=False, **keras_args)
        self._sizes = rows, len(circuit.inputs), outputs
        self._state = State(
            circuit.circuit, circuit.inputs, parameters=(), dtype="float64", name="circuit_0"
        )

    def build(self, input_shape: tf.TensorShape) -> None:
        """Create the weights; all are 0."""
        rows, features, outputs = self._sizes
        self.rows = self._zeros("rows", (rows, features))
        self.coefficients = self._zeros("coefficients", (rows, outputs))
        self.constant = self._zeros("constant", (outputs,))
        super().build(input_shape)

    def _zeros(self, name: str, shape: tuple[int, ...]) -> tf.Variable:
        return self.add_weight(name, shape, dtype="float64", initializer="zeros", trainable=False)

    def call(self, angles: tf.Tensor) -> tf.Tensor:
        """Return float32 [B, outputs]."""
        states = self._state(tf.cast(angles, tf.float64))
        stored, total = tf.convert_to_tensor(self.rows), tf.convert_to_tensor(self.constant)
        coefficients = tf.convert_to_tensor(self.coefficients)
        for first in range(0, self._sizes[0], _BLOCK_ROWS):
            block = slice(first, first + _BLOCK_ROWS)
            overlaps = tf.matmul(states, self._state(stored[block]), adjoint_b=True)
            fidelities = tf.square(tf.math.real(overlaps)) + tf.square(tf.math.imag(overlaps))
            total += tf.matmul(fidelities, coefficients[block])
        return tf.cast(total, tf.float32)


def build_kernel_model(
    features: int, settings: Settings, target: Target, shape: KernelShape
) -> keras.Model:
    """Return a model of angles float32 [B, features], whose weights are all 0.

    Args:
        features: Angles per example.
        settings: The group model is used.
        target: What the model predicts.
        shape: Number of stored rows, and the bandwidth.
    """
    circuit = kernel_circuit(settings.model, features, shape.bandwidth)
    inputs = keras.Input((features,), name="angles")
    outputs = KernelMachine(circuit, shape.rows, target.outputs, name=_LAYER)(inputs)
    return keras.Model(inputs, outputs, name="kernel_model")


def set_machine(
    model: keras.Model, rows: np.ndarray, coefficients: np.ndarray, constant: np.ndarray
) -> None:
    """Assign the weights of a model of `build_kernel_model`.

    Args:
        model: The model.
        rows: [S, features].
        coefficients: [S, outputs].
        constant: [outputs].
    """
    machine = model.get_layer(_LAYER)
    machine.rows.assign(rows)
    machine.coefficients.assign(coefficients)
    machine.constant.assign(constant)


def recorded_shape(described: Mapping[str, Any]) -> KernelShape:
    """Return what a model of model.json is built from.

    Raises:
        KeyError: It has no bandwidth.
        ValueError: Its weights are not those of a kernel.
    """
    shapes = [shape for shape in described["weights"] if len(shape) == 2]
    counts = {shape[0] for shape in shapes}
    if len(shapes) != 2 or len(counts) != 1 or not 1 <= min(counts) <= MAX_ROWS:
        raise ValueError("its weights are not those of MODEL=kernel")
    return KernelShape(min(counts), described["bandwidth"])


def weight_count(model: keras.Model) -> int:
    """Return how many numbers of a model were trained or fitted, without stored rows."""
    stored = sum(
        int(np.prod(layer.rows.shape)) for layer in model.layers if isinstance(layer, KernelMachine)
    )
    return int(model.count_params()) - stored
