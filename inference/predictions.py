"""The answers as a table: row, answer, predicted class, label where it is known, readouts."""

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from common import storage
from common.storage import StoragePath
from inference.inference_input import InferenceInput
from inference.scoring import predicted_label

MAX_CSV_ROWS = 1_000_000
"""Rows that are written as CSV; more are written as Parquet."""


class Predictions:
    """The table, which grows on this machine and is published whole or not at all. A context.

    Args:
        folder: Where it is published.
        question: Its name is the table's; its classes name the labels.
        readouts: Readouts of an example; None for a model that does not show them.

    Attributes:
        path: The table.
    """

    def __init__(self, folder: StoragePath, question: InferenceInput, readouts: int | None) -> None:
        self._classes, self._labelled = question.classes, question.labelled
        large = question.total > MAX_CSV_ROWS
        self.path = folder / f"{question.name}.{'parquet' if large else 'csv'}"
        fields = [("row", pa.int64()), ("answer", pa.float32()), ("predicted", pa.string())]
        fields += [("label", pa.string())] * question.labelled
        fields += [(f"readout_{i}", pa.float32()) for i in range(readouts or 0)]
        self._schema = pa.schema(fields)
        self._folder = tempfile.TemporaryDirectory(prefix="qfleet-")
        self._file = Path(self._folder.name, self.path.name)
        with storage.translate_errors(self._file):
            if large:
                self._table = pa.parquet.ParquetWriter(self._file, self._schema, compression="zstd")
            else:
                options = pa.csv.WriteOptions(quoting_style="needed")
                self._table = pa.csv.CSVWriter(self._file, self._schema, write_options=options)

    def add(
        self,
        rows: np.ndarray,
        answers: np.ndarray,
        readouts: np.ndarray | None,
        labels: np.ndarray | None,
    ) -> None:
        """Write examples.

        Args:
            rows: int64 [n], their numbers from 0; a table counts from 1.
            answers: float32 [n].
            readouts: float32 [n, readouts] or None.
            labels: float32 [n] of -1 and +1 where labels are known.
        """
        columns = [pa.array(rows + 1), pa.array(answers), self._names(predicted_label(answers))]
        if self._labelled:
            assert labels is not None
            columns.append(self._names(labels))
        if readouts is not None:
            columns += [pa.array(np.ascontiguousarray(column)) for column in readouts.T]
        with storage.translate_errors(self._file):
            # Arrow writes the shortest decimals that read back as the same float32.
            self._table.write_table(pa.table(columns, schema=self._schema))

    def _names(self, signs: np.ndarray) -> pa.Array:
        codes = (signs > 0).astype(np.int8)
        return pa.DictionaryArray.from_arrays(codes, list(self._classes)).cast("string")

    def publish(self) -> None:
        """Write the table to its place."""
        with storage.translate_errors(self._file):
            self._table.close()
        storage.write_atomic(self.path, self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with storage.translate_errors(self._file):
            self._table.close()
        self._folder.cleanup()
