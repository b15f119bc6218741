"""The objective of training: sums over the rows of a worker's share of a batch, and gradients."""

from collections.abc import Sequence

from common.models.normalization import collect_readouts, readout_normalization
from qfleet.tensorflow.runtime import keras, tf
from training.step import fixed_point, step_vector
from training.step.losses import Measures
from training.step.micro_batches import MicroBatches

Batch = Sequence[tf.Tensor]
"""Angles, labels, weights and count; see `Learner`."""


class Objective:
    """Loss of a model, its derivative, and sums for metrics.

    Args:
        model: The model.
        measures: The loss, and what else is summed over rows.
        state_shards: Workers with the same rows; each counts a row as 1 / state_shards.
        micro_batches: Those of a global batch; None if sums may depend on the number of workers.
    """

    def __init__(
        self,
        model: keras.Model,
        measures: Measures,
        state_shards: int,
        micro_batches: MicroBatches | None,
    ) -> None:
        self._model = model
        self._measures = measures
        self._state_shards = state_shards
        self._micro_batches = micro_batches
        self._normalization = readout_normalization(model)

    @property
    def parts(self) -> list[tf.TensorSpec]:
        """Parts of the result of `derive`: gradients, loss, and sums.

        The sums are those of `Measures`, and those for `ReadoutNormalization.update`.
        """
        normalization = self._normalization
        return [
            *(tf.TensorSpec(one.shape, one.dtype) for one in self._model.trainable_variables),
            tf.TensorSpec([], tf.float32),
            tf.TensorSpec([self._measures.sums], tf.float64),
            tf.TensorSpec([normalization.sums if normalization else 0], tf.float64),
        ]

    def derive(self, batch: Batch, step: tf.Tensor) -> tf.Tensor:
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

    def sums(self, batch: Batch) -> tf.Tensor:
        """Return the sums of this worker's rows, encoded by `fixed_point`."""
        *rows, _ = batch

        def sums(*rows: tf.Tensor) -> tf.Tensor:
            return self._sums(*rows, training=False)

        if self._micro_batches is None:
            return fixed_point.encode(sums(*rows))
        return self._micro_batches.sum(rows, self._measures.sums, sums)

    def _derive(
        self,
        angles: tf.Tensor,
        labels: tf.Tensor,
        weights: tf.Tensor,
        count: tf.Tensor,
        regularisers_share: tf.Tensor | float,
    ) -> tf.Tensor:
        """Return gradients, loss and sums of some rows as one float vector."""
        with tf.GradientTape() as tape, collect_readouts() as readouts:
            sums = self._sums(angles, labels, weights, training=True)
            loss = tf.cast(sums[0], tf.float32) / count
            if self._model.losses:  # regularisers
                loss += tf.add_n(self._model.losses) * regularisers_share
        variables = self._model.trainable_variables
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        moments = self._moments(readouts, weights)
        parts = [tf.convert_to_tensor(part) for part in [*gradients, loss, sums, moments]]
        return step_vector.flatten(parts)

    def _moments(self, readouts: list[tf.Tensor], weights: tf.Tensor) -> tf.Tensor:
        """Return the sums of readouts and of their squares, for `ReadoutNormalization.update`."""
        if not self._normalization:
            return tf.zeros([0])
        (found,) = readouts
        rows = tf.concat([found, tf.square(found)], 1) * weights[:, tf.newaxis]
        return tf.reduce_sum(rows, axis=0) / self._state_shards

    def update(self, sums: tf.Tensor, moments: tf.Tensor) -> None:
        """Update the statistics of the readouts by the sums of all workers.

        Args:
            sums: Those of `Measures`, the last of which is the number of rows.
            moments: Those for `ReadoutNormalization.update`.
        """
        if self._normalization:
            self._normalization.update(moments, sums[-1])

    def _sums(
        self, angles: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, *, training: bool
    ) -> tf.Tensor:
        rows = self._measures.stack(self._model(angles, training=training), labels)
        weights = weights / self._state_shards
        factors = self._measures.factors(labels)
        if factors is None:
            return tf.reduce_sum(rows * weights, axis=1)
        loss = rows[:1] * factors
        return tf.reduce_sum(tf.concat([loss, rows[1:]], 0) * weights, axis=1)


def _replicas() -> float:
    return float(tf.distribute.get_strategy().num_replicas_in_sync)
