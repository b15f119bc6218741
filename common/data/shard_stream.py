"""Stream of a split that is larger than its memory: shards are read while their rows are used.

Background threads prefetch shards. Their rows go to a preallocated ring buffer (one column per
partition), whose slots are reused as rows are used. So memory is bounded by DATA_MEMORY, and a
block of steps is one copy from the buffer. A stream that begins in mid-epoch reads nothing before.
"""

import numpy as np

from common.data import dataset_dir
from common.data.memory_plan import plan_memory
from common.data.prefetcher import Prefetcher
from common.data.ring_buffer import RingBuffer
from common.data.sampling import WorkerSampler
from common.data.shard_schedule import ShardSchedule, ShardTask
from common.data.sources import ShardReader, StepBlock
from common.data.splits import Examples


class ShardStream:
    """Reads blocks of a split from storage; implements `BatchSource`.

    Args:
        source: The data set.
        split: The split to read.
        sampler: Rows of the worker.
        memory: Bytes for this split.

    Raises:
        SettingsError: The memory is too small.
    """

    def __init__(
        self, source: ShardReader, split: str, sampler: WorkerSampler, memory: int
    ) -> None:
        self.sampler = sampler
        self.features = source.features
        self.failure: Exception | None = None
        self._source = source
        self._plan = plan_memory(source, split, sampler, memory)
        self.steps = self._plan.steps
        self._shards = source.shards(split)
        self._schedule = ShardSchedule(sampler)
        self._next: tuple[int, int] | None = None

    def block(self, epoch: int, first: int, last: int) -> StepBlock:
        """Return steps `first` to `last` - 1 of an epoch; see `BatchSource`."""
        with self._source.exclusive_memory(self):
            try:
                if self._next != (epoch, first):
                    self._start(epoch, first)
                block = self._block(epoch, first, last)
            except Exception as error:
                self.failure = error
                self.release()
                raise
            # Inside the context: another stream releases this one at its end.
            self._next = (epoch, last) if last < self.sampler.steps else (epoch + 1, 0)
        return block

    def release(self) -> None:
        """Free the memory; the next block starts again."""
        self._next = None
        if hasattr(self, "_prefetcher"):
            self._prefetcher.close()
            del self._ring, self._prefetcher

    def _start(self, epoch: int, step: int) -> None:
        self.release()
        sampler, order = self.sampler, self.sampler.order
        partitions = len(sampler.partitions)
        self._ring = RingBuffer(self._plan.slots, partitions, self.features)
        used = (step * sampler.batch - sampler.partitions - 1) // order.partitions + 1
        # Offsets of each partition up to which rows were written, and of all, up to which rows
        # were used. Offsets count over all epochs.
        self._filled = epoch * self._schedule.epoch_offsets + np.maximum(used, 0)
        self._used = int(self._filled.min())
        tasks = self._schedule.tasks(epoch, self._filled)
        self._prefetcher = Prefetcher(tasks, self._fetch, self._plan.threads)

    def _fetch(self, task: ShardTask) -> bytes:
        number = task.group * self.sampler.order.layout.segments + task.segment
        return self._source.fetch(self._shards[number])

    def _block(self, epoch: int, first: int, last: int) -> StepBlock:
        sampler = self.sampler
        begins = sampler.rows_before(np.arange(first, last + 1))
        rows = int(begins[-1] - begins[0])
        angles = np.empty((rows, self.features), np.float32)
        labels = np.empty(rows, np.float32)
        self._read(epoch, int(begins[0]), angles, labels)
        while self._prefetcher.is_ready and self._fits(self._prefetcher.next_task):
            self._write_next_shard()
        global_counts = sampler.counts(first, last).astype(np.float32)
        shape = last - first, sampler.padded
        if len(sampler.micro_batches) == 1 and (np.diff(begins) == sampler.padded).all():
            weights = np.ones(shape, np.float32)
            return StepBlock(
                angles.reshape(*shape, -1), labels.reshape(shape), weights, global_counts
            )
        at = sampler.batch_positions(first, last)
        taken = np.full(shape, -1, np.int64)
        taken[at.step, at.slot] = np.arange(rows)
        taken, weights = sampler.pad(taken, padding=0)
        if not rows:  # this worker has no row in any of these steps
            angles, labels = Examples.padding(self.features)
        return StepBlock(angles[taken], labels[taken], weights, global_counts)

    def _read(self, epoch: int, first: int, angles: np.ndarray, labels: np.ndarray) -> None:
        """Copy rows of an epoch from `first` on, and write shards where they are missing."""
        partitions = len(self.sampler.partitions)
        begin = epoch * self._schedule.epoch_offsets * partitions + first
        done, rows = 0, len(labels)
        while done < rows:
            available = min(rows, self._available(epoch) - begin)
            if available > done:
                self._ring.read(begin + done, angles[done:available], labels[done:available])
                done = available
            self._used = (begin + done) // partitions
            if done < rows:
                self._write_next_shard()

    def _available(self, epoch: int) -> int:
        """Return the address up to which the buffer has all rows of this epoch."""
        filled, partitions = self._filled, len(self.sampler.partitions)
        begin = epoch * self._schedule.epoch_offsets
        end = begin + self.sampler.order.sizes[self.sampler.partitions]
        # The partition with the fewest rows limits; those that are complete do not count.
        incomplete = np.flatnonzero(filled < end)
        if not len(incomplete):
            return self._schedule.epoch_offsets * partitions * (epoch + 1)
        return int((filled[incomplete] * partitions + incomplete).min())

    def _fits(self, task: ShardTask) -> bool:
        """Return True if the rows in the task's slots were used."""
        return bool(task.end.max() <= self._used + self._plan.slots)

    def _write_next_shard(self) -> None:
        """Wait for the next shard and write its rows to the buffer."""
        task = self._prefetcher.next_task
        # The memory plan has slots for drift; otherwise unused rows would be overwritten.
        assert self._fits(task)
        columns = dataset_dir.columns_of(self._prefetcher.take())
        for placement in self._schedule.placements(task):
            self._ring.write(columns, *placement)
        own = self._schedule.own_partitions(task.group)
        self._filled[own] = np.maximum(self._filled[own], task.end)
        self._prefetcher.refill()
