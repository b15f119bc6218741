"""A split that is larger than its memory, read shard by shard while it is computed with.

The order (see order.py) goes through one shard of each group at a time. The next ones are fetched
by threads; their rows are put where they will be given from, into a ring of turns by lanes, as soon
as the rows that stood there were given. So the memory is what DATA_MEMORY says, to the byte that is
counted here, reading goes on as fast as rows are used, and a block of steps is a copy of one
stretch of the ring. Where a stretch begins in mid-epoch, what lies before is not read.
"""

import itertools
import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from common.data import dataset_dir
from common.data.sampling import WorkerSampler
from common.data.sources import MAX_STEPS_PER_BLOCK, StepBlock
from common.errors import SettingsError

if TYPE_CHECKING:
    from common.data.dataset import Dataset

# Shards on their way at a time, if memory allows: about 50 ms each from a bucket.
PREFETCH_THREADS = 4
# Copies of a block there are at a time: made and padded, or padded and taken apart.
COPIES = 2
# The ring holds this much more than what is in use, if memory allows fewer hands: what is put away
# ahead.
SPARE_BYTES = 0.25


class MemoryPlan(NamedTuple):
    """How the memory is used.

    Attributes:
        turns: Turns of each lane in the ring.
        hands: Shards on their way at a time.
        steps: Steps of a block.
    """

    turns: int
    hands: int
    steps: int


class PrefetchTask(NamedTuple):
    """A shard that is wanted in an epoch.

    Attributes:
        begin: int64 [own lanes], the first turn of each, counted from the first epoch on.
        end: int64 [own lanes], the one after the last.
    """

    epoch: int
    group: int
    segment: int
    begin: np.ndarray
    end: np.ndarray


class OwnedShard(NamedTuple):
    """Lanes of one group that are this worker's.

    Attributes:
        lane: int64 [n], their indices among the worker's own.
        place: int64 [n], their places in the group.
    """

    lane: np.ndarray
    place: np.ndarray


