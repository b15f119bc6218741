"""Products of small matrices with many columns, on one thread."""

import functools

import numpy as np

MAX_COLUMNS = 64
"""Most columns of a product: BLAS would divide larger ones among threads, which takes longer."""


@functools.cache
def _columns(count: int) -> int:
    """Return the largest divisor of a number of columns up to MAX_COLUMNS."""
    return max(one for one in range(1, MAX_COLUMNS + 1) if count % one == 0)


def chunks(rows: np.ndarray) -> np.ndarray:
    """Return a matrix [d, M] as chunks of columns, [chunks, d, columns]."""
    size, count = rows.shape
    found: np.ndarray = rows.reshape(size, -1, _columns(count)).swapaxes(0, 1)
    return found


def product(matrix: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the product [d, M] of a matrix [d, d] and rows [d, M]."""
    found: np.ndarray = (matrix @ chunks(rows)).swapaxes(0, 1)
    return found.reshape(rows.shape)
