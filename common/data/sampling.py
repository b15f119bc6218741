"""In which order examples are seen, and which of them a worker takes.

A split's row i is dealt to lane i mod L, where it is the lane's row of turn i // L. Rows are
numbered lane after lane. Lanes g, g+G, g+2G, ... are a group, and turns are cut into segments of
about the same length: a shard of the data set holds one segment of one group (see folder.py).

In an epoch each group goes through its segments in an order of its own, and each lane is shuffled
within the segment; so at any time one shard of each group is in use, which is the shuffle's window.
The global order takes rows round-robin from the lanes. Global batch b is positions b*B to (b+1)*B-1
of that order. It depends on the seed, the epoch and the cut alone, and any part of it can be
computed by itself.

Workers share the lanes: group after group, each worker a stretch of the same length, so that whole
shards are a worker's as far as numbers allow. Of a split that is one shard, worker r of W takes
lanes r, r+W, ...
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from common.errors import SettingsError


def partition_sizes(rows: int, lanes: int) -> list[int]:
    """How many of `rows` rows each lane gets when row i goes to lane i mod `lanes`."""
    return [len(range(lane, rows, lanes)) for lane in range(lanes)]


@dataclass(frozen=True)
class ShardLayout:
    """How a split is cut into shards: groups of lanes by segments of turns."""

    groups: int = 1
    segments: int = 1


SINGLE_SHARD = ShardLayout()


class EpochOrder:
    """The order of a split's epochs.

    Args:
        lane_sizes: Rows of each lane, as `lane_sizes` gives them.
        cut: How the split is cut.
        seed: Seed of the order.
    """

    def __init__(self, lane_sizes: Sequence[int], cut: ShardLayout, seed: int) -> None:
        self.sizes = np.array(lane_sizes, np.int64)
        self.lanes = len(self.sizes)
        self.rows = int(self.sizes.sum())
        self.cut = cut
        self._seed = seed
        turns = int(self.sizes.max(initial=0))
        if not 1 <= cut.groups <= self.lanes or not 1 <= cut.segments <= max(1, turns):
            raise ValueError(f"no such cut of {self.lanes} lanes of {turns} rows: {cut}")
        if self.sizes.tolist() != [len(range(i, self.rows, self.lanes)) for i in range(self.lanes)]:
            raise ValueError("rows are not dealt to lanes in turn")
        # Segment s holds turns bounds[s] to bounds[s+1] - 1.
        self.bounds = np.arange(cut.segments + 1) * turns // cut.segments
        # The number of a lane's first row, lane after lane.
        self.first = np.cumsum(self.sizes) - self.sizes

    def group(self, number: int) -> np.ndarray:
        """The lanes of a group, in order."""
        return np.arange(number, self.lanes, self.cut.groups)

    def span(self, lane: int, segment: int) -> tuple[int, int]:
        """First and last turn (exclusive) of a lane in a segment."""
        return int(self.bounds[segment]), int(min(self.bounds[segment + 1], self.sizes[lane]))

    def shard_rows(self, group: int, segment: int) -> int:
        """Rows of a shard."""
        first, last = self.bounds[segment : segment + 2]
        return int((np.minimum(self.sizes[self.group(group)], last) - first).sum())

    def numbers(self, group: int, segment: int) -> np.ndarray:
        """int64 [n]: the split's numbers of a shard's rows, in the shard's order."""
        parts = []
        for lane in self.group(group):
            first, last = self.span(lane, segment)
            parts.append(self.first[lane] + np.arange(first, last))
        return np.concatenate(parts)

    def segments(self, epoch: int, group: int) -> np.ndarray:
        """The segments of a group in the order in which an epoch comes to them."""
        return _segments(self._seed, epoch, self.lanes + group, self.cut.segments)

    def shuffled(self, epoch: int, group: int, segment: int) -> list[np.ndarray]:
        """int64 [n] of each lane of a group: its turns in a segment, as an epoch takes them."""
        lanes = self.group(group)
        if self.cut == SINGLE_SHARD:
            shuffled = [np.arange(*self.span(int(lane), segment)) for lane in lanes]
            for lane, turns in zip(lanes, shuffled, strict=True):
                if len(turns) > 1:
                    _generator(self._seed, epoch, int(lane)).shuffle(turns)
            return shuffled
        # Lanes with a row in the last turn come first; all at once, since shards are many.
        generator = _generator(self._seed, epoch, group, segment)
        first, last = self.bounds[segment : segment + 2]
        ends = np.minimum(self.sizes[lanes], last)
        return [
            turns
            for end in sorted(set(ends.tolist()), reverse=True)
            for turns in generator.permuted(
                np.tile(np.arange(first, end), (int((ends == end).sum()), 1)), axis=1
            )
        ]

    def starts(self, epoch: int, group: int) -> np.ndarray:
        """int64 [lanes, segments + 1]: rows that a group's lanes give before their k-th segment."""
        order = self.segments(epoch, group)
        ends = np.minimum(self.bounds[1:], self.sizes[self.group(group)][:, None])
        lengths = (ends - self.bounds[:-1])[:, order]
        return np.pad(np.cumsum(lengths, axis=1), ((0, 0), (1, 0)))

    def epoch(self, epoch: int, group: int) -> list[np.ndarray]:
        """int64 [size] of each lane of a group: the split's numbers as an epoch takes them."""
        parts = [self.shuffled(epoch, group, int(s)) for s in self.segments(epoch, group)]
        lanes = self.group(group)
        return [
            self.first[lane] + np.concatenate([part[i] for part in parts])
            for i, lane in enumerate(lanes)
        ]


