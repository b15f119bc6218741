"""Division of DATA_MEMORY between ring buffer, prefetched shards and blocks of steps."""

import math
from typing import NamedTuple

import numpy as np

from common.data import dataset_dir
from common.data.sampling import WorkerSampler
from common.data.sources import MAX_STEPS_PER_BLOCK, ShardReader
from common.errors import SettingsError

PREFETCH_THREADS = 4
"""Shards to fetch at a time, if memory allows: one takes about 50 ms from a bucket."""

BLOCK_COPIES = 3
"""Blocks at a time: the one in use, and the one that is read ahead, original and padded."""

SPARE_SLOTS_FRACTION = 0.25
"""Slots of the ring buffer beyond the segment in use, for shards that arrive early. If memory does
not suffice, fewer shards are fetched at a time."""


class MemoryPlan(NamedTuple):
    """Use of the memory.

    Attributes:
        slots: Slots of the ring buffer per partition.
        threads: Shards to fetch at a time.
        steps: Steps per block.
    """

    slots: int
    threads: int
    steps: int


def plan_memory(source: ShardReader, split: str, sampler: WorkerSampler, memory: int) -> MemoryPlan:
    """Divide the memory of a stream.

    Args:
        source: The data set.
        split: The split to read.
        sampler: Rows of the worker.
        memory: Bytes for this split.

    Raises:
        SettingsError: The memory is too small to read the split in its order.
    """
    row = dataset_dir.row_bytes(source.features)
    shards = source.shards(split)
    shard_bytes = max(shard.bytes for shard in shards)
    shard_rows = max(shard.rows for shard in shards)
    slot = len(sampler.partitions) * row
    lengths = np.diff(sampler.order.bounds)
    # Groups visit their longer segments at different times, and so diverge by a few offsets.
    longest = int(lengths.max())
    long_segments = int((lengths == longest).sum())
    drift = min(long_segments, len(lengths) - long_segments) + 2
    block = BLOCK_COPIES * sampler.padded * (row + 4)
    steps = min(MAX_STEPS_PER_BLOCK, max(1, memory // 6 // block))

    def fixed(threads: int, steps: int) -> int:
        # While a shard is written, it exists as content and as Arrow columns, with int64 indices:
        # as drawn, as rows of the shard, and stacked.
        return threads * shard_bytes + shard_rows * (row + 16 + 8) + steps * block

    for threads in range(PREFETCH_THREADS, 0, -1):
        slots = (memory - fixed(threads, steps)) // slot
        if slots >= (1 + SPARE_SLOTS_FRACTION) * longest + drift:
            break
    else:
        steps = 1
        slots = (memory - fixed(1, 1)) // slot
        if slots < longest + drift:
            least = fixed(1, 1) + (longest + drift) * slot
            other = source.memory - memory
            raise SettingsError(
                f"DATA_MEMORY={source.memory >> 20} is too small to stream the"
                f" {sampler.order.rows:,} {split} examples of {source.name} with"
                f" {sampler.world_size} workers: set DATA_MEMORY to"
                f" {math.ceil((least + other) / 2**20)} or more"
            )
    # More slots would only hold rows that are not used when training ends.
    return MemoryPlan(min(slots, 2 * longest + drift), threads, steps)
