"""Circuits in place of the filters of a convolution, for Keras 3."""

from collections.abc import Iterable, Sequence
from typing import Any, final

import cirq
import keras

from qfleet.circuit_checks import one_or_several
from qfleet.circuits.circuit_json import to_json, value_from_json
from qfleet.errors import ArgumentError
from qfleet.keras.backend_circuit import Tensor
from qfleet.keras.expectation import Expectation
from qfleet.patches import CHANNELS_LAST, Pair, check_images, patch_grid


@final
@keras.saving.register_keras_serializable("qfleet")
class QuantumConvolution(keras.layers.Layer):
    """Circuits on all patches of images: [B, H, W, C] -> [B, H', W', channels].

    Each circuit computes its observables for every patch of every image: one call of the engine per
    circuit. The output channels are the observables of the first circuit, then of the second, and
    so on. Channels are last, whatever Keras's image_data_format. Henderson et al., "Quanvolutional
    Neural Networks" (arXiv:1904.04767).

    Args:
        circuits: A Cirq circuit, or several.
        inputs: Names of the symbols for the rows * columns * C numbers of a patch, in the order of
            a kernel of Keras's `Conv2D`: by rows, columns and channels.
        observables: PauliSums or PauliStrings with real coefficients, of each circuit.
        kernel_size: Rows and columns of a patch, or one number for both.
        stride: Rows and columns from one patch to the next, or one number for both.
        name: The layer's name.
        trainable: False for angles that keep their initial values.
        dtype: As for the layers of circuits; see CircuitLayer.
        circuit_args: `initializer`, `method` and `sampling` of each circuit; see `Expectation`.

    Attributes:
        circuits: The circuits as layers.

    Raises:
        ArgumentError: An argument has the wrong type; the message names it.
        CircuitError: A circuit, its symbols or the observables are not supported.

    Examples:
        >>> import cirq, sympy
        >>> import numpy as np
        >>> from qfleet.keras import QuantumConvolution
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
        dtype: Any = None,
        **circuit_args: Any,
    ) -> None:
        super().__init__(name=name, trainable=trainable, dtype=dtype, autocast=False)
        self.supports_jit = keras.backend.backend() != "tensorflow"
        self._grid = patch_grid(kernel_size, stride)
        every = one_or_several(circuits, "circuits")
        names, sums = list(inputs), list(observables)
        options = {"dtype": self.dtype_policy, "trainable": trainable} | circuit_args
        self.circuits = [
            Expectation(one, names, sums, name=f"circuit_{at}", **options)
            for at, one in enumerate(every)
        ]

    def build(self, input_shape: Any) -> None:
        """Check the images' shape, and create the angles of all circuits."""
        if len(input_shape) != 4 or None in input_shape[1:]:
            raise ArgumentError(
                f"images have shape {list(input_shape)}: pass [batch, height, width, channels] with"
                " known sizes"
            )
        names, move = len(self.circuits[0].inputs), "keras.ops.moveaxis(images, 1, 3)"
        check_images(self._grid, names, input_shape, CHANNELS_LAST, move)
        for circuit in self.circuits:
            circuit.build((None, len(circuit.inputs)))

    def call(self, images: Tensor) -> Tensor:
        """Return expectation values [B, H', W', channels] for images [B, H, W, C]."""
        ops = keras.ops
        _, height, width, channels = images.shape
        rows, columns = self._grid.places(height, width)
        patches = ops.take(images, rows, axis=1)  # [B, H', rows, W, C]
        patches = ops.take(patches, columns, axis=3)  # [B, H', rows, W', columns, C]
        flat = ops.transpose(patches, (0, 1, 3, 2, 4, 5))
        flat = ops.reshape(flat, (-1, self._grid.pixels * channels))
        values = ops.concatenate([circuit(flat) for circuit in self.circuits], axis=-1)
        return ops.reshape(values, (-1, len(rows), len(columns), values.shape[-1]))

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """Return the shape of the values, [batch, H', W', channels]."""
        channels = sum(len(circuit.observables) for circuit in self.circuits)
        return input_shape[0], *self._grid.counts(*input_shape[1:3]), channels

    def get_config(self) -> dict[str, object]:
        """Return the layer's configuration; circuits and observables are Cirq JSON."""
        first = self.circuits[0].get_config()
        kept = ("inputs", "observables", "initializer", "method", "sampling")
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
        values = {"circuits": circuits, "observables": value_from_json(config["observables"])}
        kept = {key: value for key, value in config.items() if key != "backend"}  # legacy Keras's
        made: QuantumConvolution = super().from_config(kept | values)
        return made