def _generator(*seeds: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seeds))


@lru_cache(maxsize=256)  # two epochs of 64 groups, with room
def _segments(seed: int, epoch: int, stream: int, count: int) -> np.ndarray:
    return _generator(seed, epoch, stream).permutation(count) if count > 1 else np.zeros(1, int)


def epoch_order(
    sizes: Sequence[int], seed: int, epoch: int, cut: ShardLayout = SINGLE_SHARD
) -> np.ndarray:
    """The rows of one epoch in global order.

    Args:
        sizes: Rows of each lane.
        seed: Seed of the order.
        epoch: Number of the epoch, from 0.
        cut: How the split is cut.

    Returns:
        int64 [sum(sizes)]: each row once. It depends on the arguments alone.
    """
    order = EpochOrder(sizes, cut, seed)
    rows = np.empty(order.rows, np.int64)
    for group in range(cut.groups):
        for lane, numbers in zip(order.group(group), order.epoch(epoch, group), strict=True):
            rows[lane :: order.lanes] = numbers
    return rows


@dataclass(frozen=True)
class BatchPositions:
    """Where this worker's rows of some steps come from, and where they go.

    Attributes:
        lane: int64 [n], index of the lane among the worker's own.
        turn: int64 [n], how many rows the lane has given before in the epoch; not falling.
        step: int64 [n], counted from the first of these steps.
        slot: int64 [n], place in the worker's share of that step.
    """

    lane: np.ndarray
    turn: np.ndarray
    step: np.ndarray
    slot: np.ndarray


class EpochPositions(NamedTuple):
    """One worker's rows of some steps; the last batch of an epoch may hold fewer than the others.

    Attributes:
        rows: int64 [steps, padded], rows of the split; padding repeats one of the worker's own.
        weights: float32 [steps, padded], 1 for a row and 0 for padding.
        counts: int64 [steps], rows of the whole global batch.
    """

    rows: np.ndarray
    weights: np.ndarray
    counts: np.ndarray


