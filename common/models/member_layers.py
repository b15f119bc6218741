"""Layers of variational models: columns of a row, angles by member, and fidelities."""

from collections.abc import Sequence

import numpy as np

from qfleet.compiler.circuit.observables import pauli_matrix
from qfleet.tensorflow.runtime import keras, tf


class Columns(keras.layers.Layer):
    """Returns columns `first` to `last` - 1 of rows [B, features].

    Args:
        first: First column.
        last: Column after the last one.
        keras_args: Keras's arguments.
    """

    def __init__(self, first: int, last: int, **keras_args: object) -> None:
        super().__init__(**keras_args)
        self._first, self._last = first, last

    def call(self, rows: tf.Tensor) -> tf.Tensor:
        """Return [B, last - first]."""
        return rows[:, self._first : self._last]


class MemberAngles(keras.layers.Layer):
    """Trained angles of each member of a family: numbers [B, 1] -> angles [B, angles].

    Args:
        members: Number of members.
        angles: Angles of a member.
        initializer: Of the angles, in radians.
        keras_args: Keras's arguments.
    """

    def __init__(
        self,
        members: int,
        angles: int,
        initializer: keras.initializers.Initializer,
        **keras_args: object,
    ) -> None:
        super().__init__(**keras_args)
        self._shape, self._initializer = (members, angles), initializer

    def build(self, input_shape: tf.TensorShape) -> None:
        """Create the weight `angles` [members, angles]."""
        self.angles = self.add_weight("angles", self._shape, initializer=self._initializer)
        super().build(input_shape)

    def call(self, numbers: tf.Tensor) -> tf.Tensor:
        """Return the angles of the members with these numbers."""
        # A product with one-hot rows, since its gradient is dense and its order of sums fixed.
        chosen = tf.one_hot(tf.cast(numbers[:, 0], tf.int32), self._shape[0])
        return tf.matmul(chosen, tf.convert_to_tensor(self.angles))


class Fidelity(keras.layers.Layer):
    """Fidelities |<target|state>|^2 [B, 1] of states [B, 2**N] and targets [B, 2 * 2**N].

    A target holds the real parts of its amplitudes, and then the imaginary parts.
    """

    def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return the fidelities."""
        state, target = inputs
        real, imaginary = tf.split(target, 2, axis=1)
        conjugate = tf.complex(real, -imaginary)
        overlap = tf.reduce_sum(conjugate * tf.cast(state, conjugate.dtype), axis=1)
        return tf.square(tf.math.real(overlap))[:, None] + tf.square(tf.math.imag(overlap))[:, None]


class WordFidelity(keras.layers.Layer):
    """Fidelities <target|rho|target> [B, 1] of word values [B, 4**N - 1] and targets.

    Args:
        scaled_gradient: Give the gradient of fidelity / sqrt(purity) instead, which vanishes where
            the word values are proportional to the target's; see `scaled_infidelity_gradient`.
        keras_args: Keras's arguments.
    """

    def __init__(self, *, scaled_gradient: bool, **keras_args: object) -> None:
        super().__init__(**keras_args)
        self._scaled = scaled_gradient

    def call(self, inputs: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return the fidelities, for targets as those of `Fidelity`."""
        values, target = inputs
        words = _word_values(target)
        size = (words.shape[1] + 1) ** 0.5
        fidelity = (1 + tf.reduce_sum(values * words, axis=1, keepdims=True)) / size
        if not self._scaled:
            return fidelity
        purity = (1 + tf.reduce_sum(tf.square(values), axis=1, keepdims=True)) / size
        scaled = fidelity / tf.sqrt(purity)
        return scaled + tf.stop_gradient(fidelity - scaled)


def _word_values(target: tf.Tensor) -> tf.Tensor:
    """Return float32 [B, 4**N - 1]: the values of `pauli_words` in targets [B, 2 * 2**N]."""
    real, imaginary = tf.split(target, 2, axis=1)
    state = tf.complex(real, imaginary)
    qubits = int(state.shape[1]).bit_length() - 1
    product = state[:, :, None] * tf.math.conj(state)[:, None, :]
    rest = tf.reshape(product, [-1, *(2,) * (2 * qubits)])
    letters = tf.constant(np.stack([pauli_matrix(letter) for letter in "IXYZ"]), rest.dtype)
    for left in range(qubits, 0, -1):
        rest = tf.tensordot(rest, letters, axes=[[1, 1 + left], [2, 1]])
    return tf.reshape(tf.math.real(rest), [-1, 4**qubits])[:, 1:]
