"""Schedule of the shards that a worker needs, epoch after epoch."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from common.data.sampling import WorkerSampler


class ShardTask(NamedTuple):
    """A shard that is needed in an epoch.

    Attributes:
        epoch: The epoch, from 0.
        group: Group of the shard.
        segment: Segment of the shard.
        begin: int64 [own partitions of the group], first offset, counted over all epochs.
        end: int64 [own partitions of the group], offset after the last.
    """

    epoch: int
    group: int
    segment: int
    begin: np.ndarray
    end: np.ndarray


class Placement(NamedTuple):
    """Rows of a shard that go to the same offsets of a ring buffer; see `RingBuffer.write`."""

    rows: np.ndarray
    partitions: np.ndarray
    begin: int


class _OwnPartitions(NamedTuple):
    """A worker's partitions of one group: indices among its own, and indices in the group."""

    own: np.ndarray
    in_group: np.ndarray


class ShardSchedule:
    """Shards of a worker in the order in which its rows need them.

    Args:
        sampler: Rows of the worker.

    Attributes:
        epoch_offsets: Offsets per epoch: rows of the longest partition.
    """

    def __init__(self, sampler: WorkerSampler) -> None:
        self._order = sampler.order
        self.epoch_offsets = int(self._order.sizes.max())
        in_group, groups = np.divmod(sampler.partitions, self._order.layout.groups)
        self._groups = {
            int(group): _OwnPartitions(np.flatnonzero(groups == group), in_group[groups == group])
            for group in np.unique(groups)
        }

    def own_partitions(self, group: int) -> np.ndarray:
        """Return int64 [n]: the worker's partitions of a group, as indices among its own."""
        return self._groups[group].own

    def tasks(self, epoch: int, filled: np.ndarray) -> Iterator[ShardTask]:
        """Yield the shards from an epoch on, without end.

        Args:
            epoch: The first epoch.
            filled: int64 [own partitions], offsets up to which rows are not needed.
        """
        filled = filled.copy()
        for number in itertools.count(epoch):
            starts = {group: self._starts(number, group) for group in self._groups}
            segments = {group: self._order.segments(number, group) for group in self._groups}
            for index in range(self._order.layout.segments):
                for group, partitions in self._groups.items():
                    begin, end = starts[group][:, index : index + 2].T
                    begin = np.clip(filled[partitions.own], begin, end)
                    if (end > begin).any():
                        yield ShardTask(number, group, int(segments[group][index]), begin, end)

    def placements(self, task: ShardTask) -> Iterator[Placement]:
        """Yield the destinations of a shard's rows.

        Partitions with the same offsets are written together: all, or two or three runs.
        """
        partitions = self._groups[task.group]
        shuffled = self._order.shuffled_offsets(task.epoch, task.group, task.segment)
        first = int(self._order.bounds[task.segment])
        begins = np.cumsum([0, *map(len, shuffled)]) - first
        changes = np.flatnonzero(np.diff(task.begin) | np.diff(task.end)) + 1
        for run in np.split(np.arange(len(partitions.own)), changes):
            begin, end = int(task.begin[run[0]]), int(task.end[run[0]])
            # Rows before `begin` were used before a restart.
            rows = [
                begins[n] + shuffled[n][len(shuffled[n]) - (end - begin) :]
                for n in partitions.in_group[run]
            ]
            yield Placement(np.stack(rows, axis=1), partitions.own[run], begin)

    def _starts(self, epoch: int, group: int) -> np.ndarray:
        """Return int64 [own partitions, segments + 1]: offsets at which each segment begins."""
        starts = self._order.segment_starts(epoch, group)[self._groups[group].in_group]
        return epoch * self.epoch_offsets + starts
