"""Optimizers of many candidates at once, each with its own state and its own end."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from qfleet.search.halving import Halving

Function = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Takes rows [k] and their points [k, D]; returns values [k] and gradients [k, D]."""

_ARMIJO = 1e-4
_SHRINK = 0.4
_LEAST_STEP = 1e-6
_PAIRS = 12  # corrections that L-BFGS keeps
_FIRST_STEP = 0.2  # longest first step, in the unit of the angles
_QUIET = 4  # steps without progress before a candidate stops
_LEAST_CURVATURE = 1e-10
_STUCK = 10  # steps of Adam without progress before the rate falls


class Minima(NamedTuple):
    """Results, by row.

    Attributes:
        points: [C, D].
        values: [C].
        evaluations: [C] int64: how often the function and its gradient were computed.
    """

    points: np.ndarray
    values: np.ndarray
    evaluations: np.ndarray


def adam(
    function: Function,
    start: np.ndarray,
    *,
    evaluations: int,
    tolerance: float = 1e-8,
    halving: Halving | None = None,
    rate: float = 0.05,
) -> Minima:
    """Minimise by Adam (arXiv:1412.6980), with the best point of each row as its result.

    Args:
        function: The function.
        start: [C, D] first points.
        evaluations: Most evaluations of a row.
        tolerance: Where the best value of a row improves by less in 10 steps, the row continues at
            its best point with a third of its learning rate; it stops at a 1,000th of the first.
        halving: Which rows are trained further at its rungs; all unless given.
        rate: First learning rate, in the unit of the angles.
    """
    count = len(start)
    points, best = start.copy(), start.copy()
    lowest, mark = np.full(count, np.inf), np.full(count, np.inf)
    first, second = np.zeros_like(start), np.zeros_like(start)
    rates, steps = np.full(count, rate), np.zeros(count, np.int64)
    counts, quiet = np.zeros(count, np.int64), np.zeros(count, np.int64)
    rows = np.arange(count)
    while len(rows) and counts[rows[0]] < evaluations:
        values, gradients = function(rows, points[rows])
        counts[rows] += 1
        steps[rows] += 1
        better = values < lowest[rows]
        lowest[rows[better]], best[rows[better]] = values[better], points[rows[better]]
        moved = lowest[rows] < mark[rows] - tolerance
        mark[rows[moved]] = lowest[rows[moved]]
        quiet[rows] = np.where(moved, 0, quiet[rows] + 1)
        first[rows] = 0.9 * first[rows] + 0.1 * gradients
        second[rows] = 0.999 * second[rows] + 0.001 * gradients**2
        age = steps[rows, None]
        size = np.sqrt(second[rows] / (1 - 0.999**age)) + 1e-12
        points[rows] -= rates[rows, None] * first[rows] / (1 - 0.9**age) / size
        stuck = rows[quiet[rows] == _STUCK]
        points[stuck] = best[stuck]
        rates[stuck] /= 3
        for state in (first, second, steps, quiet):
            state[stuck] = 0
        rows = rows[rates[rows] > rate / 1000]
        if halving is not None and len(rows):
            rows = halving.continuing(rows, int(counts[rows[0]]), lowest)
    return Minima(best, lowest, counts)


def lbfgs(
    function: Function,
    start: np.ndarray,
    *,
    evaluations: int,
    tolerance: float = 1e-8,
    halving: Halving | None = None,
) -> Minima:
    """Minimise by L-BFGS with a backtracking line search; each call computes one point of each row.

    Args:
        function: The function.
        start: [C, D] first points.
        evaluations: Most evaluations of a row.
        tolerance: A row stops where its value improves by less in each of 4 steps, or where its
            gradient is below the square root of this divided by 100.
        halving: As for `adam`.
    """
    count, size = start.shape
    points = start.copy()
    rows = np.arange(count)
    values, gradients = function(rows, points)
    counts = np.ones(count, np.int64)
    steps = np.zeros((count, _PAIRS, size))
    changes = np.zeros((count, _PAIRS, size))
    weights = np.zeros((count, _PAIRS))  # 1 / (step . change), 0 for none
    norms = np.linalg.norm(gradients, axis=1)
    lengths = np.minimum(1.0, _FIRST_STEP / np.maximum(norms, 1e-300))
    directions = -gradients
    quiet = np.zeros(count, np.int64)
    least = tolerance**0.5 / 100
    rows = rows[np.abs(gradients).max(axis=1, initial=0.0) > least]
    while len(rows) and counts[rows].max() < evaluations:
        step = lengths[rows, None] * directions[rows]
        tried = points[rows] + step
        found, slopes = function(rows, tried)
        counts[rows] += 1
        descent = np.einsum("ij,ij->i", gradients[rows], step)
        enough = found <= values[rows] + _ARMIJO * descent
        lengths[rows[~enough]] *= _SHRINK
        done = rows[enough]
        if len(done):
            moved, change = step[enough], slopes[enough] - gradients[done]
            _remember(steps, changes, weights, done, moved, change)
            gained = values[done] - found[enough]
            quiet[done] = np.where(gained < tolerance, quiet[done] + 1, 0)
            points[done], values[done], gradients[done] = (
                tried[enough],
                found[enough],
                slopes[enough],
            )
            directions[done] = _direction(
                gradients[done], steps[done], changes[done], weights[done]
            )
            rising = np.einsum("ij,ij->i", directions[done], gradients[done]) >= 0
            weights[done[rising]] = 0.0
            directions[done[rising]] = -gradients[done[rising]]
            lengths[done] = 1.0
        flat = np.abs(gradients[rows]).max(axis=1) <= least
        rows = rows[~flat & (quiet[rows] < _QUIET) & (lengths[rows] > _LEAST_STEP)]
        if halving is not None and len(rows):
            rows = halving.continuing(rows, int(counts[rows[0]]), values)
    return Minima(points, values, counts)


def _remember(
    steps: np.ndarray,
    changes: np.ndarray,
    weights: np.ndarray,
    rows: np.ndarray,
    moved: np.ndarray,
    change: np.ndarray,
) -> None:
    """Add a correction to each row where the curvature along the step is positive."""
    curvature = np.einsum("ij,ij->i", moved, change)
    scale = np.linalg.norm(moved, axis=1) * np.linalg.norm(change, axis=1)
    good = curvature > _LEAST_CURVATURE * scale
    kept = rows[good]
    for history, newest in ((steps, moved[good]), (changes, change[good])):
        history[kept, :-1] = history[kept, 1:]
        history[kept, -1] = newest
    weights[kept, :-1] = weights[kept, 1:]
    weights[kept, -1] = 1 / curvature[good]


def _direction(
    gradients: np.ndarray, steps: np.ndarray, changes: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return the directions of L-BFGS: Nocedal and Wright, "Numerical Optimization", 7.4."""
    found = gradients.copy()
    shares = np.zeros_like(weights)
    for at in range(_PAIRS - 1, -1, -1):
        shares[:, at] = weights[:, at] * np.einsum("ij,ij->i", steps[:, at], found)
        found -= shares[:, at, None] * changes[:, at]
    squares = weights[:, -1] * np.einsum("ij,ij->i", changes[:, -1], changes[:, -1])
    scale = np.where(squares > 0, 1 / np.where(squares > 0, squares, 1.0), 1.0)
    found *= scale[:, None]
    for at in range(_PAIRS):
        back = weights[:, at] * np.einsum("ij,ij->i", changes[:, at], found)
        found += (shares[:, at] - back)[:, None] * steps[:, at]
    return -found
