"""CSV (also gzipped), Parquet and NPZ files, read as Arrow tables."""

import contextlib
import csv
import gzip
import hashlib
import io
import itertools
import os
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from common import storage
from common.data import table_limits
from common.data.column_notes import listed
from common.errors import DataError, one_line
from common.text import plural


@contextlib.contextmanager
def naming(setting: str, value: str) -> Iterator[None]:
    """Put the name of a setting before its value, with which a message begins.

    Args:
        setting: Such as DATA.
        value: Such as table.csv.

    Raises:
        DataError: What is raised inside, with the name.
    """
    try:
        yield
    except DataError as error:
        if not value or not str(error).startswith(value):
            raise
        raise DataError(f"{setting}={error}") from None


def read_bytes(path: str, memory: int, kind: str = "") -> bytes:
    """Return the content of a file.

    Args:
        path: A path or gs:// address.
        memory: DATA_MEMORY, in MiB: larger files are refused.
        kind: What the file contains, for messages; by default a table.

    Raises:
        DataError: The file is missing, a folder, too large, or unreadable.
    """
    location = storage.path(path)
    if storage.is_local(location) and os.path.isdir(location):
        raise DataError(f"{path} is a folder: give the path of one table in it")
    try:
        return storage.read_bytes(location, memory * table_limits.MIB)
    except FileNotFoundError:
        kind = kind or f"a table ({', '.join(FORMATS)})"
        raise DataError(f"{path} does not exist: give the path of {kind}") from None
    except storage.FileTooLarge:
        raise DataError(
            f"{path} has more than DATA_MEMORY={memory} MiB: raise DATA_MEMORY, or provide fewer"
            " rows"
        ) from None


def sha256_file(path: str, memory: int) -> str:
    """Return the SHA-256 (hex) of a file; arguments and errors as `read_bytes`."""
    return hashlib.sha256(read_bytes(path, memory)).hexdigest()


def normal(text: str) -> str:
    """Return the name of a column or a label without blanks around it, in Unicode's form NFC."""
    return unicodedata.normalize("NFC", text.strip())


def stem(path: str) -> str:
    """Return the name of a table's file without its ending, .csv.gz included."""
    return Path(Path(path).name.removesuffix(".gz")).stem


def read_file(path: str, memory: int, texts: Collection[str] = ()) -> pa.Table:
    """Return the columns of a file, of any type.

    Args:
        path: A path or gs:// address that ends in one of FORMATS.
        memory: DATA_MEMORY, in MiB.
        texts: Names of columns whose cells are texts, which may repeat: in a CSV file, they are
            returned as written. Types of other columns follow from all their cells.

    Raises:
        DataError: The file can't be read, needs more memory, or its suffix is not one of FORMATS.
    """
    ending = next((e for e in FORMATS if path.lower().endswith(e)), None)
    if ending is None:
        raise DataError(f"{path} is not a table: its name must end in {', '.join(FORMATS)}")
    content = read_bytes(path, memory)
    if not content:
        raise DataError(f"{path} is empty: give a table with a header and rows")
    name, read = FORMATS[ending]
    try:
        return read(content, memory, texts)
    except (_Unsupported, table_limits.TooLargeError) as error:
        raise DataError(f"{path} {error}") from None
    except MemoryError:
        raise DataError(
            f"{path} unpacks to more than DATA_MEMORY={memory} MiB: raise DATA_MEMORY, or provide"
            " fewer rows"
        ) from None
    except (pa.ArrowException, OSError, EOFError, zlib.error, ValueError) as error:
        raise DataError(
            f"{path} can't be read as {name} ({one_line(error)[:160]}): it is incomplete, damaged,"
            f" or not {name}"
        ) from None


SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""Separators of columns in a CSV file, and their names."""

BLOCK_BYTES = 2**18
"""Bytes of a CSV file that are parsed at a time, per column."""

MAX_BLOCK_BYTES = 2**30


NO_ROWS = "has no rows: a table needs at least one below its header"

_SEPARATOR_LINE = re.compile(rb"(?:\xef\xbb\xbf)?sep=.\r?\n", re.IGNORECASE)
"""Names the separator to Excel, before the header."""

_OTHER_FORMATS = {
    b"PK\x03\x04": "a workbook of Excel or a ZIP archive: save the table in it as CSV",
    b"\xd0\xcf\x11\xe0": "a workbook of Excel: save the table in it as CSV",
    b"\x1f\x8b": "compressed by gzip: name it .csv.gz",
    b"PAR1": "a Parquet file: name it .parquet",
}
"""The first bytes of files of other formats, and what to do with each."""


class _Unsupported(Exception):
    """A readable file has unsupported content. The message continues after the name of the file."""


def _csv(content: bytes, memory: int, texts: Collection[str]) -> pa.Table:
    for start, kind in _OTHER_FORMATS.items():
        if content.startswith(start):
            raise _Unsupported(f"is {kind}")
    if separator_line := _SEPARATOR_LINE.match(content):
        content = content[separator_line.end() :]
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise _Unsupported(
            f"is not text in UTF-8 (at byte {error.start + 1}): save it as CSV in UTF-8"
        ) from None
    separator, header = _header(content)
    columns = max(1, len(header))
    lines = max(content.count(b"\n"), content.count(b"\r"))
    # Each cell but the last of a row has a separator.
    cells = content.count(separator.encode()) + lines
    table_limits.check(cells // columns, columns, memory)
    uneven: list[pa.csv.InvalidRow] = []

    def stop(row: pa.csv.InvalidRow) -> str:
        uneven.append(row)
        return "error"

    try:
        return pa.csv.read_csv(
            io.BytesIO(content),
            # Threads do not know the number of their row. Each block costs 10 KB for each column.
            read_options=pa.csv.ReadOptions(
                use_threads=False, block_size=min(2**20 + BLOCK_BYTES * columns, MAX_BLOCK_BYTES)
            ),
            parse_options=pa.csv.ParseOptions(
                delimiter=separator, newlines_in_values=True, invalid_row_handler=stop
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types={name: pa.string() for name in header if normal(name) in texts}
            ),
        )
    except pa.ArrowInvalid:
        if not uneven:
            if not _first_rows(content, separator)[1]:
                raise _Unsupported(NO_ROWS) from None
            raise
        row = uneven[0]
        # Arrow counts the header as row 1.
        raise _Unsupported(
            f"has {plural(row.actual_columns, 'field')} in row {row.number - 1} under the header"
            f" {listed(header)} of {row.expected_columns}, separated by {SEPARATORS[separator]}:"
            " the first line must be the header, every row needs a field for each column, and"
            " numbers a decimal point"
        ) from None


def _header(content: bytes) -> tuple[str, list[str]]:
    """Return the separator of a CSV file in UTF-8, and the names of its columns.

    The separator is the one by which the header has several fields; of several such, the one by
    which the first row has as many.
    """
    rows: dict[str, list[list[str]]] = {}
    for separator in SEPARATORS:
        with contextlib.suppress(csv.Error):  # a field is too long: so this does not separate
            rows[separator] = _first_rows(content, separator)
    if not rows:
        raise _Unsupported(
            "has a field that is too long in its first lines: look for a stray quote"
        )
    found = [one for one, (header, _) in rows.items() if len(header) > 1]
    if len(found) > 1:
        found = [one for one in found if len(rows[one][0]) == len(rows[one][1])] or found
    if len(found) > 1:
        raise _Unsupported(
            f"has {' and '.join(SEPARATORS[one] for one in found)} in its header: separate columns"
            " by one of them, and enclose names with another in double quotes"
        )
    separator = found[0] if found else next(iter(rows))
    if not rows[separator][0]:
        raise _Unsupported("has no text: give a table with a header and rows")
    return separator, rows[separator][0]


def _first_rows(content: bytes, separator: str) -> list[list[str]]:
    """Return the header of a CSV file and its first row; an empty list is one that is missing."""
    lines = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
    rows = filter(None, csv.reader(lines, delimiter=separator))
    return list(itertools.islice(itertools.chain(rows, ([], [])), 2))


def _gzipped_csv(content: bytes, memory: int, texts: Collection[str]) -> pa.Table:
    parts, size = [], 0
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        while part := file.read(table_limits.MIB):
            size += len(part)
            if size > memory * table_limits.MIB:
                raise MemoryError  # `read_file` has the message
            parts.append(part)
    if not parts:
        raise _Unsupported("unpacks to nothing: give a table with a header and rows")
    return _csv(b"".join(parts), memory, texts)


def _parquet(content: bytes, memory: int, texts: Collection[str]) -> pa.Table:
    found = pa.parquet.read_metadata(io.BytesIO(content))
    # Numbers may be packed: what counts is the number of rows. Texts are not packed any more.
    size = sum(found.row_group(i).total_byte_size for i in range(found.num_row_groups))
    table_limits.check(found.num_rows, found.num_columns, memory, other_bytes=max(0, size))
    names = [found.schema.column(i).path for i in range(found.num_columns)]
    # read_table refuses two columns of one name with an unclear error.
    file = pa.parquet.ParquetFile(
        io.BytesIO(content),
        metadata=found,
        page_checksum_verification=True,
        # A long text may repeat in every row.
        read_dictionary=[name for name in names if normal(name) in texts],
    )
    with table_limits.limited(memory):
        return file.read()


def _npz(content: bytes, memory: int, texts: Collection[str]) -> pa.Table:
    del texts
    # Otherwise NumPy reports unknown content as a pickle.
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise _Unsupported("is not an NPZ file, or is incomplete: write it with numpy.savez")
    columns: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    table_limits.check(-(-unpacked // 8), 1, memory)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        for name in arrays.files:
            columns.update(_columns(name, _array(arrays, name)))
            table_limits.check(0, len(columns), memory)
    if not columns:
        raise _Unsupported("has no array: it needs one for labels and one or more for features")
    first, rows = next((name, len(column)) for name, column in columns.items())
    for name, column in columns.items():
        if len(column) != rows:
            raise _Unsupported(
                f"has {rows} rows in array {first!r} and {len(column)} in {name!r}: all arrays must"
                " have one row per example"
            )
    table_limits.check(rows, len(columns), memory)
    return pa.table({name: pa.array(column) for name, column in columns.items()})


def _array(arrays: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    try:
        array = arrays[name]
    except (zipfile.BadZipFile, zlib.error, EOFError, MemoryError, NotImplementedError) as error:
        raise _Unsupported(f"has a damaged array {name!r} ({one_line(error)[:120]})") from None
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise _Unsupported(
            f"has Python objects in array {name!r}, which are not read since they can run code:"
            " save it as numbers or texts"
        ) from None
    if not isinstance(array, np.ndarray):
        raise _Unsupported(f"contains {name!r}, which is not an array: write it with numpy.savez")
    return array


def _columns(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    if array.dtype.kind not in "biufUS":
        raise _Unsupported(
            f"has an array {name!r} of type {array.dtype}: allowed are real numbers and texts"
        )
    if array.dtype.kind == "f" and array.dtype.itemsize != 4:
        array = array.astype(np.float64)
    if array.dtype.kind in "iuf" and not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))  # Arrow has no others
    if array.ndim == 1:
        return {name: array}
    if array.ndim == 2:
        table_limits.check(0, array.shape[1], memory=1)
        return {f"{name}_{i}": array[:, i] for i in range(array.shape[1])}
    raise _Unsupported(
        f"has an array {name!r} of shape {array.shape}: allowed are [rows] and [rows, columns]"
    )


FORMATS: Mapping[str, tuple[str, Callable[[bytes, int, Collection[str]], pa.Table]]] = {
    ".csv": ("CSV", _csv),
    ".parquet": ("Parquet", _parquet),
    ".npz": ("NPZ", _npz),
    ".csv.gz": ("gzipped CSV", _gzipped_csv),
}
