"""Sums over a worker's micro-batches, which do not depend on the number of workers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from common.settings import Settings, micro_batch_count
from qfleet.tensorflow.micro_batch import use_micro_batch
from qfleet.tensorflow.runtime import tf
from training.cluster.spec import ClusterSpec
from training.step import fixed_point


@dataclass(frozen=True)
class MicroBatches:
    """The micro-batches of a global batch.

    Attributes:
        count: Number of micro-batches, over all workers.
        first: Number of this worker's first one.
        own: Number of this worker's; 0 where there are more workers than micro-batches.
    """

    count: int
    first: int
    own: int

    @classmethod
    def of(cls, settings: Settings, cluster: ClusterSpec) -> Self | None:
        """Return those of the settings; None with REPRODUCIBLE=false."""
        count = micro_batch_count(settings)
        if count is None:
            return None
        shards = settings.training.state_shards
        groups = settings.training.workers // shards  # 1 in a benchmark of independent workers
        rank = cluster.rank // shards % groups
        first, end = (-(-one * count // groups) for one in (rank, rank + 1))
        return cls(count, first, end - first)

    def sum(
        self,
        parts: Sequence[tf.Tensor],
        length: int,
        compute: Callable[..., tf.Tensor],
        step: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the exact sum of a function over the micro-batches of this worker, encoded.

        Args:
            parts: Tensors [micro-batches, ...] whose rows are the arguments of `compute`.
            length: Numbers that `compute` returns.
            compute: Returns a float vector for one micro-batch.
            step: int64 [], in training: micro-batches then have different random numbers.
        """

        def one(index: tf.Tensor | int) -> tf.Tensor:
            number = None
            if step is not None:
                number = step * self.count + self.first + tf.cast(index, tf.int64)
            with use_micro_batch(number):
                return fixed_point.encode(compute(*(part[index] for part in parts)))

        zero = tf.zeros([fixed_point.encoded_length(length)], tf.int64)
        if self.own == 0:
            return zero
        if self.count == 1:
            return tf.ensure_shape(one(0), zero.shape)
        # A loop also for a single one: the same operations outside of a loop could be optimized,
        # and so rounded, in another way.
        _, total = tf.while_loop(
            lambda index, total: index < self.own,
            lambda index, total: (index + 1, total + one(index)),
            (tf.constant(0), zero),
            parallel_iterations=1,
        )
        return total
