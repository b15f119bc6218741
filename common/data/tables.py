"""Tables of the user: read and validated; errors name file, row and column."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.data.column_notes import is_headless, is_nameless, listed, suspicious
from common.data.encoding import varies
from common.data.formats import NO_ROWS, normal, read_file
from common.data.table_limits import DEFAULT_MEMORY_MIB, MIB
from common.errors import DataError
from common.text import did_you_mean

MAX_LABEL = 1000
"""Most characters of a label."""

_DECIMAL = re.compile(r"(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?")

_COMMA = re.compile(r"'\s*[-+]?[0-9.]*,[0-9.,]+([eE][-+]?[0-9]+)?\s*'")
"""A number with a decimal comma, or with separators of thousands, in quotes."""

MAX_ABSOLUTE_VALUE = 1e100
"""Squares of larger numbers, for standard deviations, come near the limit of float64."""


class Table(NamedTuple):
    """The content of a table.

    Attributes:
        features: float64 [n, columns].
        labels: Text [n], from `label_text`, or float64 [n] for a column of numbers to predict; None
            if the table has no label.
        names: Names of the columns.
        notes: Sentences about columns that are left out or probably no features, for a log.
        ids: Texts [n] of the column of identifiers, as objects; None without one.
        left_out: Names of columns that are not features, since they have one value.
    """

    features: np.ndarray
    labels: np.ndarray | None
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()
    ids: np.ndarray | None = None
    left_out: tuple[str, ...] = ()


def read_table(
    path: str,
    label: str | None,
    *,
    columns: Sequence[str] | None = None,
    left_out: Sequence[str] = (),
    labelled: bool = True,
    numeric: bool = False,
    id_column: str = "",
    memory: int = DEFAULT_MEMORY_MIB,
) -> Table:
    """Read a CSV, Parquet or NPZ table.

    Every column with a name is a feature, except the label and the identifier. In an NPZ file, each
    array is one column [n] or several [n, k], named NAME_0 to NAME_k-1. Messages count rows from 1.

    Args:
        path: A path or gs:// address that ends in .csv, .csv.gz, .parquet or .npz.
        label: Name of the label column, or None if all columns are features.
        columns: Required features and their order; by default those of the table.
        left_out: Other columns that may be there.
        labelled: The columns of labels and identifiers are required.
        numeric: Labels are numbers to predict.
        id_column: Name of the column that identifies rows; empty without one.
        memory: DATA_MEMORY, in MiB: a table that needs more is refused before it is read.

    Raises:
        DataError: The file is missing, unreadable or too large, or a row or column is invalid.
    """
    label, id_column = None if label is None else normal(label), normal(id_column)
    texts = {id_column, "" if numeric or label is None else label} - {""}
    table = read_file(path, memory, texts)
    names = [normal(name) for name in table.column_names]
    columns = None if columns is None else [normal(name) for name in columns]
    wanted = {label, *(columns or ()), *filter(None, [id_column])}
    kept = [i for i, name in enumerate(names) if name in wanted or not is_nameless(name)]
    notes = []
    if len(kept) < len(names):
        left_out = ", ".join(str(i + 1) for i in sorted(set(range(len(names))) - set(kept)))
        notes.append(
            f"{path}: column {left_out[:40]} has no name, as pandas' index, and is left out"
        )
    table, names = table.select(kept), [names[i] for i in kept]
    is_values = label not in names and is_headless(names)
    no_header = ", or write a line of names above it if these are values" * is_values
    counts = Counter(names)
    if len(counts) < len(names):
        repeated = next(name for name in names if counts[name] > 1)
        raise DataError(
            f"{path} has two columns named {listed([repeated])}: rename one of them{no_header}"
        )
    table = table.rename_columns(names)
    if table.num_rows == 0:
        raise DataError(f"{path} {NO_ROWS}")

    labels = None
    if label is not None and label in names:
        read_labels = _targets if numeric else _labels
        labels = read_labels(path, label, table[label], memory)
    elif label is not None and labelled:
        advice = did_you_mean(label, names)
        if len(names) == 1:
            advice = ", and separate columns by commas, semicolons or tabs"
        raise DataError(
            f"{path} has no label column {label!r}, only {listed(names)}: set LABEL_COLUMN to the"
            f" column of labels{advice}{no_header}"
        )
    ids = None
    if id_column in names:
        ids = _ids(path, id_column, table[id_column])
    elif id_column and labelled:
        raise DataError(
            f"{path} has no column {id_column!r}, only {listed(names)}: set ID_COLUMN to the column"
            " that identifies rows, or omit it"
        )
    features = [name for name in names if name not in (label, id_column or None)]
    if columns is not None:
        features = [name for name in features if name in columns or name not in left_out]
        _check_columns(path, features, columns)
        features = columns
    if not features:
        raise DataError(f"{path} has only the label column {label!r}: it needs features as well")
    read = np.empty((table.num_rows, len(features)))
    for i, name in enumerate(features):
        read[:, i] = _numbers(path, name, table[name])
    if columns is None and labels is not None:
        notes += [f"{path}: {note}" for note in suspicious(features, read, labels)]
    return Table(read, labels, tuple(features), tuple(notes), ids)


def without_constants(path: str, table: Table) -> Table:
    """Return a table without the columns that have one value in several rows, up to rounding.

    Raises:
        DataError: No other column is left.
    """
    same = ~varies(table.features) & (len(table.features) > 1)
    if not same.any():
        return table
    left_out = tuple(name for name, is_same in zip(table.names, same, strict=True) if is_same)
    if same.all():
        raise DataError(
            f"{path} has one value in all rows of {listed(left_out)}, up to rounding, from which a"
            " model learns nothing: provide a feature that varies"
        )
    note = f"{path}: columns of one value, up to rounding, are left out: {listed(left_out)}"
    return table._replace(
        features=table.features[:, ~same],
        names=tuple(name for name, is_same in zip(table.names, same, strict=True) if not is_same),
        notes=(*table.notes, note),
        left_out=left_out,
    )


def label_text(value: object) -> str:
    """Return a label as text, which depends on nothing but the label.

    A text is itself: '01', 'TRUE', '1e5', '12:30' and 'NA'. Labels that look the same are one: a
    decimal number however it is written (3, 3.0, '3' and '3.00'), and texts that differ in
    blanks around them or in Unicode's form. Typed labels of Parquet and NPZ files get the text that
    Python prints, of a number with the digits that its type needs: 0.1, True, 2026-01-02. A missing
    label is ''.
    """
    if value is None:
        return ""
    if isinstance(value, (float, np.floating)) and value.is_integer():
        return str(int(value))
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    text = normal(text)
    if number := _DECIMAL.fullmatch(text):
        sign, whole, fraction = number[1], number[2], (number[3] or "").rstrip("0")
        text = f"{whole}.{fraction}" if fraction else whole
        return text if text == "0" else sign + text
    return text


def _check_columns(path: str, found: Sequence[str], wanted: Sequence[str]) -> None:
    present, needed = set(found), set(wanted)
    missing = [name for name in wanted if name not in present]
    unknown = [name for name in found if name not in needed]
    if missing:
        raise DataError(
            f"{path} lacks {listed(missing)} of the {len(wanted)} columns that the model was"
            f" trained on; it has {listed(found) or 'none'}"
        )
    if unknown:
        raise DataError(
            f"{path} has {listed(unknown)}, which the model was not trained on: keep only"
            f" {listed(wanted)}"
        )


def _labels(path: str, name: str, column: pa.ChunkedArray, memory: int) -> np.ndarray:
    known, codes = _texts(path, name, column, "labels", label_text)
    longest = max(map(len, known), default=0)
    if longest * 4 * len(column) > memory * MIB:
        raise DataError(
            f"{path} has a label of {longest:,} characters in column {name!r}: shorten the labels"
        )
    labels: np.ndarray = np.array([*known, ""], dtype=str)[codes]
    missing = np.isin(labels, [one for one in known if one.lower() == "nan"] + [""])
    if missing.any():
        raise DataError(
            f"{path}: row {1 + int(missing.argmax())} has no label in column {name!r}: give it"
            " one or delete the row"
        )
    return labels


def _ids(path: str, name: str, column: pa.ChunkedArray) -> np.ndarray:
    """Return the texts of a column of identifiers as they are written; '' for a missing one."""
    known, codes = _texts(path, name, column, "identifiers", _id_text)
    ids: np.ndarray = np.array([*known, ""], dtype=object)[codes]
    return ids


def _id_text(value: object) -> str:
    return value if isinstance(value, str) else label_text(value)


def _texts(
    path: str, name: str, column: pa.ChunkedArray, kind: str, as_text: Callable[[object], str]
) -> tuple[list[str], np.ndarray]:
    """Return the distinct texts of a column, and the index of each row; -1 where it is missing."""
    encoded = column.combine_chunks()
    if not isinstance(encoded, pa.DictionaryArray):
        try:
            encoded = encoded.dictionary_encode()
        except pa.ArrowNotImplementedError:
            raise DataError(
                f"{path} has {kind} of type {encoded.type} in column {name!r}: allowed are texts"
                " and numbers"
            ) from None
    known = [as_text(value) for value in _values(encoded.dictionary)]
    if (longest := max(map(len, known), default=0)) > MAX_LABEL:
        raise DataError(
            f"{path} has {kind} of up to {longest:,} characters in column {name!r}: at most"
            f" {MAX_LABEL:,} are allowed"
        )
    codes = pc.fill_null(encoded.indices.cast(pa.int64()), -1)
    return known, codes.to_numpy(zero_copy_only=False)


def _values(labels: pa.Array) -> Sequence[object]:
    """Return the values of labels; numbers keep their type, by which their digits are chosen."""
    if pa.types.is_floating(labels.type):
        return list(labels.to_numpy(zero_copy_only=False))
    if pa.types.is_timestamp(labels.type):  # Python has no nanoseconds
        labels = labels.cast(pa.timestamp("us", labels.type.tz), safe=False)
    return labels.to_pylist()


def _targets(path: str, name: str, column: pa.ChunkedArray, memory: int) -> np.ndarray:
    """Return float64 [n] for a column of numbers to predict."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.string())
    return _numbers(path, name, column, "TASK=regression predicts numbers, so convert them")


