"""Order of examples: partitions of a split, and a shuffled order of its rows for each epoch.

Row i of a split belongs to partition i mod P, at offset i // P. Rows are numbered partition after
partition. Partitions g, g+G, g+2G, ... form a group, and offsets are divided into segments of about
the same length. A shard of the data set contains one segment of one group (see dataset_dir.py).

In an epoch, each group visits its segments in a random order of its own, and each partition is
shuffled within the segment. So one shard of each group is in use at any time; these shards are the
window of the shuffle. The global order takes rows round-robin from the partitions. It depends only
on the seed, the epoch and the layout, and any part of it can be computed alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np


def partition_sizes(rows: int, partitions: int) -> list[int]:
    """Return the number of rows of each partition, if row i belongs to i mod `partitions`."""
    return [len(range(partition, rows, partitions)) for partition in range(partitions)]


@dataclass(frozen=True)
class ShardLayout:
    """Shards of a split: groups of partitions times segments of offsets."""

    groups: int = 1
    segments: int = 1


SINGLE_SHARD = ShardLayout()


class EpochOrder:
    """The order of rows in the epochs of a split.

    Args:
        sizes: Rows of each partition, as from `partition_sizes`.
        layout: Shards of the split.
        seed: Seed of the order.

    Attributes:
        sizes: int64 [partitions], rows of each partition.
        partitions: Number of partitions.
        rows: Number of rows.
        layout: Shards of the split.
        bounds: int64 [segments + 1], offsets at which segments begin.
        first_rows: int64 [partitions], number of the first row of each partition.
    """

    def __init__(self, sizes: Sequence[int], layout: ShardLayout, seed: int) -> None:
        self.sizes = np.array(sizes, np.int64)
        self.partitions = len(self.sizes)
        self.rows = int(self.sizes.sum())
        self.layout = layout
        self._seed = seed
        longest = int(self.sizes.max(initial=0))
        if not 1 <= layout.groups <= self.partitions or not 1 <= layout.segments <= max(1, longest):
            raise ValueError(
                f"{layout} does not fit {self.partitions} partitions of {longest} rows"
            )
        if self.sizes.tolist() != partition_sizes(self.rows, self.partitions):
            raise ValueError("rows are not assigned to partitions round-robin")
        self.bounds = np.arange(layout.segments + 1) * longest // layout.segments
        self.first_rows = np.cumsum(self.sizes) - self.sizes

    def group(self, number: int) -> np.ndarray:
        """Return the partitions of a group, in order."""
        return np.arange(number, self.partitions, self.layout.groups)

    def span(self, partition: int, segment: int) -> tuple[int, int]:
        """Return the first and last offset (exclusive) of a partition in a segment."""
        return int(self.bounds[segment]), int(min(self.bounds[segment + 1], self.sizes[partition]))

    def shard_rows(self, group: int, segment: int) -> int:
        """Return the number of rows of a shard."""
        first, last = self.bounds[segment : segment + 2]
        return int((np.minimum(self.sizes[self.group(group)], last) - first).sum())

    def row_numbers(self, group: int, segment: int) -> np.ndarray:
        """Return int64 [n]: the numbers of the rows of a shard, in the order of the shard."""
        parts = []
        for partition in self.group(group):
            first, last = self.span(partition, segment)
            parts.append(self.first_rows[partition] + np.arange(first, last))
        return np.concatenate(parts)

    def segments(self, epoch: int, group: int) -> np.ndarray:
        """Return the segments of a group, in the order of an epoch."""
        return _segments(self._seed, epoch, self.partitions + group, self.layout.segments)

    def shuffled_offsets(self, epoch: int, group: int, segment: int) -> list[np.ndarray]:
        """Return int64 [n] per partition of a group: its offsets in a segment, shuffled."""
        partitions = self.group(group)
        if self.layout == SINGLE_SHARD:
            return [self._shuffled_partition(epoch, one) for one in partitions.tolist()]
        # Partitions with a row at the last offset come first; together, since shards are many.
        generator = _generator(self._seed, epoch, group, segment)
        first, last = self.bounds[segment : segment + 2]
        ends = np.minimum(self.sizes[partitions], last)
        return [
            offsets
            for end in sorted(set(ends.tolist()), reverse=True)
            for offsets in generator.permuted(
                np.tile(np.arange(first, end), (int((ends == end).sum()), 1)), axis=1
            )
        ]

    def segment_starts(self, epoch: int, group: int) -> np.ndarray:
        """Return int64 [partitions, segments + 1]: rows that come before the k-th segment."""
        order = self.segments(epoch, group)
        ends = np.minimum(self.bounds[1:], self.sizes[self.group(group)][:, None])
        lengths = (ends - self.bounds[:-1])[:, order]
        return np.pad(np.cumsum(lengths, axis=1), ((0, 0), (1, 0)))

    def epoch_rows(self, epoch: int, partitions: np.ndarray) -> list[np.ndarray]:
        """Return int64 [size] for each of some partitions: its rows in the order of an epoch."""
        first = self.first_rows
        if self.layout == SINGLE_SHARD:
            return [
                first[one] + self._shuffled_partition(epoch, one) for one in partitions.tolist()
            ]
        rows = {}
        for group in set((partitions % self.layout.groups).tolist()):
            order = self.segments(epoch, group).tolist()
            parts = [self.shuffled_offsets(epoch, group, segment) for segment in order]
            for one, *offsets in zip(self.group(group).tolist(), *parts, strict=True):
                rows[one] = first[one] + np.concatenate(offsets)
        return [rows[one] for one in partitions.tolist()]

    def _shuffled_partition(self, epoch: int, partition: int) -> np.ndarray:
        """Return int64 [n]: the offsets of a partition of a single shard, shuffled."""
        offsets = np.arange(self.sizes[partition])
        if len(offsets) > 1:
            _generator(self._seed, epoch, partition).shuffle(offsets)
        return offsets


def _generator(*seeds: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seeds))


@lru_cache(maxsize=256)  # enough for two epochs of 64 groups
def _segments(seed: int, epoch: int, stream: int, count: int) -> np.ndarray:
    return _generator(seed, epoch, stream).permutation(count) if count > 1 else np.zeros(1, int)


def epoch_order(
    sizes: Sequence[int], seed: int, epoch: int, layout: ShardLayout = SINGLE_SHARD
) -> np.ndarray:
    """Return the rows of one epoch in global order.

    Args:
        sizes: Rows of each partition.
        seed: Seed of the order.
        epoch: Number of the epoch, from 0.
        layout: Shards of the split.

    Returns:
        int64 [sum(sizes)]: each row once. It depends only on the arguments.
    """
    order = EpochOrder(sizes, layout, seed)
    rows = np.empty(order.rows, np.int64)
    for partition, own in enumerate(order.epoch_rows(epoch, np.arange(order.partitions))):
        rows[partition :: order.partitions] = own
    return rows
