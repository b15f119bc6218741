"""The Keras model of TASK=gate: the fidelity of a pulse on perturbed devices."""

import numpy as np

from common.data.target import Target
from common.pulse_objectives import pulse_objective
from common.settings import Settings
from qfleet.tensorflow.runtime import keras, tf

_LAYER = "pulse"


class PulseFidelity(keras.layers.Layer):
    """The average gate fidelity on perturbed devices: rows [B, features] -> [B, 1].

    Args:
        settings: The group model, with the device, is used.
        target: The gate.
        keras_args: Keras's arguments.

    Attributes:
        values: float64 [P + n], the numbers of the envelopes, and angles of virtual rotations.
    """

    def __init__(self, settings: Settings, target: Target, **keras_args: object) -> None:
        super().__init__(trainable=False, **keras_args)
        self._settings, self._target = settings, target
        self._count = len(pulse_objective(settings.model, target).bounds)

    def build(self, input_shape: tf.TensorShape) -> None:
        """Create the weights; all are 0."""
        self.values = self.add_weight(
            "values", (self._count,), dtype="float64", initializer="zeros", trainable=False
        )
        super().build(input_shape)

    def call(self, rows: tf.Tensor) -> tf.Tensor:
        """Return float32 [B, 1]."""
        found = tf.numpy_function(
            self._fidelity, [rows, tf.convert_to_tensor(self.values)], tf.float32
        )
        return tf.reshape(found, [-1, 1])

    def _fidelity(self, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
        objective = pulse_objective(self._settings.model, self._target, rows)
        return objective.result(values).fidelity.astype(np.float32)


def build_pulse_model(features: int, settings: Settings, target: Target) -> keras.Model:
    """Return a model of rows float32 [B, features], whose weights are all 0.

    Args:
        features: Width of a row; see `common.data.problems`.
        settings: The group model is used.
        target: The gate.

    Raises:
        SettingsError: The device lacks qubits or numbers, or the pulse is impossible.
    """
    rows = keras.Input((features,), name="rows")
    return keras.Model(rows, PulseFidelity(settings, target, name=_LAYER)(rows), name="pulse")


def set_pulse(model: keras.Model, values: np.ndarray) -> None:
    """Assign the numbers [P + n] of a model of `build_pulse_model`."""
    model.get_layer(_LAYER).values.assign(values)


def pulse_values(model: keras.Model) -> np.ndarray:
    """Return the numbers of a model of `build_pulse_model`, float64 [P + n]."""
    found: np.ndarray = model.get_layer(_LAYER).values.numpy()
    return found
