"""Folder of a data set: shards of rows, and the manifest that describes them.

    NAME-FINGERPRINT/
      train-00000-of-00001.parquet       and so on for each split
      manifest.json                      written last: without it the folder is not a data set

Shards are Parquet files, which pandas, DuckDB, Spark and Arrow read; columns are typed, and each
shard is readable alone. There is one column per angle, and one for the label. A small split is one
shard. A large one has groups of partitions and segments of offsets (see shuffling.py). Shard g*S+s
of G*S contains the rows of group g in segment s, partition after partition. So a worker needs only
the shards of its own groups, and one of each group at a time.
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
from common.data import manifest_check
from common.data.shuffling import SINGLE_SHARD, ShardLayout
from common.data.splits import Examples
from common.errors import DataError
from common.storage import StoragePath

FORMAT = 4
"""Version of the layout of data sets, recorded in manifest.json."""

MANIFEST = "manifest.json"

SHARD_ROWS = 65_536
"""Most rows of a split in a single shard; with 8 angles, about 2 MB."""

MIN_SEGMENTS = 32
"""Least segments of a large split. One shard of each group is in memory at a time, so about a
twentieth of the data suffices to read it."""

MIN_GROUPS, MAX_GROUPS = 4, 64

SHARD_BYTES_PER_GROUP = 2**17
"""Size of a shard, per group: shards in use at a time take up to 512 MiB."""

REGENERATE_HINT = "delete the folder, and run `make dataset` or the training again to regenerate it"


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
        encoding: Conversion of features to angles: `Encoding.to_json`.
        splits: For each split: rows, count of each label, groups, segments, and its shards in
            order (file, rows, bytes, sha256).
        fingerprint: SHA-256 (hex) over all of the above as canonical JSON.
    """

    format: int
    name: str
    recipe: dict[str, Any]
    seed: int
    partitions: int
    columns: list[str]
    encoding: dict[str, Any]
    splits: dict[str, dict[str, Any]]
    fingerprint: str


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
    def of(cls, split: str, number: int, entry: Mapping[str, Any]) -> Self:
        """Return a shard for its entry in the manifest."""
        return cls(split, number, entry["file"], entry["rows"], entry["bytes"], entry["sha256"])


def fingerprint(content: Mapping[str, Any]) -> str:
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


def encode(examples: Examples, columns: Sequence[str]) -> bytes:
    """Return the content of a shard."""
    names = [*columns, "label"]
    schema = pa.schema([pa.field(name, pa.float32(), nullable=False) for name in names])
    table = pa.table([_float32(v) for v in (*examples.angles.T, examples.labels)], schema=schema)
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
    return [_to_numpy(column) for column in file.read(use_threads=False).columns]


def decode(content: bytes) -> Examples:
    """Return the rows of a verified shard."""
    *angles, labels = columns_of(content)
    return Examples(np.stack(angles, axis=1), labels)


def fetch(folder: StoragePath, shard: Shard, columns: int, known: dict[str, int]) -> bytes:
    """Return the content of a shard, verified.

    Args:
        folder: Folder of the data set.
        shard: The shard.
        columns: Number of columns of angles.
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
        if not _has_shape(content, shard.rows, columns):
            raise DataError(f"{path} is not a shard of {shard.rows} rows: {REGENERATE_HINT}")
        known[shard.file] = checksum
    return content


def _has_shape(content: bytes, rows: int, columns: int) -> bool:
    """Return True if a shard declares its rows of float32, which it holds uncompressed.

    Compressed content of another user could fill any memory.
    """
    try:
        found = pa.parquet.ParquetFile(pa.BufferReader(content), pre_buffer=False).metadata
    except (pa.ArrowException, OSError, ValueError):
        return False
    kinds = {found.schema.column(i).physical_type for i in range(found.num_columns)}
    shape = (found.num_rows, found.num_columns)
    return (
        shape == (rows, columns + 1)
        and kinds == {"FLOAT"}
        and len(content) >= rows * row_bytes(columns)
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
            f" {FORMAT}: regenerate the data set with `make dataset`"
        )
    signature = read.pop("fingerprint", None)
    if signature != fingerprint(read):
        raise DataError(f"{path} was altered since it was written: {REGENERATE_HINT}")
    try:
        manifest_check.check(read)
    except ValueError as error:
        raise DataError(f"{path} is damaged: {error}; {REGENERATE_HINT}") from None
    return Manifest(**read, fingerprint=signature)
