"""A worker's share of global batches, some steps at a time: from memory, or from storage.

Both ways give the same rows in the same places; only a row that pads (weight 0) may differ.
"""

from typing import NamedTuple, Protocol

import numpy as np

from common.data.sampling import WorkerSampler
from common.data.splits import Examples

# Steps that are handed over at a time, at most.
MAX_STEPS_PER_BLOCK = 50


class StepBlock(NamedTuple):
    """This worker's share of some steps; all float32.

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
    """What gives blocks.

    Attributes:
        share: Which rows, and when.
        features: Angles per example.
        steps: Steps of a block, at most.
        failure: What made reading end; None while it goes on.
    """

    share: WorkerSampler
    features: int
    steps: int
    failure: Exception | None

    def block(self, epoch: int, first: int, last: int) -> StepBlock:
        """Steps `first` to `last` - 1 of an epoch, both counted from 0.

        Raises:
            DataError: A shard is missing, cut short or altered.
            StorageUnavailable: Storage does not answer.
        """


class InMemorySource:
    """Examples that are in memory.

    Args:
        examples: All rows of the split, by their numbers.
        share: Which of them, and when.
    """

    failure: Exception | None = None

    def __init__(self, examples: Examples, share: WorkerSampler) -> None:
        self.share = share
        self.features = examples.angles.shape[1]
        self.steps = MAX_STEPS_PER_BLOCK
        self._examples = examples

    def block(self, epoch: int, first: int, last: int) -> StepBlock:
        """Steps `first` to `last` - 1 of an epoch."""
        rows, weights, counts = self.share.part(epoch, first, last)
        angles, labels = self._examples
        return StepBlock(angles[rows], labels[rows], weights, counts.astype(np.float32))
