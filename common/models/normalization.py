"""Normalised readouts: mean 0 and variance 1 over the examples, before the dense head.

Noise shrinks and shifts the distribution of a readout over the examples; scaled by its own
statistics, the head gets what it was trained on. Wang et al., "QuantumNAT" (arXiv:2110.11331).

Their statistics are moving averages over training steps, which each worker updates by the sums of
the whole global batch. So they do not depend on the number of workers, and are saved with the
weights. Inference uses them as they are, or those of the training split under another noise.
"""

import contextlib
import contextvars
from collections.abc import Iterator

import numpy as np

from qfleet.tensorflow.runtime import keras, tf

DECAY = 0.9
"""Factor of the statistics of earlier steps."""

EPSILON = 1e-4
"""Added to variances, so that a constant readout stays finite."""

_CALLS: contextvars.ContextVar[list[tf.Tensor] | None] = contextvars.ContextVar(
    "calls", default=None
)


class ReadoutNormalization(keras.layers.Layer):
    """Scales readouts [B, readouts] by the mean and the variance of each over the examples."""

    def build(self, input_shape: tf.TensorShape) -> None:
        """Create the weight `moments`: averages of readouts and squares, and the sum of factors."""
        self._readouts = int(input_shape[-1])
        self.moments = self.add_weight(
            "moments",
            shape=(2 * self._readouts + 1,),
            initializer="zeros",
            trainable=False,
            # Each replica has its own; all are equal, as they follow from all-reduced sums.
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
        super().build(input_shape)

    def call(self, readouts: tf.Tensor, training: bool | tf.Tensor | None = None) -> tf.Tensor:
        """Return the normalised readouts; unchanged before the first step."""
        calls = _CALLS.get()
        if calls is not None:
            calls.append(readouts)
        moments = tf.convert_to_tensor(self.moments)
        factor = moments[-1]
        mean, square = tf.split(moments[:-1] / tf.maximum(factor, 1e-12), 2)
        variance = tf.maximum(square - tf.square(mean), 0) + EPSILON
        scale = tf.where(factor > 0, tf.math.rsqrt(variance), tf.ones_like(mean))
        return (readouts - mean) * scale

    @property
    def sums(self) -> int:
        """Numbers of the argument of `update`."""
        return 2 * self._readouts

    def update(self, sums: tf.Tensor, examples: tf.Tensor) -> None:
        """Add the statistics of a training step.

        Args:
            sums: [2 * readouts], of the readouts and of their squares.
            examples: Their number.
        """
        means = tf.concat([tf.cast(sums / examples, tf.float32), [1.0]], 0)
        self.moments.assign(DECAY * tf.convert_to_tensor(self.moments) + (1 - DECAY) * means)

    def adapt(self, readouts: np.ndarray) -> None:
        """Replace the statistics by those of readouts [examples, readouts]."""
        values = readouts.astype(np.float64)
        moments = [*values.mean(axis=0), *np.square(values).mean(axis=0), 1.0]
        self.moments.assign(np.array(moments, np.float32))


def readout_normalization(model: keras.Model) -> ReadoutNormalization | None:
    """Return the layer of a model; None without NORMALIZE_READOUTS."""
    found = [layer for layer in model.submodules if isinstance(layer, ReadoutNormalization)]
    return found[0] if found else None


@contextlib.contextmanager
def collect_readouts() -> Iterator[list[tf.Tensor]]:
    """Collect the readouts [B, readouts] that models are called with inside of the context."""
    calls: list[tf.Tensor] = []
    token = _CALLS.set(calls)
    try:
        yield calls
    finally:
        _CALLS.reset(token)
