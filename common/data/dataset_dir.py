"""Folder of a data set: shards of rows, and the manifest that describes them.

    NAME-FINGERPRINT/
      train-00000-of-00001.parquet       and so on for each split
      manifest.json                      written last: without it the folder is not a data set

Shards are Parquet files, which pandas, DuckDB, Spark and Arrow read; columns are typed, and each
shard is readable alone. There is one column per angle, and one for the label. Examples of a table
also have columns of their origin: `row`, and `id` with ID_COLUMN (see origin.py). A small split is
one shard. A large one has groups of partitions and segments of offsets (see shuffling.py). Shard
g*S+s of G*S contains the rows of group g in segment s, partition after partition. So a worker needs
only the shards of its own groups, and one of each group at a time.
"""

import hashlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from common import storage
from common.commands import command
from common.data import manifest_check
from common.data.manifest_check import ShardEntry, SplitEntry
from common.data.origin import ID, ROW, Origin
from common.data.shuffling import SINGLE_SHARD, ShardLayout
from common.data.splits import Examples
from common.data.tables import MAX_LABEL
from common.errors import DataError
from common.storage import StoragePath

FORMAT = 5
"""Version of the layout of data sets, recorded in manifest.json."""

MANIFEST = "manifest.json"

LABEL = "label"
"""Column of the label in shards."""

_ORIGIN_TYPES = {ROW: "INT64", ID: "BYTE_ARRAY"}

SHARD_ROWS = 65_536
"""Most rows of a split in a single shard; with 8 angles, about 2 MB."""

MIN_SEGMENTS = 32
"""Least segments of a large split. One shard of each group is in memory at a time, so about a
twentieth of the data suffices to read it."""

MIN_GROUPS, MAX_GROUPS = 4, 64

SHARD_BYTES_PER_GROUP = 2**17
"""Size of a shard, per group: shards in use at a time take up to 512 MiB."""

REGENERATE_HINT = (
    f"delete the folder, and run `{command('data')}` or the training again to regenerate it"
)


@dataclass(frozen=True)
class Manifest:
    """Description of a data set, in plain data.

    Attributes:
        format: Version of the layout.
        name: Name of the folder.
        recipe: All settings that determine the data set, by which it is found again.
        seed: Seed of the splits.
        partitions: Number of partitions, the maximum of workers.
        columns: Names of the columns of angles in the shards, in order; float32, radians.
        origin: Names of the columns of the origin, see `Origin.columns`; empty for generated rows.
        encoding: Conversion of features to angles: `Encoding.to_json`.
        splits: For each split: rows, count of each label, groups, segments, and its shards in
            order (file, rows, bytes, sha256).
        fingerprint: SHA-256 (hex) over all of the above as canonical JSON.
    """

    format: int
    name: str
    recipe: dict[str, object]
    seed: int
    partitions: int
    columns: list[str]
    origin: list[str]
    encoding: dict[str, Any]
    splits: dict[str, SplitEntry]
    fingerprint: str

    @property
    def types(self) -> dict[str, str]:
        """Names of all columns of a shard in order, and their types in Parquet."""
        floats = dict.fromkeys([*self.columns, LABEL], "FLOAT")
        return floats | {name: _ORIGIN_TYPES[name] for name in self.origin}


@dataclass(frozen=True)
class Shard:
    """One file of a split.

    Attributes:
        split: Name of the split.
        number: Index among the shards of the split.
        file: Name of the file.
        rows: Number of examples.
        bytes: Size of the file.
        sha256: SHA-256 of the file, hex.
    """

    split: str
    number: int
    file: str
    rows: int
    bytes: int
    sha256: str

    @classmethod
    def of(cls, split: str, number: int, entry: ShardEntry) -> Self:
        """Return a shard for its entry in the manifest."""
        return cls(split, number, entry["file"], entry["rows"], entry["bytes"], entry["sha256"])


