"""Circuits in place of the filters of a convolution."""

from collections.abc import Iterable, Sequence
from typing import Any, final

import cirq

from qfleet.circuit_checks import one_or_several
from qfleet.circuits.circuit_json import to_json, value_from_json
from qfleet.errors import ArgumentError
from qfleet.patches import CHANNELS_LAST, Pair, check_images, patch_grid
from qfleet.tensorflow.layers.expectation import Expectation
from qfleet.tensorflow.runtime import keras, tf


@final
@keras.utils.register_keras_serializable("qfleet")
class QuantumConvolution(keras.layers.Layer):
    """Circuits on all patches of images: [B, H, W, C] -> [B, H', W', channels].

    Each circuit computes its observables for every patch of every image: one call of the engine per
    circuit. The output channels are the observables of the first circuit, then of the second, and
    so on. Henderson et al., "Quanvolutional Neural Networks" (arXiv:1904.04767).

    Args:
        circuits: A Cirq circuit, or several.
        inputs: Names of the symbols for the rows * columns * C numbers of a patch, in the order of
            a kernel of Keras's `Conv2D`: by rows, columns and channels.
        observables: PauliSums or PauliStrings with real coefficients, of each circuit.
        kernel_size: Rows and columns of a patch, or one number for both.
        stride: Rows and columns from one patch to the next, or one number for both.
        circuit_args: `initializer`, `backend`, `method` and `sampling` of each circuit; see
            `Expectation`.
        name: The layer's name.
        trainable: False for angles that keep their initial values.
        dtype: float32 or float64.

    Attributes:
        circuits: The circuits as layers.

    Raises:
        ArgumentError: An argument has the wrong type; the message names it.
        CircuitError: A circuit, its symbols or the observables are not supported.

    Examples:
        >>> import cirq, sympy
        >>> import numpy as np
        >>> from qfleet.tensorflow.layers import QuantumConvolution
        >>> qubits = cirq.LineQubit.range(4)
        >>> names = [f"x{i}" for i in range(4)]
        >>> circuit = cirq.Circuit(cirq.ry(sympy.Symbol(x))(q) for x, q in zip(names, qubits))
        >>> layer = QuantumConvolution(circuit, names, [cirq.Z(qubits[0])], 2, stride=2)
        >>> tuple(layer(np.zeros((5, 8, 8, 1))).shape)
        (5, 4, 4, 1)
    """

    def __init__(
        self,
        circuits: cirq.AbstractCircuit | Sequence[cirq.AbstractCircuit],
        inputs: Iterable[str],
        observables: Iterable[cirq.PauliSum | cirq.PauliString],
        kernel_size: int | Pair,
        *,
        stride: int | Pair = 1,
        name: str | None = None,
        trainable: bool = True,
        dtype: str | None = None,
        **circuit_args: Any,
    ) -> None:
        super().__init__(name=name, trainable=trainable, dtype=dtype)
        self._grid = patch_grid(kernel_size, stride)
        every = one_or_several(circuits, "circuits")
        names, sums = list(inputs), list(observables)
        options = {"dtype": self.dtype, "trainable": trainable} | circuit_args
        self.circuits = [
            Expectation(one, names, sums, name=f"circuit_{at}", **options)
            for at, one in enumerate(every)
        ]

    def build(self, input_shape: tf.TensorShape) -> None:
        """Check the images' shape, and create the angles of all circuits."""
        shape = tf.TensorShape(input_shape)
        if shape.rank != 4 or None in shape[1:]:
            raise ArgumentError(
                f"images have shape {shape}: pass [batch, height, width, channels] with known sizes"
            )
        names, move = len(self.circuits[0].inputs), "tf.transpose(images, [0, 2, 3, 1])"
        check_images(self._grid, names, shape.as_list(), CHANNELS_LAST, move)
        super().build(input_shape)

    def call(self, images: tf.Tensor) -> tf.Tensor:
        """Return expectation values [B, H', W', channels] for images [B, H, W, C]."""
        _, height, width, channels = images.shape
        rows, columns = self._grid.places(height, width)
        patches = tf.gather(images, rows, axis=1)  # [B, H', rows, W, C]
        patches = tf.gather(patches, columns, axis=3)  # [B, H', rows, W', columns, C]
        flat = tf.transpose(patches, [0, 1, 3, 2, 4, 5])
        flat = tf.reshape(flat, [-1, self._grid.pixels * channels])
        values = tf.concat([circuit(flat) for circuit in self.circuits], -1)
        return tf.reshape(values, [-1, len(rows), len(columns), values.shape[-1]])

    def get_config(self) -> dict[str, object]:
        """Return the layer's configuration; circuits and observables are Cirq JSON."""
        first = self.circuits[0].get_config()
        kept = ("inputs", "observables", "initializer", "backend", "method", "sampling")
        return {
            **super().get_config(),
            **{key: first[key] for key in kept},
            "circuits": [to_json(one.circuit) for one in self.circuits],
            "kernel_size": self._grid.size,
            "stride": self._grid.stride,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "QuantumConvolution":
        """Make a layer from the result of `get_config`, which may be another user's.

        Raises:
            ValueError: A circuit has an object that is not expected; see `value_from_json`.
        """
        circuits = [value_from_json(one) for one in config["circuits"]]
        observables = value_from_json(config["observables"])
        return cls(**config | {"circuits": circuits, "observables": observables})