def _numbers(
    path: str,
    name: str,
    column: pa.ChunkedArray,
    advice: str = "features must be numbers, so convert it, delete the column, or name it in"
    " ID_COLUMN if it identifies rows",
) -> np.ndarray:
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
        if _COMMA.fullmatch(value):
            advice = "write it with a decimal point, and without separators of thousands"
        raise DataError(
            f"{path}: row {number} of column {name!r} holds {value}, which is not a number:"
            f" {advice}"
        )
    if column.null_count:
        number = 1 + int(column.is_null().to_numpy().argmax())
        raise DataError(
            f"{path}: row {number} of column {name!r} is empty or NaN: fill it, or delete the row"
        )
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    numbers = column.cast(pa.float64(), safe=False).to_numpy()
    refused = ~(np.abs(numbers) <= MAX_ABSOLUTE_VALUE)
    if refused.any():
        row = int(refused.argmax())
        raise DataError(
            f"{path}: row {row + 1} of column {name!r} holds {numbers[row]}: allowed are numbers"
            f" from -{MAX_ABSOLUTE_VALUE:g} to {MAX_ABSOLUTE_VALUE:g}"
        )
    return numbers


def _not_a_number(column: pa.ChunkedArray) -> tuple[int, str]:
    """Return the first row, from 1, whose value is not a number (default 1), and the value."""
    for row, value in enumerate(column.to_pylist(), start=1):
        if value is not None and not _is_number(value):
            text = repr(value) if isinstance(value, str) else str(value)
            return row, text if len(text) <= 40 else text[:40] + "..."
    return 1, f"the text {str(column[0])[:40]!r}"


def _is_number(value: object) -> bool:
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    text = str(value)
    return text.isascii() and "_" not in text  # Python reads other digits, and _ between digits
