"""The examples with the largest errors, to be looked up in the user's table."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from common.data.origin import Origin

COUNT = 10
"""Examples that are kept."""


class LargeError(NamedTuple):
    """One example whose prediction is wrong.

    Attributes:
        row: Its row in the table, or number in the split if it was generated; from 1.
        id: Its text of ID_COLUMN; None without one.
        label: Label, as text.
        predicted: Prediction, as text.
        size: Probability of the wrong class, or distance to the label in its units.
    """

    row: int
    id: str | None
    label: str
    predicted: str
    size: float


class LargestErrors:
    """Collects the examples with the largest errors, in bounded memory.

    Attributes:
        found: Largest first; of equal ones, the first.
    """

    def __init__(self) -> None:
        self.found: list[LargeError] = []

    def add(
        self, sizes: np.ndarray, origin: Origin, texts: Callable[[int], tuple[str, str]]
    ) -> None:
        """Add examples.

        Args:
            sizes: Sizes of the errors [n]; 0 for a right prediction.
            origin: Of the examples.
            texts: Returns label and prediction of an example, by its place.
        """
        order = np.argsort(-sizes, kind="stable")[:COUNT]
        for i in order[sizes[order] > 0].tolist():
            identifier = None if origin.ids is None else str(origin.ids[i])
            size = float(sizes[i])
            self.found.append(LargeError(int(origin.rows[i]), identifier, *texts(i), size))
        self.found = sorted(self.found, key=lambda one: -one.size)[:COUNT]
