"""Tiles of the kernel matrix of a training: files, each of which is computed once.

    kernel/ID/            ID is a digest of settings, data, rows and bandwidth
      tile-00012.bin      SHA-256 of the rest; float64 [rows, columns], little-endian, by rows

Tiles of other settings or data are in another folder. The division into tiles depends on the number
of rows only: a restart with other workers uses all tiles.
"""

import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from common import runs
from common.data import Dataset
from common.settings import Settings
from common.storage import StoragePath
from qfleet.kernels import QuantumKernel
from training.parts.files import read_part, write_part

FOLDER = "kernel"

FORMAT = 2

MIN_ROWS, MAX_ROWS = 64, 512
"""Rows and columns of a tile. A tile of 512 is a file of 2 MiB."""

MIN_BLOCKS = 8
"""Blocks of rows that the matrix has at least, of which there are 36 tiles, for several workers."""

_NUMBER = np.dtype("<f8")


@dataclass(frozen=True)
class Tile:
    """Part of the matrix on or above the diagonal.

    Attributes:
        index: Number of the tile, from 0.
        rows: Its rows.
        columns: Its columns.
    """

    index: int
    rows: slice
    columns: slice

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start


@dataclass(frozen=True)
class TilePlan:
    """All tiles of a matrix and the paths of their files.

    Attributes:
        folder: Folder of the files.
        rows: Rows and columns of the matrix.
    """

    folder: StoragePath
    rows: int

    @classmethod
    def of(
        cls, run: runs.Run, settings: Settings, data: Dataset, rows: int, bandwidth: float
    ) -> "TilePlan":
        """Return the plan of a run.

        Args:
            run: The run.
            settings: All settings.
            data: The data set.
            rows: Number of the training rows that are compared, which SEED chooses.
            bandwidth: Factor of the angles.
        """
        text = json.dumps([FORMAT, settings.fingerprint(), data.fingerprint, rows, bandwidth])
        name = hashlib.sha256(text.encode()).hexdigest()[:12]
        return cls(run.path / FOLDER / name, rows)

    @functools.cached_property
    def tiles(self) -> tuple[Tile, ...]:
        """All tiles, in the order of rows, then columns."""
        size = min(MAX_ROWS, max(MIN_ROWS, -(-self.rows // MIN_BLOCKS)))
        blocks = [slice(first, min(first + size, self.rows)) for first in range(0, self.rows, size)]
        pairs = [(a, b) for at, a in enumerate(blocks) for b in blocks[at:]]
        return tuple(Tile(index, *pair) for index, pair in enumerate(pairs))

    def assigned_to(self, worker: int, workers: int) -> tuple[Tile, ...]:
        """Return the tiles of one of `workers` workers. Every tile has exactly one worker."""
        return self.tiles[worker::workers]

    def path(self, tile: Tile) -> StoragePath:
        """Return the path of a tile."""
        return self.folder / f"tile-{tile.index:05d}.bin"


def write_tile(plan: TilePlan, tile: Tile, values: np.ndarray) -> None:
    """Write the values [rows, columns] of a tile, which is not computed again."""
    write_part(plan.path(tile), np.ascontiguousarray(values, _NUMBER).tobytes())


def read_tile(plan: TilePlan, tile: Tile) -> np.ndarray | None:
    """Return the values float64 [rows, columns] of a tile; None if it is missing or damaged."""
    values = read_part(plan.path(tile))
    rows, columns = tile.shape
    if values is None or len(values) != rows * columns * _NUMBER.itemsize:
        return None
    return np.frombuffer(values, _NUMBER).reshape(tile.shape)


def compute_tiles(
    plan: TilePlan,
    kernel: QuantumKernel,
    examples: np.ndarray,
    worker: int,
    workers: int,
    before_each: Callable[[], None] = lambda: None,
) -> int:
    """Compute and write the tiles of a worker that are not in storage.

    Args:
        plan: The plan.
        kernel: The kernel.
        examples: float [n, features], all rows.
        worker: Number of the worker, from 0.
        workers: Number of workers.
        before_each: Called before each of the tiles.

    Returns:
        How many tiles were computed.
    """
    computed = 0
    for tile in plan.assigned_to(worker, workers):
        before_each()
        if read_tile(plan, tile) is None:
            write_tile(plan, tile, _values(kernel, examples, tile))
            computed += 1
    return computed


def assemble(plan: TilePlan, kernel: QuantumKernel, examples: np.ndarray) -> np.ndarray:
    """Return the matrix float64 [n, n] of all tiles; damaged ones are computed again.

    Args:
        plan: The plan.
        kernel: The kernel.
        examples: float [n, features], all rows.
    """
    matrix = np.empty((plan.rows, plan.rows))
    for tile in plan.tiles:
        values = read_tile(plan, tile)
        if values is None:
            values = _values(kernel, examples, tile)
            write_tile(plan, tile, values)
        matrix[tile.rows, tile.columns] = values
        matrix[tile.columns, tile.rows] = values.T
    return matrix


def _values(kernel: QuantumKernel, examples: np.ndarray, tile: Tile) -> np.ndarray:
    rows = examples[tile.rows]
    values = kernel(rows) if tile.rows == tile.columns else kernel(rows, examples[tile.columns])
    found: np.ndarray = np.asarray(values, np.float64)
    return found
