"""A data set as a folder: shards of rows, and the manifest that says what they are.

    NAME-FINGERPRINT/
      train-00000-of-00001.parquet       and so on for each split
      manifest.json                      written last: without it there is no data set

Parquet, because everything reads it (pandas, DuckDB, Spark, Arrow), its columns are typed and
compressed, and a shard can be read from storage by itself. A column for each angle, one for the
label. A small split is one shard; a large one is cut lane by lane (see order.py), so that a worker
needs only the shards of its own lanes. The manifest lists each shard's sha256 and which lanes'
rows it holds, in its order.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from common import storage
from common.data.order import lane_sizes
from common.data.splits import Examples
from common.errors import DataError
from common.storage import StoragePath

FORMAT = 1
MANIFEST = "manifest.json"
# About 2 MB of 8 angles; a split with more rows than this is cut lane by lane.
SHARD_ROWS = 65_536

REMAKE = "delete the folder, and the next training makes it again"


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
        splits: For each split its rows, its labels' counts and its shards: file, bytes, sha256,
            and `lanes`, the runs [lane, rows] that it holds in order.
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


def fingerprint(content: Mapping[str, Any]) -> str:
    """sha256 (hex) of plain data as canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def write_split(
    folder: StoragePath, name: str, examples: Examples, columns: Sequence[str], lanes: int
) -> dict[str, Any]:
    """Write a split's shards.

    Args:
        folder: The data set's folder.
        name: The split.
        examples: Its rows; row i is dealt to lane i mod `lanes`.
        columns: A name for each angle.
        lanes: Number of lanes.

    Returns:
        What the manifest says of the split.
    """
    sizes = lane_sizes(len(examples.labels), lanes)
    cuts = list(_cuts(sizes))
    shards = []
    for number, runs in enumerate(cuts):
        rows = np.concatenate(
            [np.arange(first, first + count) * lanes + lane for lane, first, count in runs]
        )
        table = pa.table(
            {
                **{column: examples.angles[rows, i] for i, column in enumerate(columns)},
                "label": examples.labels[rows],
            }
        )
        sink = io.BytesIO()
        pa.parquet.write_table(table, sink, compression="zstd")
        content = sink.getvalue()
        file = f"{name}-{number:05d}-of-{len(cuts):05d}.parquet"
        storage.write_whole(folder / file, content)
        shards.append(
            {
                "file": file,
                "bytes": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "lanes": [[lane, count] for lane, _, count in runs],
            }
        )
    positive = int((examples.labels > 0).sum())
    return {
        "rows": len(examples.labels),
        "labels": {"-1": len(examples.labels) - positive, "1": positive},
        "shards": shards,
    }


def _cuts(sizes: Sequence[int]) -> Iterator[list[tuple[int, int, int]]]:
    """Shards as runs (lane, first row in it, rows)."""
    if sum(sizes) <= SHARD_ROWS:
        yield [(lane, 0, size) for lane, size in enumerate(sizes) if size]
        return
    for lane, size in enumerate(sizes):
        for first in range(0, size, SHARD_ROWS):
            yield [(lane, first, min(SHARD_ROWS, size - first))]


def read_split(folder: StoragePath, split: Mapping[str, Any], columns: Sequence[str]) -> Examples:
    """Read all shards of a split.

    Args:
        folder: The data set's folder.
        split: What the manifest says of it.
        columns: A name for each angle.

    Returns:
        Rows lane after lane, as order.py numbers them.

    Raises:
        DataError: A shard is missing, cut short or altered.
    """
    runs = [tuple(run) for shard in split["shards"] for run in shard["lanes"]]
    lanes = 1 + max((lane for lane, _ in runs), default=-1)
    sizes = np.zeros(lanes, np.int64)
    for lane, count in runs:
        sizes[lane] += count
    free = np.cumsum(sizes) - sizes
    angles = np.empty((split["rows"], len(columns)), np.float32)
    labels = np.empty(split["rows"], np.float32)
    for shard in split["shards"]:
        read = _read_shard(folder / shard["file"], shard, columns)
        first = 0
        for lane, count in shard["lanes"]:
            to, come = slice(free[lane], free[lane] + count), slice(first, first + count)
            angles[to], labels[to] = read.angles[come], read.labels[come]
            free[lane] += count
            first += count
    return Examples(angles, labels)


def _read_shard(path: StoragePath, shard: Mapping[str, Any], columns: Sequence[str]) -> Examples:
    try:
        content = storage.read_bytes(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing from its data set: {REMAKE}") from None
    if len(content) != shard["bytes"]:
        raise DataError(
            f"{path} has {len(content)} bytes where {shard['bytes']} were written: {REMAKE}"
        )
    if hashlib.sha256(content).hexdigest() != shard["sha256"]:
        raise DataError(f"{path} was altered since it was written (sha256 differs): {REMAKE}")
    table = pa.parquet.read_table(io.BytesIO(content))
    angles = np.stack([table[column].to_numpy() for column in columns], axis=1)
    return Examples(angles, table["label"].to_numpy())


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
        raise DataError(f"{path} is not JSON: it was cut short or altered; {REMAKE}") from None
    version = read.get("format") if isinstance(read, dict) else None
    if version != FORMAT:
        raise DataError(f"{path} is of format {version!r}, not {FORMAT}: {REMAKE}")
    signature = read.pop("fingerprint", None)
    if signature != fingerprint(read):
        raise DataError(f"{path} was altered since it was written: {REMAKE}")
    return Manifest(**read, fingerprint=signature)