class WorkerSampler:
    """One worker's share of every global batch.

    Every worker pads its share to the same size: the largest share that any worker has in any
    batch. It is the same in every epoch, since shuffling stays within lanes.

    Args:
        lane_sizes: Rows of each lane, as the function of that name gives them.
        rank: This worker's number, from 0.
        world: Number of workers, at most the number of lanes.
        batch: Rows of a global batch.
        seed: Seed of the order.
        cut: How the split is cut into shards.

    Raises:
        SettingsError: More workers than lanes.
    """

    def __init__(
        self,
        lane_sizes: Sequence[int],
        *,
        rank: int,
        world: int,
        batch: int,
        seed: int,
        cut: ShardLayout = SINGLE_SHARD,
    ) -> None:
        if world > len(lane_sizes):
            raise SettingsError(
                f"WORKERS={world} is more than the data set's {len(lane_sizes)} lanes, the most"
                " workers that it can be dealt to: lower WORKERS or raise LANES"
            )
        if not 0 <= rank < world or batch < 1:
            raise ValueError(f"no such share: rank {rank} of {world}, batch {batch}")
        self.order = EpochOrder(lane_sizes, cut, seed)
        self.batch = batch
        self.rank, self.world = rank, world
        self.steps = -(-self.order.rows // batch)
        worker = _workers(self.order, world)
        self.lanes = np.flatnonzero(worker == rank)
        self.padded = _largest(self.order, worker, world, batch)
        self._epoch: tuple[int, np.ndarray] | None = None

    def places(self, first: int, last: int) -> BatchPositions:
        """This worker's rows of steps `first` to `last` - 1 of any epoch."""
        begin = first * self.batch
        end = min(last * self.batch, self.order.rows)
        turns = np.arange(begin // self.order.lanes, -(-end // self.order.lanes))
        place = (turns[:, None] * self.order.lanes + self.lanes).ravel()
        kept = (place >= begin) & (place < end)
        step = place[kept] // self.batch - first
        before = np.searchsorted(step, np.arange(last - first))
        lane = np.tile(np.arange(len(self.lanes)), len(turns))[kept]
        turn = np.repeat(turns, len(self.lanes))[kept]
        return BatchPositions(lane, turn, step, np.arange(len(step)) - before[step])

    def before(self, steps: np.ndarray) -> np.ndarray:
        """int64 [n]: rows of an epoch that this worker has given before each step."""
        turns, lanes = np.divmod(np.minimum(steps * self.batch, self.order.rows), self.order.lanes)
        return turns * len(self.lanes) + np.searchsorted(self.lanes, lanes)

    def counts(self, first: int, last: int) -> np.ndarray:
        """int64 [last - first]: rows of each whole global batch."""
        begins = np.arange(first, last) * self.batch
        return np.minimum(self.batch, self.order.rows - begins)

    def part(self, epoch: int, first: int, last: int) -> EpochPositions:
        """This worker's rows of steps `first` to `last` - 1 of an epoch, counted from 0."""
        given = self._given(epoch)
        own = given[0, 0] if given.size else 0
        places = self.places(first, last)
        rows = np.full((last - first, self.padded), own, np.int64)
        weights = np.zeros((last - first, self.padded), np.float32)
        rows[places.step, places.slot] = given[places.lane, places.turn]
        weights[places.step, places.slot] = 1
        return EpochPositions(rows, weights, self.counts(first, last))

    def epoch(self, epoch: int) -> EpochPositions:
        """This worker's rows of an epoch, counted from 0."""
        return self.part(epoch, 0, self.steps)

    def _given(self, epoch: int) -> np.ndarray:
        """int64 [own lanes, turns]: rows of the split as an epoch takes them; the last is kept."""
        if self._epoch is None or self._epoch[0] != epoch:
            kind = np.int32 if self.order.rows < 2**31 else np.int64
            given = np.zeros((len(self.lanes), int(self.order.sizes.max(initial=0))), kind)
            for group in np.unique(self.lanes % self.order.cut.groups):
                rows = self.order.epoch(epoch, int(group))
                for lane, numbers in zip(self.order.group(group), rows, strict=True):
                    given[self.lanes == lane, : len(numbers)] = numbers
            self._epoch = (epoch, given)
        return self._epoch[1]


def _workers(order: EpochOrder, world: int) -> np.ndarray:
    """int64 [lanes]: the worker of each lane."""
    if order.cut == SINGLE_SHARD:  # all read the one shard
        return np.arange(order.lanes) % world
    worker = np.empty(order.lanes, np.int64)
    listed = np.concatenate([order.group(group) for group in range(order.cut.groups)])
    worker[listed] = np.arange(order.lanes) * world // order.lanes
    return worker


def _largest(order: EpochOrder, worker: np.ndarray, world: int, batch: int) -> int:
    """The most rows of one batch that one worker has."""
    most = 0
    for begin, end in _batches(order, batch):
        turns, rest = divmod(end - begin, order.lanes)
        lanes = (begin + np.arange(rest)) % order.lanes
        shares = turns * np.bincount(worker, minlength=world)
        most = max(most, int((shares + np.bincount(worker[lanes], minlength=world)).max()))
    return most


def _batches(order: EpochOrder, batch: int) -> Iterator[tuple[int, int]]:
    """First and last place of every batch that is unlike the others: they repeat after L."""
    steps = -(-order.rows // batch)
    period = order.lanes // np.gcd(order.lanes, batch)
    for step in {*range(min(steps, period)), steps - 1} - {-1}:
        yield step * batch, min((step + 1) * batch, order.rows)