def plan_memory(data: "Dataset", split: str, share: WorkerSampler, memory: int) -> MemoryPlan:
    """How so many bytes of memory are used.

    Raises:
        SettingsError: They are too few to go through the split in its order.
    """
    row = dataset_dir.row_bytes(data.features)
    shards = data.shards(split)
    most_bytes = max(shard.bytes for shard in shards)
    most_rows = max(shard.rows for shard in shards)
    turn = len(share.lanes) * row
    lengths = np.diff(share.order.bounds)
    # Groups come to their longer segments in different places, and so drift apart by a little.
    longest = int(lengths.max())
    long = int((lengths == longest).sum())
    drift = min(long, len(lengths) - long) + 2
    block = COPIES * share.padded * (row + 4)
    steps = min(MAX_STEPS_PER_BLOCK, max(1, memory // 6 // block))

    def fixed(hands: int, steps: int) -> int:
        # A shard is there as it came and as Arrow's columns while it is put away, with int64 that
        # say which row is whose: as drawn, as numbers of the shard's rows, and side by side.
        return hands * most_bytes + most_rows * (row + 16 + 8) + steps * block

    for hands in range(PREFETCH_THREADS, 0, -1):
        turns = (memory - fixed(hands, steps)) // turn
        if turns >= (1 + SPARE_BYTES) * longest + drift:
            break
    else:
        steps = 1
        turns = (memory - fixed(1, 1)) // turn
        if turns < longest + drift:
            least = fixed(1, 1) + (longest + drift) * turn
            other = data.memory - memory
            raise SettingsError(
                f"DATA_MEMORY={data.memory >> 20} is too little to read the"
                f" {share.order.rows:,} {split} examples of {data.name} by parts with {share.world}"
                f" workers: set DATA_MEMORY to {math.ceil((least + other) / 2**20)} or more"
            )
    # More would only be read too much where training ends.
    return MemoryPlan(min(turns, 2 * longest + drift), hands, steps)


class ShardStream:
    """Blocks of a split that is read from storage.

    Args:
        data: The data set.
        split: Which of its splits.
        share: Which rows, and when.
        memory: Bytes that it may take.

    Raises:
        SettingsError: The memory is too little.
    """

    def __init__(self, data: "Dataset", split: str, share: WorkerSampler, memory: int) -> None:
        self.share = share
        self.features = data.features
        self.failure: Exception | None = None
        self._data = data
        self._order = share.order
        self._room = plan_memory(data, split, share, memory)
        self.steps = self._room.steps
        self._shards = data.shards(split)
        self._sizes = self._order.sizes[share.lanes]
        self._epoch_turns = int(self._order.sizes.max())
        place, groups = np.divmod(share.lanes, self._order.cut.groups)
        self._groups = {
            int(g): OwnedShard(np.flatnonzero(groups == g), place[groups == g])
            for g in np.unique(groups)
        }
        self._at: tuple[int, int] | None = None
        self._pending: deque[tuple[PrefetchTask, Future[bytes]]] = deque()

    def block(self, epoch: int, first: int, last: int) -> StepBlock:
        """Steps `first` to `last` - 1 of an epoch; see `Feed`."""
        with self._data.reading(self):
            try:
                if self._at != (epoch, first):
                    self._start(epoch, first)
                made = self._block(epoch, first, last)
            except Exception as error:
                self.failure = error
                self.let_go()
                raise
            # Within the turn: the next stream's lets this one go.
            self._at = (epoch, last) if last < self.share.steps else (epoch + 1, 0)
        return made

    def let_go(self) -> None:
        """Give the memory back; the next block begins anew."""
        if self._at is None and not self._pending:
            return
        self._at = None
        self._hands.shutdown(wait=False, cancel_futures=True)
        self._pending.clear()
        del self._angles, self._labels

    def _start(self, epoch: int, step: int) -> None:
        self.let_go()
        # The ring: of each turn, a row of each own lane. Turns count on from epoch to epoch.
        shape = self._room.turns, len(self.share.lanes)
        self._angles = np.zeros((*shape, self._data.features), np.float32)
        self._labels = np.zeros(shape, np.float32)
        given = (step * self.share.batch - self.share.lanes - 1) // self._order.lanes + 1
        # Of each own lane, the turn up to which its rows were put away; and of all, that up to
        # which they were given.
        self._there = epoch * self._epoch_turns + np.maximum(given, 0)
        self._given = int(self._there.min())
        self._tasks = self._wanted(epoch)
        self._hands = ThreadPoolExecutor(self._room.hands, "shard")
        self._ask()
        self._at = (epoch, step)

    def _wanted(self, first: int) -> Iterator[PrefetchTask]:
        """Shards from here on, in the order in which they are needed."""
        before = self._there.copy()
        for epoch in itertools.count(first):
            ends = {group: self._ends(epoch, group) for group in self._groups}
            segments = {group: self._order.segments(epoch, group) for group in self._groups}
            for place in range(self._order.cut.segments):
                for group, own in self._groups.items():
                    begin, end = ends[group][:, place : place + 2].T
                    begin = np.clip(before[own.lane], begin, end)
                    if (end > begin).any():
                        yield PrefetchTask(epoch, group, int(segments[group][place]), begin, end)

    def _ends(self, epoch: int, group: int) -> np.ndarray:
        """int64 [own lanes, segments + 1]: the turn in which a group's lanes come to a segment."""
        starts = self._order.starts(epoch, group)[self._groups[group].place]
        return epoch * self._epoch_turns + starts

    def _block(self, epoch: int, first: int, last: int) -> StepBlock:
        share, lanes = self.share, len(self.share.lanes)
        begins = share.before(np.arange(first, last + 1))
        counts = np.diff(begins)
        even = bool((counts == share.padded).all())
        rows = int(begins[-1] - begins[0])
        angles = np.empty((rows, self._data.features), np.float32)
        labels = np.empty(rows, np.float32)
        # Rows of the ring, counted on and on.
        base = epoch * self._epoch_turns * lanes + int(begins[0])
        size = self._room.turns * lanes
        ring = self._angles.reshape(size, -1), self._labels.reshape(size)
        done = 0
        while done < rows:
            ready = min(rows, self._ready(epoch) - base)
            while done < ready:
                at = (base + done) % size
                some = min(ready - done, size - at)
                angles[done : done + some] = ring[0][at : at + some]
                labels[done : done + some] = ring[1][at : at + some]
                done += some
            self._given = (base + done) // lanes
            if done < rows:
                self._put_away()
        while self._pending[0][1].done() and self._fits(self._pending[0][0]):
            self._put_away()
        of_all = share.counts(first, last).astype(np.float32)
        shape = last - first, share.padded
        if even:
            weights = np.ones(shape, np.float32)
            return StepBlock(angles.reshape(*shape, -1), labels.reshape(shape), weights, of_all)
        # A row that pads is the last one of its step, or one of the block's.
        slots = np.arange(share.padded)
        taken = np.minimum(slots, np.maximum(counts, 1)[:, None] - 1)
        taken = np.minimum(taken + (begins[:-1] - begins[0])[:, None], max(rows - 1, 0))
        weights = (slots < counts[:, None]).astype(np.float32)
        if not rows:  # this worker has no row in any of these steps
            angles, labels = np.zeros((1, self._data.features), np.float32), np.ones(1, np.float32)
        return StepBlock(angles[taken], labels[taken], weights, of_all)

    def _ready(self, epoch: int) -> int:
        """Up to which row of the ring, counted on and on, all rows of this epoch are there."""
        there, lanes = self._there, len(self.share.lanes)
        end = epoch * self._epoch_turns + self._sizes
        # A lane that has given all is not waited for; of the others the one that is least far on.
        waited = np.flatnonzero(there < end)
        if not len(waited):
            return int(self._epoch_turns * lanes * (epoch + 1))
        return int((there[waited] * lanes + waited).min())

    def _ask(self) -> None:
        """Have the next shards fetched, as many as there are hands."""
        while len(self._pending) < self._room.hands:
            task = next(self._tasks)
            shard = self._shards[task.group * self._order.cut.segments + task.segment]
            self._pending.append((task, self._hands.submit(self._data.fetch, shard)))

    def _fits(self, task: PrefetchTask) -> bool:
        """Whether the rows that stand in its place in the ring were given."""
        return bool(task.end.max() <= self._given + self._room.turns)

    def _put_away(self) -> None:
        """Wait for the next shard and put its rows where they will be given from."""
        task, fetched = self._pending[0]
        # By the room that `room` leaves for drift; else rows would be given in others' stead.
        assert self._fits(task)
        columns = dataset_dir.columns_of(fetched.result())
        self._pending.popleft()
        del fetched  # the content, before the next one comes
        own = self._groups[task.group]
        shuffled = self._order.shuffled(task.epoch, task.group, task.segment)
        first = int(self._order.bounds[task.segment])
        begins = np.cumsum([0, *map(len, shuffled)]) - first
        # Lanes that have the same turns here stand beside each other: all, or two or three runs.
        runs = np.flatnonzero(np.diff(task.begin) | np.diff(task.end)) + 1
        for run in np.split(np.arange(len(own.lane)), runs):
            begin, end = int(task.begin[run[0]]), int(task.end[run[0]])
            # What lies before `begin` was given before a restart.
            rows = [
                begins[n] + shuffled[n][len(shuffled[n]) - (end - begin) :] for n in own.place[run]
            ]
            self._put(columns, np.stack(rows, axis=1), _stride(own.lane[run]), begin)
        self._there[own.lane] = np.maximum(self._there[own.lane], task.end)
        self._ask()

    def _put(
        self, columns: list[np.ndarray], rows: np.ndarray, lanes: slice | np.ndarray, begin: int
    ) -> None:
        """Rows of a shard into the ring.

        Args:
            columns: The shard's columns.
            rows: int64 [turns, lanes], which row is whose.
            lanes: The lanes, among the worker's own.
            begin: The first turn.
        """
        done = 0
        while done < len(rows):
            at = (begin + done) % self._room.turns
            some = min(len(rows) - done, self._room.turns - at)
            stretch = rows[done : done + some]
            for number, column in enumerate(columns[:-1]):
                self._angles[at : at + some, lanes, number] = column.take(stretch)
            self._labels[at : at + some, lanes] = columns[-1].take(stretch)
            done += some


def _stride(numbers: np.ndarray) -> slice | np.ndarray:
    """The same as a slice, where it can be one: NumPy copies by slices several times as fast."""
    steps = np.diff(numbers)
    if len(steps) and (steps != steps[0]).any():
        return numbers
    step = int(steps[0]) if len(steps) else 1
    return slice(int(numbers[0]), int(numbers[-1]) + 1, step)
