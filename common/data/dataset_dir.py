"""A data set as a folder: shards of rows, and the manifest that says what they are.

    NAME-FINGERPRINT/
      train-00000-of-00001.parquet       and so on for each split
      manifest.json                      written last: without it there is no data set

Parquet, because everything reads it (pandas, DuckDB, Spark, Arrow), its columns are typed, and a
shard can be read from storage by itself. A column for each angle, one for the label. A small split
is one shard. A large one is cut by groups of lanes and segments of turns (see order.py): shard
g*S + s of G*S holds group g's rows of segment s, lane after lane. So a worker needs only the shards
of its own groups, and of each group only one at a time.
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
from common.data.sampling import SINGLE_SHARD, ShardLayout
from common.data.splits import Examples
from common.errors import DataError
from common.storage import StoragePath

FORMAT = 2
MANIFEST = "manifest.json"
# About 2 MB of 8 angles; a split with more rows than this is cut.
SHARD_ROWS = 65_536
# A group's shards, at least: one of each group is in memory at a time, so about a twentieth of the
# data is enough to read it.
SEGMENTS = 32
GROUPS = (4, 64)
# Bytes of a shard's rows for each group there is: what is in use at a time grows up to 512 MiB.
SHARE_BYTES = 2**17

REGENERATE_HINT = (
    "delete the folder, and what made it (`make dataset` or a training) makes it again"
)


@dataclass(frozen=True)
class Manifest:
    """What a data set is; plain data throughout.

    Attributes:
        format: Version of the folder's layout.
        name: The folder's name.
        recipe: All that determined the data set, by which it is found again.
        seed: The seed that it was made with.
        lanes: Lanes that rows are dealt to: the most workers there can be.
        columns: Names of the angles' columns in the shards, in order; float32, radians.
        encoding: How features became angles: `Encoding.to_json`.
        splits: For each split its rows, its labels' counts, groups, segments, and its shards in
            order: file, rows, bytes, sha256.
        fingerprint: sha256 (hex) over all of the above as canonical JSON.
    """

    format: int
    name: str
    recipe: dict[str, Any]
    seed: int
    lanes: int
    columns: list[str]
    encoding: dict[str, Any]
    splits: dict[str, dict[str, Any]]
    fingerprint: str


@dataclass(frozen=True)
class Shard:
    """One file of a split.

    Attributes:
        split: The split's name.
        number: Its place among the split's shards.
        file: Its name in the folder.
        rows: Examples in it.
        bytes: The file's size.
        sha256: The file's, hex.
    """

    split: str
    number: int
    file: str
    rows: int
    bytes: int
    sha256: str

    @classmethod
    def of(cls, split: str, number: int, said: Mapping[str, Any]) -> Self:
        """A shard as the manifest says it."""
        return cls(split, number, said["file"], said["rows"], said["bytes"], said["sha256"])


def fingerprint(content: Mapping[str, Any]) -> str:
    """sha256 (hex) of plain data as canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def layout_for(rows: int, columns: int, lanes: int) -> ShardLayout:
    """How a split of so many rows is cut.

    The more groups, the better the shuffle and the more workers that share no shard; the fewer
    segments, the larger the shards; and one shard of each group must fit into memory.
    """
    if rows <= SHARD_ROWS:
        return SINGLE_SHARD
    size = row_bytes(columns) * rows
    groups, most = GROUPS
    while groups < most and size / (SEGMENTS * groups) > SHARE_BYTES * groups:
        groups *= 2
    segments = max(SEGMENTS, math.ceil(size / (groups * SHARE_BYTES * groups)))
    turns = rows // lanes
    # Two turns or more in each, so that none is empty.
    return ShardLayout(min(groups, lanes), max(1, min(segments, turns // 2)))


def row_bytes(columns: int) -> int:
    """Bytes of a row in memory: so many angles and the label, float32."""
    return 4 * (columns + 1)


def encode(examples: Examples, columns: Sequence[str]) -> bytes:
    """A shard's content."""
    names = [*columns, "label"]
    schema = pa.schema([pa.field(name, pa.float32(), nullable=False) for name in names])
    table = pa.table([*examples.angles.T, examples.labels], schema=schema)
    sink = io.BytesIO()
    # Angles hardly repeat, so they hardly compress: to unpack them would take longer than to fetch
    # them. A shard is read whole, so that statistics would only be parsed.
    pa.parquet.write_table(
        table,
        sink,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
    )
    return sink.getvalue()


def columns_of(content: bytes) -> list[np.ndarray]:
    """float32 [rows] each: the angles' columns in order, and the label's, of a checked shard."""
    file = pa.parquet.ParquetFile(pa.BufferReader(content), pre_buffer=False)
    return [column.to_numpy() for column in file.read(use_threads=False).columns]


def decode(content: bytes) -> Examples:
    """The rows of a shard whose content was checked."""
    *angles, labels = columns_of(content)
    return Examples(np.stack(angles, axis=1), labels)


def file_name(split: str, number: int, count: int) -> str:
    """What a shard's file is called."""
    return f"{split}-{number:05d}-of-{count:05d}.parquet"


def fetch(folder: StoragePath, shard: Shard, known: dict[str, int]) -> bytes:
    """A shard's content, checked.

    Args:
        folder: The data set's folder.
        shard: Which one.
        known: By file, the CRC32C of what had the right SHA-256 once; added to here. It takes a
            twentieth of the time, and a shard is read again in every epoch.

    Raises:
        DataError: It is missing, cut short or altered.
    """
    path = folder / shard.file
    try:
        content = storage.read_bytes(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing from its data set: {REGENERATE_HINT}") from None
    _check_size(path, len(content), shard)
    sum_read = google_crc32c.value(content)
    if known.get(shard.file) != sum_read:
        if hashlib.sha256(content).hexdigest() != shard.sha256:
            raise DataError(
                f"{path} was altered since it was written (sha256 differs): {REGENERATE_HINT}"
            )
        known[shard.file] = sum_read
    return content


def check_sizes(folder: StoragePath, shards: Sequence[Shard]) -> None:
    """See that every shard is there and as long as it was written, by a look at the folder.

    Raises:
        DataError: One is missing or cut short.
    """
    sizes = storage.sizes(folder)
    for shard in shards:
        path = folder / shard.file
        if shard.file not in sizes:
            raise DataError(f"{path} is missing from its data set: {REGENERATE_HINT}")
        _check_size(path, sizes[shard.file], shard)


def _check_size(path: StoragePath, size: int, shard: Shard) -> None:
    if size != shard.bytes:
        raise DataError(
            f"{path} has {size} bytes where {shard.bytes} were written: {REGENERATE_HINT}"
        )


def write_manifest(folder: StoragePath, **said: Any) -> Manifest:
    """Write the manifest; from here on the folder is a data set.

    Args:
        folder: The data set's folder.
        said: The manifest's attributes but for `format` and `fingerprint`, which are added.
    """
    unsigned = {"format": FORMAT, **said}
    manifest = Manifest(**unsigned, fingerprint=fingerprint(unsigned))
    storage.write_json(folder / MANIFEST, asdict(manifest))
    return manifest


def read_manifest(folder: StoragePath) -> Manifest:
    """A data set's manifest.

    Raises:
        DataError: It is missing, altered, cut short, or of another version.
    """
    path = folder / MANIFEST
    try:
        read = storage.read_json(path)
    except FileNotFoundError:
        raise DataError(
            f"{path} does not exist, so there is no whole data set in its folder: train anew"
        ) from None
    except ValueError:
        raise DataError(
            f"{path} is not JSON: it was cut short or altered; {REGENERATE_HINT}"
        ) from None
    version = read.get("format") if isinstance(read, dict) else None
    if version != FORMAT:
        raise DataError(
            f"{path} is of format {version!r}, and this qfleet reads format {FORMAT}: make the"
            " data set anew with `make dataset`"
        )
    signature = read.pop("fingerprint", None)
    if signature != fingerprint(read):
        raise DataError(f"{path} was altered since it was written: {REGENERATE_HINT}")
    return Manifest(**read, fingerprint=signature)