def fingerprint(content: Mapping[str, object]) -> str:
    """Return the SHA-256 (hex) of plain data as canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def layout_for(rows: int, columns: int, partitions: int) -> ShardLayout:
    """Return the layout of the shards of a split.

    More groups improve the shuffle, and more workers share no shard. Fewer segments make larger
    shards. One shard of each group must fit into memory.
    """
    if rows <= SHARD_ROWS:
        return SINGLE_SHARD
    size = row_bytes(columns) * rows
    groups = MIN_GROUPS
    while groups < MAX_GROUPS and size / (MIN_SEGMENTS * groups) > SHARD_BYTES_PER_GROUP * groups:
        groups *= 2
    segments = max(MIN_SEGMENTS, math.ceil(size / (groups * SHARD_BYTES_PER_GROUP * groups)))
    # Two offsets or more per segment, so that none is empty.
    most_segments = rows // partitions // 2
    return ShardLayout(min(groups, partitions), max(1, min(segments, most_segments)))


def row_bytes(columns: int) -> int:
    """Return the bytes of a row in memory: angles and label, float32."""
    return 4 * (columns + 1)


def encode(examples: Examples, columns: Sequence[str], origin: Origin | None = None) -> bytes:
    """Return the content of a shard."""
    arrays = [_float32(values) for values in (*examples.angles.T, examples.labels)]
    names = [*columns, LABEL]
    if origin is not None:
        arrays.append(pa.array(origin.rows, pa.int64()))
        if origin.ids is not None:
            arrays.append(pa.array(origin.ids.tolist(), pa.string()))
        names += origin.columns
    fields = zip(names, arrays, strict=True)
    schema = pa.schema([pa.field(name, array.type, nullable=False) for name, array in fields])
    table = pa.table(arrays, schema=schema)
    sink = io.BytesIO()
    # Angles hardly compress: unpacking would take longer than fetching them. A shard is read
    # completely, so statistics would only cost time.
    pa.parquet.write_table(
        table,
        sink,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
    )
    return sink.getvalue()


def _float32(values: np.ndarray) -> pa.Array:
    """Return a column. `pa.array` would import pandas, if that is installed: half a second."""
    buffer = pa.py_buffer(np.ascontiguousarray(values, np.float32))
    return pa.Array.from_buffers(pa.float32(), len(values), [None, buffer])


def _to_numpy(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column, empty fields as NaN; its own `to_numpy` would import pandas."""
    column = column.cast(pa.float32())
    if column.null_count:
        column = column.fill_null(float("nan"))
    array = column.combine_chunks()
    return np.frombuffer(array.buffers()[1], np.float32, len(array), 4 * array.offset)


def columns_of(content: bytes) -> list[np.ndarray]:
    """Return the columns of a verified shard, float32 [rows] each: angles in order, then label."""
    file = pa.parquet.ParquetFile(pa.BufferReader(content), pre_buffer=False)
    fields = list(file.schema_arrow)
    floats = [field.name for field in fields if pa.types.is_floating(field.type)]
    # A selection of all columns would only cost time.
    read = file.read(None if len(floats) == len(fields) else floats, use_threads=False)
    return [_to_numpy(column) for column in read.columns]


def decode(content: bytes) -> Examples:
    """Return the rows of a verified shard."""
    *angles, labels = columns_of(content)
    return Examples(np.stack(angles, axis=1), labels)


def decode_origin(content: bytes, columns: Sequence[str]) -> Origin:
    """Return the origin of the rows of a verified shard.

    Args:
        content: Content of the shard.
        columns: `Manifest.origin`.

    Raises:
        ValueError: An identifier is not text, or too long.
    """
    # A long text may repeat in every row.
    file = pa.parquet.ParquetFile(
        pa.BufferReader(content), pre_buffer=False, read_dictionary=[ID] if ID in columns else []
    )
    rows, *others = file.read(list(columns), use_threads=False).columns
    rows = rows.combine_chunks().fill_null(0).to_numpy(zero_copy_only=False)
    if not others:
        return Origin(rows)
    encoded = others[0].combine_chunks()
    known = [text or "" for text in encoded.dictionary.to_pylist()]
    if max(map(len, known), default=0) > MAX_LABEL:
        raise ValueError(f"an identifier has more than {MAX_LABEL} characters")
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return Origin(rows, np.array([*known, ""], dtype=object)[codes])


