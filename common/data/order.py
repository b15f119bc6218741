"""In which order examples are seen, and which of them a worker takes.

A split's row i is dealt to lane i mod L. Rows are numbered lane after lane, so lane l of sizes s
holds rows sum(s[:l]) to sum(s[:l+1]) - 1. In an epoch each lane is shuffled in itself, and the
global order takes rows round-robin from the lanes, skipping the exhausted. Global batch b is
positions b*B to (b+1)*B - 1 of that order; worker r of W takes those of its rows that lie in lanes
r, r+W, r+2W, ... So a batch is the same for any number of workers, and a worker reads its own
lanes alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.errors import SettingsError


def lane_sizes(rows: int, lanes: int) -> list[int]:
    """How many of `rows` rows each lane gets when row i goes to lane i mod `lanes`."""
    return [len(range(lane, rows, lanes)) for lane in range(lanes)]


def epoch_order(sizes: Sequence[int], seed: int, epoch: int) -> np.ndarray:
    """The rows of one epoch in global order.

    Args:
        sizes: Rows of each lane.
        seed: Seed of the order.
        epoch: Number of the epoch, from 0.

    Returns:
        int64 [sum(sizes)]: each row once. It depends on the arguments alone.
    """
    return _shuffled(sizes, seed, epoch)[_round_robin(sizes)]


def _shuffled(sizes: Sequence[int], seed: int, epoch: int) -> np.ndarray:
    """Rows lane after lane, each lane shuffled by (seed, epoch, lane)."""
    first = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    rows = np.arange(first[-1])
    for lane, size in enumerate(sizes):
        if size > 1:
            generator = np.random.Generator(np.random.PCG64([seed, epoch, lane]))
            generator.shuffle(rows[first[lane] : first[lane + 1]])
    return rows


def _round_robin(sizes: Sequence[int]) -> np.ndarray:
    """For each position of the global order, the place in the lane-after-lane numbering."""
    turn = np.concatenate([np.arange(size) for size in sizes] or [np.arange(0)])
    return np.argsort(turn, kind="stable")


@dataclass(frozen=True)
class EpochShare:
    """One worker's rows of one epoch; the last batch may hold fewer rows than the others.

    Attributes:
        rows: int64 [steps, padded], rows of the split; padding repeats one of the worker's own.
        weights: float32 [steps, padded], 1 for a row and 0 for padding.
        counts: int64 [steps], rows of the whole global batch.
    """

    rows: np.ndarray
    weights: np.ndarray
    counts: np.ndarray


class Share:
    """One worker's share of every global batch.

    Every worker pads its share to the same size: the largest share that any worker has in any
    batch. It is the same in every epoch, since shuffling stays within lanes.

    Args:
        lane_sizes: Rows of each lane.
        rank: This worker's number, from 0.
        world: Number of workers, at most the number of lanes.
        batch: Rows of a global batch.
        seed: Seed of the order.

    Raises:
        SettingsError: More workers than lanes.
    """

    def __init__(
        self, lane_sizes: Sequence[int], *, rank: int, world: int, batch: int, seed: int
    ) -> None:
        if world > len(lane_sizes):
            raise SettingsError(
                f"WORKERS={world} is more than the data set's {len(lane_sizes)} lanes, the most"
                " workers that it can be dealt to: lower WORKERS or raise LANES"
            )
        if not 0 <= rank < world or batch < 1:
            raise ValueError(f"no such share: rank {rank} of {world}, batch {batch}")
        self._sizes = list(lane_sizes)
        self._seed = seed
        self._places = _round_robin(lane_sizes)
        total = len(self._places)
        self.steps = -(-total // batch)

        lane = np.repeat(np.arange(len(lane_sizes)), lane_sizes)[self._places]
        worker = lane % world
        step = np.arange(total) // batch
        shares = np.bincount(step * world + worker, minlength=self.steps * world)
        shares = shares.reshape(self.steps, world)
        self.padded = int(shares.max(initial=0))

        self._mine = np.flatnonzero(worker == rank)
        self._step = step[self._mine]
        before = np.cumsum(shares[:, rank]) - shares[:, rank]
        self._slot = np.arange(len(self._mine)) - before[self._step]
        self._weights = np.zeros((self.steps, self.padded), np.float32)
        self._weights[self._step, self._slot] = 1
        self._counts = shares.sum(axis=1)

    def epoch(self, epoch: int) -> EpochShare:
        """This worker's rows of an epoch, counted from 0."""
        mine = _shuffled(self._sizes, self._seed, epoch)[self._places[self._mine]]
        own = mine[0] if len(mine) else 0
        rows = np.full((self.steps, self.padded), own, np.int64)
        rows[self._step, self._slot] = mine
        return EpochShare(rows, self._weights, self._counts)
