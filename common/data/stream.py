"""A split that is larger than its memory, read shard by shard while it is computed with.

The order (see order.py) goes through one shard of each group at a time. The next ones are fetched
by threads; their rows wait in a pool of slots, of which each is free again once its row was given.
So the memory is what DATA_MEMORY says, to the byte that is counted here, and reading goes on as
fast as rows are used. Where a stretch begins in mid-epoch, what lies before is not read.
"""

import itertools
import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from common.data import folder
from common.data.feed import MOST_STEPS, Block
from common.data.order import Share
from common.errors import SettingsError

if TYPE_CHECKING:
    from common.data.dataset import Dataset

# Shards on their way at a time, if memory allows: about 50 ms each from a bucket.
HANDS = 4
# Copies of a block there are at a time: made, waiting, taken apart.
COPIES = 4
# The pool holds this much more than what is in use, if memory allows fewer hands: what is fetched
# ahead.
SPARE = 0.25


class Room(NamedTuple):
    """How the memory is used.

    Attributes:
        slots: Rows in the pool.
        hands: Shards on their way at a time.
        steps: Steps of a block.
        turns: Turns of a lane that may be in the pool at a time.
    """

    slots: int
    hands: int
    steps: int
    turns: int


class Task(NamedTuple):
    """A shard that is wanted: a group's segment of that place in an epoch.

    Attributes:
        rows: How many of it are kept.
        begin: int64 [own lanes], the first turn of each, counted from the first epoch on.
        end: int64 [own lanes], the one after the last.
    """

    epoch: int
    place: int
    group: int
    rows: int
    begin: np.ndarray
    end: np.ndarray


class Own(NamedTuple):
    """Lanes of one group that are this worker's.

    Attributes:
        lane: int64 [n], their indices among the worker's own.
        place: int64 [n], their places in the group.
    """

    lane: np.ndarray
    place: np.ndarray


