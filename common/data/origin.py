"""Origin of examples: the rows of the user's table that they come from.

Rows count from 1 in every format: row 1 is the first below the header of a CSV file, and the one of
index 0 in Parquet and NPZ files. Blank lines of a CSV file do not count. So row r is
`frame.iloc[r - 1]` of the table in pandas.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

ROW, ID = "row", "id"
"""Columns of the origin in shards and tables of predictions."""


class Origin(NamedTuple):
    """Rows of a table from which examples come.

    Attributes:
        rows: int64 [n], from 1.
        ids: Texts [n] of ID_COLUMN, as objects; None without one.
    """

    rows: np.ndarray
    ids: np.ndarray | None = None

    @classmethod
    def of_table(cls, rows: int, ids: np.ndarray | None = None) -> Self:
        """Return the origin of all rows of a table, in order."""
        return cls(np.arange(1, rows + 1), ids)

    @classmethod
    def joined(cls, parts: Sequence["Origin"]) -> Self:
        """Return the origin of the examples of several parts, which all have the same columns."""
        ids = [part.ids for part in parts if part.ids is not None]
        rows = np.concatenate([part.rows for part in parts])
        return cls(rows, np.concatenate(ids) if ids else None)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the origin."""
        return (ROW,) if self.ids is None else (ROW, ID)

    def take(self, chosen: np.ndarray | slice) -> Self:
        """Return the origin of some of the examples."""
        return type(self)(self.rows[chosen], None if self.ids is None else self.ids[chosen])
