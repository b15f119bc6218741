"""The predictions as a table: row, predictions of the task, label if known, readouts.

`row` is the row of the user's table (see common/data/origin.py), or the number in the split of an
example that was generated, from 1. With ID_COLUMN, the column `id` follows.
With zero-noise extrapolation, the last columns but the readouts are predictions without it.
"""

from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from common import storage
from common.data.origin import ID, ROW, Origin
from common.data.target import Target
from common.storage import StoragePath
from inference.inference_input import InferenceInput
from inference.scoring import class_probabilities, in_units, rounded

MAX_CSV_ROWS = 1_000_000
"""Maximum number of rows of a CSV table; larger tables are written as Parquet."""


_FIDELITIES = ("state", "gate")
"""Kinds of targets whose predictions are fidelities."""


class PredictionTable:
    """The table. It is written to a local file and published atomically. A context manager.

    Args:
        folder: Folder where the table is published.
        inputs: The examples; their name is the table's name, their target names the columns.
        readouts: Readouts per example; None for a model without a readout layer.
        is_mitigated: If there are predictions without zero-noise extrapolation, too.

    Attributes:
        path: Path of the published table.
    """

    def __init__(
        self,
        folder: StoragePath,
        inputs: InferenceInput,
        readouts: int | None,
        *,
        is_mitigated: bool = False,
    ) -> None:
        self._target, self._labelled = inputs.target, inputs.labelled
        # The fields of a Hamiltonian or a device are its first features; there are few rows.
        self._fields = inputs.target.fields
        self._features = inputs.head(inputs.total).angles if self._fields else None
        large = inputs.total > MAX_CSV_ROWS
        self.path = folder / f"{inputs.name}.{'parquet' if large else 'csv'}"
        self._has_ids = ID in inputs.origin_columns
        fields = [(ROW, pa.int64())] + [(ID, pa.string())] * self._has_ids
        fields += [(name, pa.float32()) for name in self._fields]
        fields += _columns(inputs.target, labelled=inputs.labelled)
        if is_mitigated:
            predicted = _columns(inputs.target, labelled=False)
            fields += [(f"unmitigated_{name}", kind) for name, kind in predicted]
        fields += [(f"readout_{i}", pa.float32()) for i in range(readouts or 0)]
        self._schema = pa.schema(fields)
        self._folder = storage.temporary_folder()
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
        unmitigated: np.ndarray | None,
        origin: Origin,
    ) -> None:
        """Write examples.

        Args:
            rows: int64 [n], the numbers of the examples from 0.
            predictions: float32 [n], or [n, outputs] for several outputs.
            readouts: float32 [n, readouts] or None.
            labels: float32 [n], encoded by the target, if labels are known.
            unmitigated: As `predictions`, without zero-noise extrapolation, if it is used.
            origin: Of the examples.
        """
        columns = [pa.array(origin.rows, pa.int64())]
        if self._has_ids:
            assert origin.ids is not None
            columns.append(pa.array(origin.ids.tolist(), pa.string()))
        if self._features is not None:
            columns += [pa.array(self._features[rows, i]) for i in range(len(self._fields))]
        columns += self._predictions(predictions, labels)
        if unmitigated is not None:
            columns += self._predictions(unmitigated, None)
        if readouts is not None:
            columns += [pa.array(np.ascontiguousarray(column)) for column in readouts.T]
        with storage.translate_errors(self._file):
            # Arrow writes the shortest decimals that are read back as the same float32.
            self._writer.write_table(pa.table(columns, schema=self._schema))

    def _predictions(self, predictions: np.ndarray, labels: np.ndarray | None) -> list[pa.Array]:
        """Return the columns of `_columns`."""
        target = self._target
        if target.classes:
            outputs = predictions.reshape(len(predictions), -1)
            shown = outputs
            if target.kind == "classes":
                shown = class_probabilities(target, predictions).astype(np.float32)
            columns = [pa.array(np.ascontiguousarray(one)) for one in shown.T]
            columns.append(self._class_names(target.predicted_classes(outputs)))
            if labels is not None and self._labelled:
                columns.append(self._class_names(target.class_indices(labels)))
            return columns
        values = [predictions.astype(np.float64)]
        if labels is not None and self._labelled and target.has_reference:
            values.append(labels.astype(np.float64))
        if target.kind == "number":
            values = [in_units(target, one) for one in values]
        if target.kind in _FIDELITIES:
            return [pa.array(values[0])]
        if len(values) == 2:
            error = values[0] - values[1]
            values.append(rounded(target, error) if target.kind == "number" else error)
        return [pa.array(one) for one in values]

    def _class_names(self, indices: np.ndarray) -> pa.Array:
        codes = indices.astype(np.int8)
        return pa.DictionaryArray.from_arrays(codes, list(self._target.classes)).cast("string")

    def publish(self) -> None:
        """Write the table to storage."""
        with storage.translate_errors(self._file):
            self._writer.close()
        storage.write_atomic(self.path, self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with storage.translate_errors(self._file):
            self._writer.close()
        self._folder.cleanup()


def _columns(target: Target, *, labelled: bool) -> list[tuple[str, pa.DataType]]:
    """Return names and types of the columns of predictions and labels."""
    if target.classes:
        columns: list[tuple[str, pa.DataType]] = [("prediction", pa.float32())]
        if target.kind == "classes":
            columns = [(f"probability_{name}", pa.float32()) for name in target.classes]
        columns.append(("predicted_label", pa.string()))
        return columns + [("label", pa.string())] * labelled
    if target.kind in _FIDELITIES:
        return [("fidelity", pa.float64())]
    name, truth = ("energy", "reference") if target.kind == "energy" else ("prediction", "label")
    compared = [truth, "error"] if labelled and target.has_reference else []
    return [(one, pa.float64()) for one in (name, *compared)]