def room(data: "Dataset", split: str, share: Share, memory: int) -> Room:
    """How so many bytes of memory are used.

    Raises:
        SettingsError: They are too few to go through the split in its order.
    """
    row = folder.row_bytes(data.features)
    shards = data.shards(split)
    most_bytes = max(shard.bytes for shard in shards)
    most_rows = max(shard.rows for shard in shards)
    lanes = len(share.lanes)
    lengths = np.diff(share.order.bounds)
    # Groups come to their longer segments in different places, and so drift apart by a little.
    longest = int(lengths.max())
    long = int((lengths == longest).sum())
    drift = min(long, len(lengths) - long) + 2
    window = lanes * longest
    block = COPIES * share.padded * (row + 8)
    steps = min(MOST_STEPS, max(1, memory // 8 // block))

    def fixed(hands: int, steps: int) -> int:
        index = 4 * lanes * (2 * longest + drift)
        # A shard is there as it came, as Arrow's columns and as rows while it is put away.
        return hands * most_bytes + 2 * most_rows * row + steps * block + index

    # A slot holds a row, stands in the list of free ones and in its lane's index.
    each = row + 8
    for hands in range(HANDS, 0, -1):
        slots = (memory - fixed(hands, steps)) // each
        if slots >= (1 + SPARE) * window + lanes * drift:
            break
    else:
        steps = 1
        slots = (memory - fixed(1, 1)) // each
        if slots < window + lanes * drift:
            least = fixed(1, 1) + each * (window + lanes * drift)
            other = data.memory - memory
            raise SettingsError(
                f"DATA_MEMORY={data.memory >> 20} is too little to read the"
                f" {share.order.rows:,} {split} examples of {data.name} by parts with {share.world}"
                f" workers: set DATA_MEMORY to {math.ceil((least + other) / 2**20)} or more"
            )
    # More would only be read too much where training ends.
    slots = min(slots, 2 * window + lanes * drift)
    return Room(slots, hands, steps, slots // lanes + 2 * longest + drift)


class Stream:
    """Blocks of a split that is read from storage.

    Args:
        data: The data set.
        split: Which of its splits.
        share: Which rows, and when.
        memory: Bytes that it may take.

    Raises:
        SettingsError: The memory is too little.
    """

    def __init__(self, data: "Dataset", split: str, share: Share, memory: int) -> None:
        self.share = share
        self.features = data.features
        self.failure: Exception | None = None
        self._data = data
        self._order = share.order
        self._room = room(data, split, share, memory)
        self.steps = self._room.steps
        self._shards = data.shards(split)
        self._sizes = self._order.sizes[share.lanes]
        place, groups = np.divmod(share.lanes, self._order.cut.groups)
        self._groups = {
            int(g): Own(np.flatnonzero(groups == g), place[groups == g]) for g in np.unique(groups)
        }
        self._at: tuple[int, int] | None = None
        self._pending: deque[tuple[Task, Future[bytes]]] = deque()

    def block(self, epoch: int, first: int, last: int) -> Block:
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
        del self._angles, self._labels, self._ring, self._free

    def _start(self, epoch: int, step: int) -> None:
        self.let_go()
        space = self._room
        self._angles = np.zeros((space.slots, self._data.features), np.float32)
        self._labels = np.zeros(space.slots, np.float32)
        # Of each own lane, the slots of its rows by turn, counted from the first epoch on.
        self._ring = np.zeros((len(self.share.lanes), space.turns), np.int32)
        self._free = np.arange(space.slots, dtype=np.int32)
        self._left = space.slots  # the first so many of the list are free
        self._promised = 0
        given = (step * self.share.batch - self.share.lanes - 1) // self._order.lanes + 1
        self._there = epoch * self._sizes + np.maximum(given, 0)
        self._tasks = self._wanted(epoch)
        self._next = next(self._tasks)
        self._hands = ThreadPoolExecutor(space.hands, "shard")
        self._at = (epoch, step)

    def _wanted(self, first: int) -> Iterator[Task]:
        """Shards from here on, in the order in which they are needed."""
        before = self._there.copy()
        for epoch in itertools.count(first):
            ends = {group: self._ends(epoch, group) for group in self._groups}
            for place in range(self._order.cut.segments):
                for group, own in self._groups.items():
                    begin, end = ends[group][:, place : place + 2].T
                    begin = np.clip(before[own.lane], begin, end)
                    if rows := int((end - begin).sum()):
                        yield Task(epoch, place, group, rows, begin, end)

    def _ends(self, epoch: int, group: int) -> np.ndarray:
        """int64 [own lanes, segments + 1]: rows that lanes of a group give before each segment."""
        own = self._groups[group]
        starts = self._order.starts(epoch, group)[own.place]
        return epoch * self._sizes[own.lane][:, None] + starts

    def _block(self, epoch: int, first: int, last: int) -> Block:
        places = self.share.places(first, last)
        shape = (last - first, self.share.padded)
        angles = np.zeros((*shape, self._data.features), np.float32)
        labels, weights = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        weights[places.step, places.slot] = 1
        turns = epoch * self._sizes[places.lane] + places.turn
        done, end = 0, len(turns)
        while done < end:
            ready = int(np.searchsorted(places.turn, (self._there - epoch * self._sizes).min()))
            now = slice(done, max(done, ready))
            slots = self._ring[places.lane[now], turns[now] % self._room.turns]
            to = places.step[now], places.slot[now]
            angles[to], labels[to] = self._angles[slots], self._labels[slots]
            self._free[self._left : self._left + len(slots)] = slots
            self._left += len(slots)
            done = now.stop
            self._ask()
            if done < end:
                self._put_away()
        while self._pending and self._pending[0][1].done():
            self._put_away()
            self._ask()
        pads = np.nonzero(weights == 0)
        if len(pads[0]):
            angles[pads], labels[pads] = angles[pads[0], 0], labels[pads[0], 0]
        return Block(angles, labels, weights, self.share.counts(first, last).astype(np.float32))

    def _ask(self) -> None:
        """Have the next shards fetched, as far as there are hands and slots."""
        while (
            len(self._pending) < self._room.hands and self._left - self._promised >= self._next.rows
        ):
            task = self._next
            segment = int(self._order.segments(task.epoch, task.group)[task.place])
            shard = self._shards[task.group * self._order.cut.segments + segment]
            self._pending.append((task, self._hands.submit(self._data.fetch, shard)))
            self._promised += task.rows
            self._next = next(self._tasks)

    def _put_away(self) -> None:
        """Wait for the next shard and put its rows into slots."""
        task, fetched = self._pending.popleft()
        examples = self._data.decode(fetched.result())
        own = self._groups[task.group]
        segment = int(self._order.segments(task.epoch, task.group)[task.place])
        shuffled = self._order.shuffled(task.epoch, task.group, segment)
        first = int(self._order.bounds[segment])
        begins = np.cumsum([0, *map(len, shuffled)])
        kept = [
            begins[place] - first + shuffled[place][len(shuffled[place]) - (end - begin) :]
            for place, begin, end in zip(own.place, task.begin, task.end, strict=True)
        ]
        self._left -= task.rows
        slots = self._free[self._left : self._left + task.rows].copy()
        rows = np.concatenate(kept)
        self._angles[slots] = examples.angles[rows]
        self._labels[slots] = examples.labels[rows]
        for index, begin, end in zip(own.lane, task.begin, task.end, strict=True):
            turns = np.arange(begin, end)
            self._ring[index, turns % self._room.turns] = slots[: len(turns)]
            slots = slots[len(turns) :]
        self._there[own.lane] = task.end
        self._promised -= task.rows
