"""The objective of training: sums over the rows of a worker's share of a batch, and gradients."""

from typing import Any

from qfleet.tensorflow.runtime import keras, tf
from training import fixed_point, step_vector
from training.micro_batches import MicroBatches

SUMS = ("squared error", "correct signs", "rows")
"""Sums over the rows of a batch, in addition to the gradients."""


class Objective:
    """Mean squared error of a model, and its derivative.

    Args:
        model: The model.
        state_shards: Workers with the same rows; each counts a row as 1 / state_shards.
        micro_batches: Those of a global batch; None if sums may depend on the number of workers.
    """

    def __init__(
        self, model: keras.Model, state_shards: int, micro_batches: MicroBatches | None
    ) -> None:
        self._model = model
        self._state_shards = state_shards
        self._micro_batches = micro_batches

    @property
    def parts(self) -> list[tf.TensorSpec]:
        """Parts of the result of `derive`: gradients, loss, and SUMS."""
        return [
            *(tf.TensorSpec(one.shape, one.dtype) for one in self._model.trainable_variables),
            tf.TensorSpec([], tf.float32),
            tf.TensorSpec([len(SUMS)], tf.float64),
        ]

    def derive(self, batch: Any, step: tf.Tensor) -> tf.Tensor:
        """Return `parts` of this worker's rows, as one vector for `step_vector.pack`.

        Args:
            batch: See `Learner`.
            step: int64 [], the step of the run.
        """
        angles, labels, weights, count = batch
        if self._micro_batches is None:
            return self._derive(angles, labels, weights, count, 1 / _replicas())

        def derive(angles: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
            # By rows, so that the regularisers of all micro-batches count as one.
            share = tf.reduce_sum(weights) / (count * self._state_shards)
            return self._derive(angles, labels, weights, count, share)

        length = sum(part.shape.num_elements() for part in self.parts)
        return self._micro_batches.sum((angles, labels, weights), length, derive, step)

    def sums(self, batch: Any) -> tf.Tensor:
        """Return SUMS of this worker's rows, encoded by `fixed_point`."""
        *rows, _ = batch

        def sums(*rows: tf.Tensor) -> tf.Tensor:
            return self._sums(*rows, training=False)

        if self._micro_batches is None:
            return fixed_point.encode(sums(*rows))
        return self._micro_batches.sum(rows, len(SUMS), sums)

    def _derive(
        self,
        angles: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        count: tf.Tensor,
        regularisers_share: tf.Tensor | float,
    ) -> tf.Tensor:
        """Return gradients, loss and sums of some rows as one float vector."""
        with tf.GradientTape() as tape:
            sums = self._sums(angles, labels, weights, training=True)
            loss = tf.cast(sums[0], tf.float32) / count
            if self._model.losses:  # regularisers
                loss += tf.add_n(self._model.losses) * regularisers_share
        variables = self._model.trainable_variables
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        parts = [tf.convert_to_tensor(part) for part in [*gradients, loss, sums]]
        return step_vector.flatten(parts)

    def _sums(
        self, angles: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, *, training: bool
    ) -> tf.Tensor:
        predictions = tf.reshape(self._model(angles, training=training), [-1])
        # The sign of a prediction is its class; 0 counts as +1.
        correct = tf.cast((predictions >= 0) == (labels >= 0), tf.float32)
        rows = tf.stack([tf.square(predictions - labels), correct, tf.ones_like(labels)])
        return tf.reduce_sum(rows * (weights / self._state_shards), axis=1)


def _replicas() -> float:
    return float(tf.distribute.get_strategy().num_replicas_in_sync)
