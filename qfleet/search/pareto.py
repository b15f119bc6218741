"""Pareto fronts: points that no other point beats in all objectives. Smaller is better."""

import numpy as np
from numpy.typing import ArrayLike


def pareto_front(points: ArrayLike) -> list[int]:
    """Return the places of the points that no other dominates, sorted by their coordinates.

    A point dominates another if it is at most as large in all objectives and smaller in one. Of
    equal points, the first is kept.

    Args:
        points: [n, K] objectives, all to be minimised; NaN is worse than any number.
    """
    array = _finite(points)
    order = np.lexsort((np.arange(len(array)), *array.T[::-1]))
    kept: list[int] = []
    for place in order:  # what dominates a point comes before it
        better = array[kept]
        if not len(kept) or not (better <= array[place]).all(axis=1).any():
            kept.append(int(place))
    return kept


def ranks(points: ArrayLike) -> np.ndarray:
    """Return [n] int64: 0 for the front, 1 for the front of the others, and so on.

    Args:
        points: As for `pareto_front`; equal points have the same rank.
    """
    array = _finite(points)
    unique, inverse = np.unique(array, axis=0, return_inverse=True)
    found = np.full(len(unique), -1)
    rank = 0
    while (left := np.flatnonzero(found < 0)).size:
        found[left[pareto_front(unique[left])]] = rank
        rank += 1
    result: np.ndarray = found[inverse.reshape(-1)]
    return result


def crowding(points: ArrayLike) -> np.ndarray:
    """Return [n] float64: the distance of each point from its neighbours along all objectives.

    Deb et al., "A fast and elitist multiobjective genetic algorithm: NSGA-II" (IEEE Transactions on
    Evolutionary Computation 6, 2002). The first and the last point of an objective have infinity.

    Args:
        points: [n, K] objectives of one rank.
    """
    array = _finite(points)
    found = np.zeros(len(array))
    for column in array.T:
        order = np.argsort(column, kind="stable")
        width = column[order[-1]] - column[order[0]]
        found[order[[0, -1]]] = np.inf
        if width > 0:
            found[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / width
    return found


def _finite(points: ArrayLike) -> np.ndarray:
    array = np.asarray(points, np.float64)
    return np.where(np.isnan(array), np.finfo(np.float64).max, array)
