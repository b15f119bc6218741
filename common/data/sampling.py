"""Sampler of a worker: its rows of every global batch.

Global batch b is rows b*B to (b+1)*B-1 of the global order of an epoch (see shuffling.py). Workers
share the partitions: each worker takes consecutive partitions, group after group, so that it needs
few shards of other workers. If a split is one shard, worker r of W takes partitions r, r+W, ...
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from common.data.shuffling import SINGLE_SHARD, EpochOrder, ShardLayout
from common.errors import SettingsError


@dataclass(frozen=True)
class BatchPositions:
    """Source and destination of a worker's rows of some steps.

    Attributes:
        partition: int64 [n], index among the worker's own partitions.
        offset: int64 [n], rows of the partition that come before in the epoch; not decreasing.
        step: int64 [n], counted from the first of these steps.
        slot: int64 [n], index in the worker's part of the batch.
    """

    partition: np.ndarray
    offset: np.ndarray
    step: np.ndarray
    slot: np.ndarray


class EpochPositions(NamedTuple):
    """Rows of one worker in some steps; the last batch of an epoch may be smaller.

    Attributes:
        rows: int64 [steps, padded], rows of the split; padding repeats one of the worker's own.
        weights: float32 [steps, padded], 1 for a row and 0 for padding.
        counts: int64 [steps], rows of the whole global batch.
    """

    rows: np.ndarray
    weights: np.ndarray
    counts: np.ndarray


class WorkerSampler:
    """Sampler of the rows of one worker, like torch's DistributedSampler.

    Every worker pads its part to the same size: the most rows that any worker has in any batch. The
    size is the same in every epoch, since shuffling stays within partitions.

    Args:
        sizes: Rows of each partition, as from `partition_sizes`.
        rank: Number of this worker, from 0.
        world_size: Number of workers, at most the number of partitions.
        batch: Rows of a global batch.
        seed: Seed of the order.
        layout: Shards of the split.

    Attributes:
        order: The order of rows.
        steps: Global batches per epoch.
        partitions: int64 [n], the worker's own partitions.
        padded: Rows of a worker per batch, including padding.

    Raises:
        SettingsError: There are more workers than partitions.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        rank: int,
        world_size: int,
        batch: int,
        seed: int,
        layout: ShardLayout = SINGLE_SHARD,
    ) -> None:
        if world_size > len(sizes):
            raise SettingsError(
                f"WORKERS={world_size} is more than the {len(sizes)} partitions of the data set,"
                " the maximum: lower WORKERS or raise PARTITIONS"
            )
        if not 0 <= rank < world_size or batch < 1:
            raise ValueError(f"rank {rank} of {world_size} with batch {batch} is not possible")
        self.order = EpochOrder(sizes, layout, seed)
        self.batch = batch
        self.rank, self.world_size = rank, world_size
        self.steps = -(-self.order.rows // batch)
        workers = _workers(self.order, world_size)
        self.partitions = np.flatnonzero(workers == rank)
        self.padded = _most_rows(self.order, workers, world_size, batch)
        self._epoch: tuple[int, np.ndarray] | None = None

    def batch_positions(self, first: int, last: int) -> BatchPositions:
        """Return the positions of the worker's rows of steps `first` to `last` - 1."""
        total = self.order.partitions
        begin = first * self.batch
        end = min(last * self.batch, self.order.rows)
        offsets = np.arange(begin // total, -(-end // total))
        position = (offsets[:, None] * total + self.partitions).ravel()
        kept = (position >= begin) & (position < end)
        step = position[kept] // self.batch - first
        before = np.searchsorted(step, np.arange(last - first))
        partition = np.tile(np.arange(len(self.partitions)), len(offsets))[kept]
        offset = np.repeat(offsets, len(self.partitions))[kept]
        return BatchPositions(partition, offset, step, np.arange(len(step)) - before[step])

    def rows_before(self, steps: np.ndarray) -> np.ndarray:
        """Return int64 [n]: rows of the worker in an epoch before each of these steps."""
        positions = np.minimum(steps * self.batch, self.order.rows)
        offsets, partitions = np.divmod(positions, self.order.partitions)
        return offsets * len(self.partitions) + np.searchsorted(self.partitions, partitions)

    def counts(self, first: int, last: int) -> np.ndarray:
        """Return int64 [last - first]: rows of each whole global batch."""
        begins = np.arange(first, last) * self.batch
        return np.minimum(self.batch, self.order.rows - begins)

    def positions(self, epoch: int, first: int, last: int) -> EpochPositions:
        """Return the worker's rows of steps `first` to `last` - 1 of an epoch, all from 0."""
        taken = self._epoch_rows(epoch)
        padding = taken[0, 0] if taken.size else 0
        at = self.batch_positions(first, last)
        rows = np.full((last - first, self.padded), padding, np.int64)
        weights = np.zeros((last - first, self.padded), np.float32)
        rows[at.step, at.slot] = taken[at.partition, at.offset]
        weights[at.step, at.slot] = 1
        return EpochPositions(rows, weights, self.counts(first, last))

    def epoch_positions(self, epoch: int) -> EpochPositions:
        """Return the worker's rows of an epoch, counted from 0."""
        return self.positions(epoch, 0, self.steps)

    def _epoch_rows(self, epoch: int) -> np.ndarray:
        """Return int64 [own partitions, offsets]: row numbers in the order of an epoch; cached."""
        if self._epoch is None or self._epoch[0] != epoch:
            kind = np.int32 if self.order.rows < 2**31 else np.int64
            taken = np.zeros((len(self.partitions), int(self.order.sizes.max(initial=0))), kind)
            for group in np.unique(self.partitions % self.order.layout.groups):
                rows = self.order.group_rows(epoch, int(group))
                for partition, numbers in zip(self.order.group(group), rows, strict=True):
                    taken[self.partitions == partition, : len(numbers)] = numbers
            self._epoch = (epoch, taken)
        return self._epoch[1]


def _workers(order: EpochOrder, world_size: int) -> np.ndarray:
    """Return int64 [partitions]: the worker of each partition."""
    if order.layout == SINGLE_SHARD:  # all workers read this shard
        return np.arange(order.partitions) % world_size
    workers = np.empty(order.partitions, np.int64)
    by_group = np.concatenate([order.group(group) for group in range(order.layout.groups)])
    workers[by_group] = np.arange(order.partitions) * world_size // order.partitions
    return workers


def _most_rows(order: EpochOrder, workers: np.ndarray, world_size: int, batch: int) -> int:
    """Return the largest number of rows that one worker has in one batch."""
    most = 0
    for begin, end in _distinct_batches(order, batch):
        full, rest = divmod(end - begin, order.partitions)
        partitions = (begin + np.arange(rest)) % order.partitions
        rows = full * np.bincount(workers, minlength=world_size)
        rows += np.bincount(workers[partitions], minlength=world_size)
        most = max(most, int(rows.max()))
    return most


def _distinct_batches(order: EpochOrder, batch: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each batch that differs: partitions repeat periodically."""
    steps = -(-order.rows // batch)
    period = order.partitions // np.gcd(order.partitions, batch)
    for step in {*range(min(steps, period)), steps - 1} - {-1}:
        yield step * batch, min((step + 1) * batch, order.rows)
