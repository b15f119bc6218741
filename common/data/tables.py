"""A person's table: read, checked, and every fault named by file, row and column."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.data.formats import read_file
from common.errors import DataError

# Squares of larger numbers, which standard deviations are made of, come near float64's end.
MAX_TABLE_BYTES = 1e100


class Table(NamedTuple):
    """The content of a table.

    Attributes:
        features: float64 [n, columns].
        labels: Text [n], as `label_text` writes it; None where the table has no label.
        names: Names of the columns.
    """

    features: np.ndarray
    labels: np.ndarray | None
    names: tuple[str, ...]


def read_table(
    path: str, label: str | None, *, columns: Sequence[str] | None = None, labelled: bool = True
) -> Table:
    """Read a CSV, Parquet or NPZ table.

    Every column but the label is a feature. In an NPZ each array is a column [n] or several
    [n, k], which are then named NAME_0 to NAME_k-1. Rows are counted from 1 in messages.

    Args:
        path: A path or gs:// address that ends in .csv, .parquet or .npz.
        label: Name of the label's column, or None if all columns are features.
        columns: The features that there must be, and their order; as in the table unless given.
        labelled: Whether the label's column must be there.

    Raises:
        DataError: The file is missing or unreadable, or a row or column is not as it must be.
    """
    table = read_file(path)
    # pandas keeps its index as a column of this name, which is not the person's own.
    table = table.drop_columns(
        [name for name in table.column_names if name.startswith("__index_level_")]
    )
    names = table.column_names
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise DataError(f"{path} has two columns of the name {twice!r}: rename one of them")
    if table.num_rows == 0:
        raise DataError(f"{path} has no rows: a table needs at least one below its header")

    labels = None
    if label is not None and label in names:
        labels = _labels(path, label, table[label])
    elif label is not None and labelled:
        raise DataError(
            f"{path} has no column {label!r} for the label, only {_list(names)}: set LABEL_COLUMN to the"
            " one that holds it"
        )
    features = [name for name in names if name != label]
    if columns is not None:
        _same_columns(path, features, columns)
        features = list(columns)
    if not features:
        raise DataError(f"{path} has no column but the label {label!r}: it needs features as well")
    read = np.empty((table.num_rows, len(features)))
    for i, name in enumerate(features):
        read[:, i] = _numbers(path, name, table[name])
    return Table(read, labels, tuple(features))


def label_text(value: object) -> str:
    """A label as text: 3, 3.0 and '3' are the same label."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        return value.decode(errors="replace").strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _list(names: Sequence[str]) -> str:
    shown = [repr(name if len(name) <= 40 else name[:40] + "...") for name in names[:8]]
    return ", ".join(shown) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _same_columns(path: str, there: Sequence[str], wanted: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in there]
    more = [name for name in there if name not in wanted]
    if missing:
        raise DataError(
            f"{path} lacks {_list(missing)} of the {len(wanted)} columns that the model was trained"
            f" on; it has {_list(there) or 'none'}"
        )
    if more:
        raise DataError(
            f"{path} has {_list(more)}, which the model was not trained on: take out what is not"
            f" among {_list(wanted)}"
        )


def _labels(path: str, name: str, column: pa.ChunkedArray) -> np.ndarray:
    encoded = column.combine_chunks()
    if not isinstance(encoded, pa.DictionaryArray):
        encoded = encoded.dictionary_encode()
    texts = np.array([label_text(value) for value in encoded.dictionary.to_pylist()], dtype=str)
    texts = np.append(texts, "")
    codes = pc.fill_null(encoded.indices, len(texts) - 1).to_numpy(zero_copy_only=False)
    labels = texts[codes.astype(np.int64)]
    missing = (labels == "") | (labels == "nan")
    if missing.any():
        raise DataError(
            f"{path}: row {1 + int(missing.argmax())} has no label in column {name!r}: give it"
            " one or take it out"
        )
    return labels


def _numbers(path: str, name: str, column: pa.ChunkedArray) -> np.ndarray:
    kind = column.type
    numeric = (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    )
    if not numeric:
        number, value = _not_a_number(column)
        raise DataError(
            f"{path}: row {number} of column {name!r} holds {value}, which is not a number:"
            " features must be numbers, so turn it into one or take the column out"
        )
    if column.null_count:
        number = 1 + int(column.is_null().to_numpy().argmax())
        raise DataError(
            f"{path}: row {number} of column {name!r} is empty or NaN: fill it, or take the row out"
        )
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    numbers = column.cast(pa.float64(), safe=False).to_numpy()
    refused = ~(np.abs(numbers) <= MAX_TABLE_BYTES)
    if refused.any():
        row = int(refused.argmax())
        raise DataError(
            f"{path}: row {row + 1} of column {name!r} holds {numbers[row]}: allowed are numbers"
            f" from -{MAX_TABLE_BYTES:g} to {MAX_TABLE_BYTES:g}"
        )
    return numbers


def _not_a_number(column: pa.ChunkedArray) -> tuple[int, str]:
    """The first row, from 1, whose value is no number; row 1 where none stands out."""
    for row, value in enumerate(column.to_pylist(), start=1):
        try:
            float(value)
        except (TypeError, ValueError):
            shown = repr(value) if isinstance(value, str) else str(value)
            return row, shown if len(shown) <= 40 else shown[:40] + "..."
    return 1, str(column[0])
