"""Shots of pairs of rows: binomial numbers that depend on the seed and on both rows only."""

import hashlib

import numpy as np

MAX_SHOTS = 2**31
_BLOCK = 1 << 18  # pairs whose numbers are drawn at a time

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def estimate(
    matrix: np.ndarray, rows: np.ndarray, columns: np.ndarray, shots: int, seed: int
) -> None:
    """Replace probabilities by relative frequencies, in place.

    Args:
        matrix: [n, m] probabilities.
        rows: [n, I] float64.
        columns: [m, I] float64; the same array as `rows` for a symmetric matrix.
        shots: Measurements per pair.
        seed: From 0 to 2**64 - 1.
    """
    from scipy.stats import binom  # takes half a second

    left = _digests(rows, seed)
    right = left if columns is rows else _digests(columns, seed)
    step = max(_BLOCK // max(len(columns), 1), 1)
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        # Of a symmetric matrix, only the pairs from the block's first row on.
        first = start if columns is rows else 0
        draws = _uniform(left[part, None], right[first:])
        chances = matrix[part, first:].astype(np.float64)
        counts = np.clip(binom.ppf(draws, shots, chances), 0, shots)
        matrix[part, first:] = counts / shots
        if columns is rows:
            matrix[first:, part] = matrix[part, first:].T


def _digests(rows: np.ndarray, seed: int) -> np.ndarray:
    """Return a number [n] uint64 for the content of each row."""
    key = seed.to_bytes(8, "little")
    rows = rows + 0.0  # -0.0 and 0.0 are one value
    found = [hashlib.blake2b(row.tobytes(), digest_size=8, key=key).digest() for row in rows]
    return np.frombuffer(b"".join(found), np.uint64)


def _uniform(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return numbers in (0, 1) that are equal for (a, b) and (b, a)."""
    low, high = np.minimum(left, right), np.maximum(left, right)
    mixed = _mix(_mix(low) + high)
    found: np.ndarray = ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return found


def _mix(numbers: np.ndarray) -> np.ndarray:
    """Return SplitMix64's output function (Steele et al., doi:10.1145/2660193.2660195)."""
    numbers = numbers + _GOLDEN
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _FIRST
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _SECOND
    mixed: np.ndarray = numbers ^ (numbers >> np.uint64(31))
    return mixed
