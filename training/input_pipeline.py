"""This worker's share of every global batch, as a TensorFlow data set."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np

from common.data import BatchSource, Examples, InMemorySource, WorkerSampler
from common.errors import StorageUnavailable
from qfleet.tensorflow.runtime import tf

# Steps that wait to be taken, besides the blocks that they are cut from.
PREFETCH_STEPS = 8


def batches(
    source: Examples | BatchSource,
    share: WorkerSampler,
    *,
    epoch: int = 0,
    step: int = 0,
    any_size: bool = False,
) -> tf.data.Dataset:
    """Shares of global batches from (epoch, step) on, epoch after epoch without end.

    Python gives many steps at a time; TensorFlow cuts them apart, so that no step waits for Python.

    Args:
        source: The split's rows, or what reads them (`Dataset.batch_source`).
        share: Which of them this worker takes, and when.
        epoch: The first epoch, counted from 0.
        step: The first step in it, counted from 0; as after a restart in mid-epoch.
        any_size: Whether a graph that is made for these batches shall take those of other sizes.

    Returns:
        Elements (angles [rows, features], labels [rows], weights [rows], count []), all float32;
        see `Learner`.
    """
    feed = InMemorySource(source, share) if isinstance(source, Examples) else source
    in_epoch = -(-share.steps // feed.steps)

    def block(number: np.ndarray) -> tuple[np.ndarray, ...]:
        place = step // feed.steps + int(number)
        begin = place % in_epoch * feed.steps
        end = min(begin + feed.steps, share.steps)
        return tuple(feed.block(epoch + place // in_epoch, begin if number else step, end))

    rows = None if any_size else share.padded
    shapes = [None, rows, feed.features], [None, rows], [None, rows], [None]

    def made(number: tf.Tensor) -> tuple[tf.Tensor, ...]:
        tensors = tf.numpy_function(block, [number], [tf.float32] * len(shapes))
        return tuple(map(tf.ensure_shape, tensors, shapes))

    numbers = tf.data.Dataset.range(np.iinfo(np.int64).max)
    return numbers.map(made).unbatch().prefetch(PREFETCH_STEPS)


@contextmanager
def reraise_source_failure(
    feed: BatchSource, salvage: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Let what made reading fail out as it is: TensorFlow hands on its text alone.

    Args:
        feed: What reads.
        salvage: Keeps the state of the last step boundary, if storage lets it.
    """
    try:
        yield
    except tf.errors.OpError:
        if feed.failure is None:
            raise
        with suppress(StorageUnavailable):
            salvage()
        raise feed.failure from None
