"""This worker's share of every global batch, as a TensorFlow data set."""

import numpy as np

from common.data import Examples, Share
from common.tensorflow import tf


def batches(examples: Examples, share: Share, *, epoch: int = 0, step: int = 0) -> tf.data.Dataset:
    """Shares of global batches from (epoch, step) on, epoch after epoch without end.

    Args:
        examples: The split's rows.
        share: Which of them this worker takes, and when.
        epoch: The first epoch, counted from 0.
        step: The first step in it, counted from 0; as after a restart in mid-epoch.

    Returns:
        Elements (angles [rows, features], labels [rows], weights [rows], count []), all float32;
        see `Learner`.
    """
    angles = tf.constant(examples.angles, tf.float32)
    labels = tf.constant(examples.labels, tf.float32)

    def plan(number: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        planned = share.epoch(int(number))
        skip = step if number == epoch else 0
        rows, weights, counts = planned.rows, planned.weights, planned.counts
        return rows[skip:].astype(np.int64), weights[skip:], counts[skip:].astype(np.float32)

    def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
        rows, weights, counts = tf.numpy_function(
            plan, [number], (tf.int64, tf.float32, tf.float32), stateful=False
        )
        rows.set_shape([None, share.padded])
        weights.set_shape([None, share.padded])
        counts.set_shape([None])
        return tf.data.Dataset.from_tensor_slices((rows, weights, counts))

    def gather(
        rows: tf.Tensor, weights: tf.Tensor, count: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        return tf.gather(angles, rows), tf.gather(labels, rows), weights, count

    epochs = tf.data.Dataset.range(epoch, np.iinfo(np.int64).max)
    return epochs.flat_map(one_epoch).map(gather).prefetch(tf.data.AUTOTUNE)


def distributed(strategy: tf.distribute.Strategy, dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The data set as the strategy wants it, neither sharded nor batched anew by it."""
    return strategy.distribute_datasets_from_function(lambda _: dataset)
