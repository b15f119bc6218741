"""Trained angles as the weight of a layer, which its files store with their names."""

import json
import random
from collections.abc import MutableMapping, Sequence
from typing import Any

import numpy as np

from qfleet.argument_checks import shown
from qfleet.circuit_checks import check_angle_names
from qfleet.compiler.circuit.sampling import SEED
from qfleet.errors import ArgumentError
from qfleet.tensorflow.runtime import keras, tf

_NAMES = "names"  # of the angles in a file of weights


def resolve_seed(seed: int | None) -> int:
    """Return a seed, drawn by the generator that keras.utils.set_random_seed seeds if None."""
    return random.randrange(2**31) if seed is None else SEED(seed, "seed")


class _AngleNames(tf.train.experimental.PythonState):
    """The names of a layer's angles in a checkpoint of TensorFlow; earlier ones have none."""

    def __init__(self, layer: str, names: Sequence[str]) -> None:
        self._layer, self._names = layer, tuple(names)

    def serialize(self) -> str:
        """Return the names as JSON."""
        return json.dumps(self._names)

    def deserialize(self, string_value: bytes | str) -> None:
        """Check the names that were saved.

        Raises:
            ArgumentError: They are others, or in another order.
        """
        check_angle_names(tf.compat.as_text(string_value), self._names, self._layer)


class TrainedAngles(keras.layers.Layer):
    """A layer with trained angles. Abstract.

    Attributes:
        parameters: Names of the angles, in order; set by the subclass.
    """

    parameters: tuple[str, ...]

    def _set_initializer(self, initializer: Any, seed: int | None) -> None:
        """Set the initializer of the angles: uniform in [0, 2 pi) if None."""
        self._angle_names = _AngleNames(self.name, self.parameters)
        uniform = keras.initializers.RandomUniform(0.0, 2 * np.pi, seed=resolve_seed(seed))
        try:
            self.initializer = keras.initializers.get(
                uniform if initializer is None else initializer
            )
        except (TypeError, ValueError):
            raise ArgumentError(
                f"initializer is {shown(initializer)}: pass a Keras initializer or its name"
            ) from None

    def build(self, input_shape: tf.TensorShape) -> None:
        """Create the weight `angles` [parameters]."""
        self.angles = self.add_weight(
            "angles", shape=(len(self.parameters),), initializer=self.initializer
        )
        super().build(input_shape)

    def get_config(self) -> dict[str, object]:
        """Return the layer's configuration; circuits are Cirq JSON."""
        initializer = keras.initializers.serialize(self.initializer)
        return {**super().get_config(), "initializer": initializer}

    def save_own_variables(self, store: MutableMapping[str, np.ndarray]) -> None:
        """Write the angles and their names to an HDF5 group of a `.keras` or `.weights.h5` file."""
        super().save_own_variables(store)
        store[_NAMES] = np.frombuffer(self._angle_names.serialize().encode(), np.uint8)

    def load_own_variables(self, store: MutableMapping[str, np.ndarray]) -> None:
        """Read what `save_own_variables` wrote; files of earlier versions have no names.

        Raises:
            ArgumentError: The file has angles of other names, or in another order.
        """
        values = dict(store.items())
        if names := np.asarray(values.pop(_NAMES, ()), np.uint8).tobytes():
            self._angle_names.deserialize(names)
        super().load_own_variables(values)
