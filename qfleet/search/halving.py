"""Early stop of candidates in groups: successive halving."""

from collections.abc import Sequence
from typing import final

import numpy as np

from qfleet.rungs import first_of_two, rungs_of


@final
class Halving:
    """Successive halving of the rows of a batch, in groups.

    At each rung, the best rows of each group continue: one of `factor` at the first, one of
    `factor` squared at the second, and at least one.

    Args:
        groups: [C] the group of each row: rows of other groups are not compared.
        evaluations: Most evaluations of a row.
        factor: One of this many continues; 1 stops none.
    """

    def __init__(self, groups: Sequence[int] | np.ndarray, evaluations: int, factor: int) -> None:
        self._groups, self._factor = np.asarray(groups), factor
        rungs = (
            rungs_of(evaluations, first_of_two(evaluations, factor), factor) if factor > 1 else []
        )
        self._rungs = {rung: level + 1 for level, rung in enumerate(rungs)}

    def continuing(self, rows: np.ndarray, evaluations: int, values: np.ndarray) -> np.ndarray:
        """Return the rows that are trained further.

        Args:
            rows: [k] rows that have not ended.
            evaluations: How often each of them was evaluated.
            values: [C] lowest values of all rows so far, also of those that have ended.
        """
        level = self._rungs.get(evaluations)
        if level is None:
            return rows
        kept = np.zeros(len(values), bool)
        for group in np.unique(self._groups):
            own = np.flatnonzero(self._groups == group)
            count = -(-len(own) // self._factor**level)
            kept[own[np.argsort(values[own], kind="stable")[:count]]] = True
        continuing: np.ndarray = rows[kept[rows]]
        return continuing