def fetch(
    folder: StoragePath, shard: Shard, types: Mapping[str, str], known: dict[str, int]
) -> bytes:
    """Return the content of a shard, verified.

    Args:
        folder: Folder of the data set.
        shard: The shard.
        types: `Manifest.types`.
        known: CRC32C by file of content whose SHA-256 was right; updated here. It takes a
            twentieth of the time, and shards are read again in every epoch.

    Raises:
        DataError: The shard is missing, incomplete or altered.
    """
    path = folder / shard.file
    try:
        content = storage.read_bytes(path, shard.bytes)
    except FileNotFoundError:
        raise DataError(f"{path} is missing from its data set: {REGENERATE_HINT}") from None
    except storage.FileTooLarge:
        raise DataError(f"{path} has more than {shard.bytes} bytes: {REGENERATE_HINT}") from None
    _check_size(path, len(content), shard)
    checksum = google_crc32c.value(content)
    if known.get(shard.file) != checksum:
        if hashlib.sha256(content).hexdigest() != shard.sha256:
            raise DataError(
                f"{path} was altered since it was written (sha256 differs): {REGENERATE_HINT}"
            )
        if not _has_shape(content, shard.rows, types):
            raise DataError(f"{path} is not a shard of {shard.rows} rows: {REGENERATE_HINT}")
        known[shard.file] = checksum
    return content


def _has_shape(content: bytes, rows: int, types: Mapping[str, str]) -> bool:
    """Return True if a shard declares its rows and columns, and holds the floats uncompressed.

    Compressed content of another user could fill any memory.
    """
    try:
        found = pa.parquet.ParquetFile(pa.BufferReader(content), pre_buffer=False).metadata
    except (pa.ArrowException, OSError, ValueError):
        return False
    columns = [found.schema.column(i) for i in range(found.num_columns)]
    floats = sum(one == "FLOAT" for one in types.values())
    return (
        found.num_rows == rows
        and [(one.path, one.physical_type) for one in columns] == list(types.items())
        and len(content) >= rows * row_bytes(floats - 1)
    )


def check_sizes(folder: StoragePath, shards: Sequence[Shard]) -> None:
    """Check that every shard exists with its recorded size, in one request.

    Raises:
        DataError: A shard is missing or incomplete.
    """
    sizes = storage.sizes(folder)
    for shard in shards:
        path = folder / shard.file
        if shard.file not in sizes:
            raise DataError(f"{path} is missing from its data set: {REGENERATE_HINT}")
        _check_size(path, sizes[shard.file], shard)


def _check_size(path: StoragePath, size: int, shard: Shard) -> None:
    if size != shard.bytes:
        raise DataError(f"{path} has {size} bytes instead of {shard.bytes}: {REGENERATE_HINT}")


def write_manifest(folder: StoragePath, **content: Any) -> Manifest:
    """Write the manifest; the folder is a data set from then on.

    Args:
        folder: Folder of the data set.
        content: Attributes of `Manifest`, except `format` and `fingerprint`.
    """
    unsigned = {"format": FORMAT, **content}
    manifest = Manifest(**unsigned, fingerprint=fingerprint(unsigned))
    storage.write_json(folder / MANIFEST, asdict(manifest))
    return manifest


def read_manifest(folder: StoragePath) -> Manifest:
    """Return the manifest of a data set.

    Raises:
        DataError: The manifest is missing, altered, incomplete, or of another version.
    """
    path = folder / MANIFEST
    try:
        read = storage.read_json(path)
    except FileNotFoundError:
        raise DataError(
            f"{path} does not exist, so its folder has no complete data set: run `make"
            " dataset` or the training again"
        ) from None
    except ValueError as error:
        raise DataError(
            f"{path} is incomplete or was altered: {error}; {REGENERATE_HINT}"
        ) from None
    version = read.get("format") if isinstance(read, dict) else None
    if version != FORMAT:
        raise DataError(
            f"{path} has format {str(version)[:20]} and this version of qfleet reads format"
            f" {FORMAT}: regenerate the data set with `{command('data')}`"
        )
    signature = read.pop("fingerprint", None)
    if signature != fingerprint(read):
        raise DataError(f"{path} was altered since it was written: {REGENERATE_HINT}")
    try:
        manifest_check.check(read)
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}; {REGENERATE_HINT}") from None
    return Manifest(**read, fingerprint=signature)
