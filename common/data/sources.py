"""Sources of a worker's rows of global batches, several steps at a time: memory or storage.

Both return the same rows at the same positions; only padding (weight 0) may differ.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import numpy as np

from common.data.dataset_dir import Shard
from common.data.sampling import WorkerSampler
from common.data.splits import Examples

MAX_STEPS_PER_BLOCK = 50
"""Most steps that a source returns at a time."""


class StepBlock(NamedTuple):
    """A worker's rows of some steps; all float32.

    Attributes:
        angles: [steps, padded, features], radians.
        labels: [steps, padded], -1 or +1.
        weights: [steps, padded], 1 for a row and 0 for padding.
        counts: [steps], rows of the whole global batch.
    """

    angles: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    counts: np.ndarray


class BatchSource(Protocol):
    """Source of blocks.

    Attributes:
        sampler: Rows of the worker.
        features: Angles per example.
        steps: Most steps of a block.
        failure: The error that ended reading, or None.
    """

    sampler: WorkerSampler
    features: int
    steps: int
    failure: Exception | None

    def block(self, epoch: int, first: int, last: int) -> StepBlock:
        """Return steps `first` to `last` - 1 of an epoch, both counted from 0.

        Raises:
            DataError: A shard is missing, incomplete or altered.
            StorageUnavailable: Storage does not respond.
        """


class Releasable(Protocol):
    """A user of memory that can free it."""

    def release(self) -> None:
        """Free the memory."""


class ShardReader(Protocol):
    """A data set whose shards can be read."""

    memory: int

    @property
    def name(self) -> str:
        """Name of the data set."""

    @property
    def features(self) -> int:
        """Angles per example."""

    def shards(self, split: str) -> Sequence[Shard]:
        """Return the shards of a split."""

    def fetch(self, shard: Shard) -> bytes:
        """Return the verified content of a shard."""

    def exclusive_memory(self, stream: Releasable) -> AbstractContextManager[None]:
        """Give the memory to one stream; the stream that had it before releases it."""


class InMemorySource:
    """Reads blocks of a split in memory; implements `BatchSource`.

    Args:
        examples: All rows of the split, by number.
        sampler: Rows of the worker.
    """

    failure: Exception | None = None

    def __init__(self, examples: Examples, sampler: WorkerSampler) -> None:
        self.sampler = sampler
        self.features = examples.angles.shape[1]
        self.steps = MAX_STEPS_PER_BLOCK
        self._examples = examples

    def block(self, epoch: int, first: int, last: int) -> StepBlock:
        """Return steps `first` to `last` - 1 of an epoch."""
        rows, weights, counts = self.sampler.positions(epoch, first, last)
        angles, labels = self._examples
        return StepBlock(angles[rows], labels[rows], weights, counts.astype(np.float32))
