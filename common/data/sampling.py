"""Sampler of a worker: its rows of every global batch.

Global batch b is rows b*B to (b+1)*B-1 of the global order of an epoch (see shuffling.py). Workers
share the partitions: each worker takes consecutive partitions, group after group, so that it needs
few shards of other workers. If a split is one shard, worker r of W takes partitions r, r+W, ...

A batch can also be divided into micro-batches, whose number does not depend on W: the partitions
are shared by micro-batches as above, and each worker takes consecutive micro-batches. Then every
micro-batch has the same rows in the same order for any number of workers.
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
        slot: int64 [n], index in the worker's part of the batch: its micro-batches, one after the
            other, each with its padding.
    """

    partition: np.ndarray
    offset: np.ndarray
    step: np.ndarray
    slot: np.ndarray


class EpochPositions(NamedTuple):
    """Rows of one worker in some steps; the last batch of an epoch may be smaller.

    Attributes:
        rows: int64 [steps, padded], rows of the split; padding repeats the first row of its
            micro-batch, or one of the worker's own where there is none.
        weights: float32 [steps, padded], 1 for a row and 0 for padding.
        counts: int64 [steps], rows of the whole global batch.
    """

    rows: np.ndarray
    weights: np.ndarray
    counts: np.ndarray


class WorkerSampler:
    """Sampler of the rows of one worker, like torch's DistributedSampler.

    Every micro-batch (without micro-batches, every worker's part) is padded to the same size: the
    most rows that any of them has in any batch. The size is the same in every epoch, since
    shuffling stays within partitions.

    Args:
        sizes: Rows of each partition, as from `partition_sizes`.
        rank: Number of this worker, from 0.
        world_size: Number of workers, at most the number of partitions.
        batch: Rows of a global batch.
        seed: Seed of the order.
        layout: Shards of the split.
        micro_batches: Micro-batches of a global batch, at most the number of partitions; by default
            one per worker. Workers beyond this number have no rows.

    Attributes:
        order: The order of rows.
        steps: Global batches per epoch.
        partitions: int64 [n], the worker's own partitions.
        micro_batches: int64 [n], numbers of the worker's own micro-batches.
        micro_batch: Rows of a micro-batch, including padding.
        padded: Rows of a worker per batch, including padding.
        is_divided: True if a batch has micro-batches.

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
        micro_batches: int | None = None,
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
        self.is_divided = micro_batches is not None
        self.rank, self.world_size = rank, world_size
        self.steps = -(-self.order.rows // batch)
        count = micro_batches or world_size
        if not 1 <= count <= len(sizes):
            raise ValueError(f"{count} micro-batches of {len(sizes)} partitions are not possible")
        assigned = _assign(self.order, count)
        self.micro_batches = np.flatnonzero(np.arange(count) * world_size // count == rank)
        self.partitions = np.flatnonzero(np.isin(assigned, self.micro_batches))
        # The place of each own partition's micro-batch among the own ones.
        self._place = np.searchsorted(self.micro_batches, assigned[self.partitions])
        self.micro_batch = _most_rows(self.order, assigned, count, batch)
        # A worker without a micro-batch has one that is empty: TensorFlow can't unbatch none.
        self.padded = max(len(self.micro_batches), 1) * self.micro_batch
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
        partition = np.tile(np.arange(len(self.partitions)), len(offsets))[kept]
        offset = np.repeat(offsets, len(self.partitions))[kept]
        place = self._place[partition]
        slot = place * self.micro_batch + _ranks(step * max(len(self.micro_batches), 1) + place)
        return BatchPositions(partition, offset, step, slot)

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
        rows = np.full((last - first, self.padded), -1, np.int64)
        rows[at.step, at.slot] = taken[at.partition, at.offset]
        return EpochPositions(*self.pad(rows, padding), self.counts(first, last))

    def pad(self, rows: np.ndarray, padding: int) -> tuple[np.ndarray, np.ndarray]:
        """Fill the slots that are -1, and return weights: 1, or 0 where a slot was filled.

        Args:
            rows: int64 [steps, padded].
            padding: The row for micro-batches without rows; others repeat their first row.
        """
        missing = rows < 0
        if missing.any():
            by_micro_batch = rows.reshape(len(rows), -1, self.micro_batch)
            first = np.where(by_micro_batch[:, :, :1] < 0, padding, by_micro_batch[:, :, :1])
            rows = np.where(by_micro_batch < 0, first, by_micro_batch).reshape(rows.shape)
        return rows, (~missing).astype(np.float32)

    def _epoch_rows(self, epoch: int) -> np.ndarray:
        """Return int64 [own partitions, offsets]: row numbers in the order of an epoch; cached."""
        if self._epoch is None or self._epoch[0] != epoch:
            kind = np.int32 if self.order.rows < 2**31 else np.int64
            taken = np.zeros((len(self.partitions), int(self.order.sizes.max(initial=0))), kind)
            rows = self.order.epoch_rows(epoch, self.partitions)
            for partition, numbers in zip(taken, rows, strict=True):
                partition[: len(numbers)] = numbers
            self._epoch = (epoch, taken)
        return self._epoch[1]


def _ranks(keys: np.ndarray) -> np.ndarray:
    """Return int64 [n]: for each key, the number of equal keys before it."""
    by_key = np.argsort(keys, kind="stable")
    ordered = keys[by_key]
    ranks = np.empty(len(keys), np.int64)
    ranks[by_key] = np.arange(len(keys)) - np.searchsorted(ordered, ordered)
    return ranks


def _assign(order: EpochOrder, count: int) -> np.ndarray:
    """Return int64 [partitions]: the micro-batch of each partition."""
    if order.layout == SINGLE_SHARD:  # all workers read this shard
        return np.arange(order.partitions) % count
    assigned = np.empty(order.partitions, np.int64)
    by_group = np.concatenate([order.group(group) for group in range(order.layout.groups)])
    assigned[by_group] = np.arange(order.partitions) * count // order.partitions
    return assigned


def _most_rows(order: EpochOrder, assigned: np.ndarray, count: int, batch: int) -> int:
    """Return the largest number of rows that one micro-batch has in one batch."""
    most = 0
    for begin, end in _distinct_batches(order, batch):
        full, rest = divmod(end - begin, order.partitions)
        partitions = (begin + np.arange(rest)) % order.partitions
        rows = full * np.bincount(assigned, minlength=count)
        rows += np.bincount(assigned[partitions], minlength=count)
        most = max(most, int(rows.max()))
    return most


def _distinct_batches(order: EpochOrder, batch: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each batch that differs: partitions repeat periodically."""
    steps = -(-order.rows // batch)
    period = order.partitions // np.gcd(order.partitions, batch)
    for step in {*range(min(steps, period)), steps - 1} - {-1}:
        yield step * batch, min((step + 1) * batch, order.rows)
