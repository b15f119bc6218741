"""Tiles of a kernel matrix: how many rows have their features in memory at a time."""

import math
from dataclasses import dataclass

from qfleet.engine import memory
from qfleet.errors import MemoryLimitError

_COPIES = 2  # the engine computes an array of states before it is the caller's
_ARRAYS = 6  # of a gradient: the matrix, its derivative, complex overlaps and their product


@dataclass(frozen=True)
class Tiles:
    """The largest tile of a matrix.

    Attributes:
        rows: Rows of a tile, whose features are computed once.
        columns: Columns of a tile, whose features are computed once per tile of rows.
    """

    rows: int
    columns: int


@dataclass(frozen=True)
class MatrixSize:
    """The size of a kernel matrix and of the features that it is computed from.

    Attributes:
        rows: Number of rows.
        columns: Number of columns; None for a symmetric matrix.
        feature_bytes: Bytes of the features of a row.
        value_bytes: Bytes of an entry of the matrix.
    """

    rows: int
    columns: int | None
    feature_bytes: int
    value_bytes: int

    @property
    def matrix_bytes(self) -> int:
        """Bytes of the matrix."""
        columns = self.rows if self.columns is None else self.columns
        return self.rows * columns * self.value_bytes

    def tiles(self, limit: int | None) -> Tiles:
        """Return the largest tiles that fit.

        Args:
            limit: Most bytes of matrix and features; the free memory unless given.

        Raises:
            MemoryLimitError: The matrix or the features of two rows do not fit.
        """
        columns = self.columns or 0
        examples = self.rows + columns
        whole = Tiles(max(self.rows, 1), max(columns, 1))
        needed = self.matrix_bytes + _COPIES * examples * self.feature_bytes
        if limit is None and needed <= memory.UNCHECKED_BYTES:
            return whole
        free = memory.available_bytes() if limit is None else limit
        if needed <= free:
            return whole
        self._require_matrix(free, limit)
        count = (free - self.matrix_bytes) // (_COPIES * self.feature_bytes)
        if count < 2:
            raise MemoryLimitError(
                f"the features of 2 rows take {2 * _COPIES * self.feature_bytes:,} bytes next to"
                f" {self.matrix_bytes:,} bytes of the kernel matrix, but {_where(free, limit)}:"
                " use fewer qubits, fewer rows at a time or complex64"
            )
        # Most of the memory is for rows: each tile of rows evolves the states of all columns again.
        rows = min(count - max(count // 8, 1), self.rows)
        return Tiles(rows, count - rows)

    def require_gradient(self, limit: int | None) -> None:
        """Check that a gradient fits, which keeps the features of all rows and their derivatives.

        Args:
            limit: As for `tiles`.

        Raises:
            MemoryLimitError: It does not fit.
        """
        each = 2 * _COPIES * self.feature_bytes
        needed = _ARRAYS * self.matrix_bytes + self.rows * each
        if limit is None and needed <= memory.UNCHECKED_BYTES:
            return
        free = memory.available_bytes() if limit is None else limit
        if needed > free:
            wide = _ARRAYS * self.value_bytes
            fits = int((math.sqrt(each**2 + 4 * wide * free) - each) / (2 * wide))
            raise MemoryLimitError(
                f"the gradient of a kernel matrix of {self.rows} rows takes {needed:,} bytes, but"
                f" {_where(free, limit)}: pass at most {fits} rows, such as a random part of them"
            )

    def _require_matrix(self, free: int, limit: int | None) -> None:
        if self.matrix_bytes <= free:
            return
        if self.columns is None:
            fits = math.isqrt(free // self.value_bytes)
            advice = f"pass at most {fits} rows, or parts of them as X and Y"
        else:
            fits = free // (self.columns * self.value_bytes)
            advice = f"pass at most {fits} rows of X at a time" if fits else "pass fewer rows of Y"
        shape = f"{self.rows} x {self.rows if self.columns is None else self.columns}"
        raise MemoryLimitError(
            f"the kernel matrix of {shape} pairs takes {self.matrix_bytes:,} bytes, but"
            f" {_where(free, limit)}: {advice}"
        )


def _where(free: int, limit: int | None) -> str:
    return f"{free:,} bytes are free" if limit is None else f"memory_limit is {free:,}"
