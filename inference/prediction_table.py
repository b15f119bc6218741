"""The predictions as a table: row, prediction, predicted label, label if known, readouts."""

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
from inference.scoring import predicted_signs

MAX_CSV_ROWS = 1_000_000
"""Maximum number of rows of a CSV table; larger tables are written as Parquet."""


class PredictionTable:
    """The table. It is written to a local file and published atomically. A context manager.

    Args:
        folder: Folder where the table is published.
        inputs: The examples; their name is the table's name, their classes are the labels.
        readouts: Readouts per example; None for a model without a readout layer.

    Attributes:
        path: Path of the published table.
    """

    def __init__(self, folder: StoragePath, inputs: InferenceInput, readouts: int | None) -> None:
        self._classes, self._labelled = inputs.classes, inputs.labelled
        large = inputs.total > MAX_CSV_ROWS
        self.path = folder / f"{inputs.name}.{'parquet' if large else 'csv'}"
        fields = [
            ("row", pa.int64()), ("prediction", pa.float32()), ("predicted_label", pa.string()),
        ]  # fmt: skip
        fields += [("label", pa.string())] * inputs.labelled
        fields += [(f"readout_{i}", pa.float32()) for i in range(readouts or 0)]
        self._schema = pa.schema(fields)
        self._folder = tempfile.TemporaryDirectory(prefix="qfleet-")
        self._file = Path(self._folder.name, self.path.name)
        with storage.translate_errors(self._file):
            if large:
                self._writer = pa.parquet.ParquetWriter(
                    self._file, self._schema, compression="zstd"
                )
            else:
                options = pa.csv.WriteOptions(quoting_style="needed")
                self._writer = pa.csv.CSVWriter(self._file, self._schema, write_options=options)

    def add(
        self,
        rows: np.ndarray,
        predictions: np.ndarray,
        readouts: np.ndarray | None,
        labels: np.ndarray | None,
    ) -> None:
        """Write examples.

        Args:
            rows: int64 [n], the numbers of the examples from 0; the table counts from 1.
            predictions: float32 [n].
            readouts: float32 [n, readouts] or None.
            labels: float32 [n] of -1 and +1 if labels are known.
        """
        columns = [
            pa.array(rows + 1),
            pa.array(predictions),
            self._class_names(predicted_signs(predictions)),
        ]
        if self._labelled:
            assert labels is not None
            columns.append(self._class_names(labels))
        if readouts is not None:
            columns += [pa.array(np.ascontiguousarray(column)) for column in readouts.T]
        with storage.translate_errors(self._file):
            # Arrow writes the shortest decimals that are read back as the same float32.
            self._writer.write_table(pa.table(columns, schema=self._schema))

    def _class_names(self, signs: np.ndarray) -> pa.Array:
        codes = (signs > 0).astype(np.int8)
        return pa.DictionaryArray.from_arrays(codes, list(self._classes)).cast("string")

    def publish(self) -> None:
        """Write the table to storage."""
        with storage.translate_errors(self._file):
            self._writer.close()
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
            self._writer.close()
        self._folder.cleanup()
