"""This worker's share of every global batch, as a TensorFlow data set."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np

from common import storage
from common.data import BatchSource, Dataset, Examples, InMemorySource, WorkerSampler
from common.errors import StorageFull, StorageUnavailable
from common.settings import Settings, micro_batch_count
from qfleet.tensorflow.runtime import tf
from training.cluster.spec import ClusterSpec


class SplitSamplers:
    """The sampler and the source of batches of this worker, by split.

    Args:
        data: The data set.
        settings: All settings.
        cluster: All workers, and the rank of this one.
    """

    def __init__(self, data: Dataset, settings: Settings, cluster: ClusterSpec) -> None:
        self._data, self._settings, self._cluster = data, settings, cluster
        self._samplers: dict[str, WorkerSampler] = {}

    def sampler(self, split: str) -> WorkerSampler:
        """Return which rows of a split this worker takes in which step."""
        if split not in self._samplers:
            training = self._settings.training
            self._samplers[split] = WorkerSampler(
                self._data.partition_sizes(split),
                rank=self._cluster.rank // training.state_shards,
                world_size=self._cluster.size // training.state_shards,
                batch=training.global_batch,
                seed=self._settings.data.seed,
                layout=self._data.layout(split),
                micro_batches=micro_batch_count(self._settings),
            )
        return self._samplers[split]

    @property
    def read_storage(self) -> bool:
        """True if steps wait for requests to remote storage."""
        in_memory = self._data.splits_in_memory()
        return not storage.is_local(self._data.path) and not set(self._data.splits) <= in_memory

    def source(self, split: str) -> BatchSource:
        """Return what reads this worker's rows of a split."""
        return self._data.batch_source(split, self.sampler(split))


def batches(
    source: Examples | BatchSource,
    sampler: WorkerSampler,
    *,
    epoch: int = 0,
    step: int = 0,
    any_size: bool = False,
    keep: bool = False,
) -> tf.data.Dataset:
    """Return this worker's shares of global batches from (epoch, step) on, without end.

    Python produces blocks of many steps. TensorFlow cuts them apart, so that no step waits for
    Python.

    Args:
        source: The rows of the split, or what reads them (`Dataset.batch_source`).
        sampler: The rows that this worker takes, by step.
        epoch: First epoch, counted from 0.
        step: First step in it, counted from 0; not 0 after a restart within an epoch.
        any_size: Leave the batch size out of the shapes, so that a graph accepts other sizes too.
        keep: Repeat the first epoch where it is one block, for measurements: their sums do not need
            another order, and the block is read once.

    Returns:
        Elements (angles [rows, features], labels [rows], weights [rows], count []), all float32;
        see `Learner`. With micro-batches, [micro-batches, rows] takes the place of [rows].
    """
    blocks = InMemorySource(source, sampler) if isinstance(source, Examples) else source
    blocks_per_epoch = -(-sampler.steps // blocks.steps)

    def read_block(number: np.ndarray) -> tuple[np.ndarray, ...]:
        index = step // blocks.steps + int(number)
        begin = index % blocks_per_epoch * blocks.steps
        end = min(begin + blocks.steps, sampler.steps)
        first = begin if number else step
        *parts, counts = blocks.block(epoch + index // blocks_per_epoch, first, end)
        divided = [part.reshape(len(part), *own_rows, *part.shape[2:]) for part in parts]
        return (*divided, counts)

    own_rows = [sampler.padded]
    if sampler.is_divided:
        own_rows = [sampler.padded // sampler.micro_batch, sampler.micro_batch]
    rows = [None] * len(own_rows) if any_size else own_rows
    shapes = [None, *rows, blocks.features], [None, *rows], [None, *rows], [None]

    def as_tensors(number: tf.Tensor) -> tuple[tf.Tensor, ...]:
        # Where operations are deterministic, tf.data ignores `prefetch` after stateful ones.
        tensors = tf.numpy_function(
            read_block, [number], [tf.float32] * len(shapes), stateful=False
        )
        return tuple(map(tf.ensure_shape, tensors, shapes))

    kept = keep and blocks_per_epoch == 1
    read = tf.data.Dataset.range(1 if kept else np.iinfo(np.int64).max).map(as_tensors)
    # One block is read ahead. Each step would pay for a thread if single steps were, so TensorFlow
    # must not do that either: its buffers have another size on each worker, which would then read
    # blocks in different steps, and wait for each other each time.
    steps = (read.cache().repeat() if kept else read.prefetch(1)).unbatch()
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    return steps.with_options(options)


@contextmanager
def reraise_source_failure(
    source: BatchSource, save_newest: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Raise the original error of a source; TensorFlow passes on its text only.

    Args:
        source: The source that is read in the body.
        save_newest: Commits the state of the last step boundary, if storage is available.
    """
    try:
        yield
    except tf.errors.OpError:
        if source.failure is None:
            raise
        with suppress(StorageFull, StorageUnavailable):
            save_newest()
        raise source.failure from None
