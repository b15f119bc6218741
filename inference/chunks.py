"""The file of one chunk's predictions: Parquet, written atomically, with a SHA-256 digest."""

import hashlib
import io
import json
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from common import safe_json, storage
from inference.chunk_plan import Chunk, ChunkPlan

METADATA_KEY = b"qfleet"

MAX_COLUMNS = 20_000
"""Most columns of a chunk file: more than any model has outputs and readouts."""


class ChunkPredictions(NamedTuple):
    """The predictions of one chunk.

    Attributes:
        rows: int64 [n], the numbers of the examples, from 0.
        labels: float32 [n], encoded by the target; None if they are unknown.
        predictions: float32 [n], or [n, outputs] for several outputs.
        readouts: float32 [n, readouts]; None for a model without a readout layer.
        worker: Number of the worker that computed them.
        seconds: Time that the computation took.
        unmitigated: As `predictions`, without zero-noise extrapolation; None where it is not used.
    """

    rows: np.ndarray
    labels: np.ndarray | None
    predictions: np.ndarray
    readouts: np.ndarray | None
    worker: int
    seconds: float
    unmitigated: np.ndarray | None = None


def write_chunk(plan: ChunkPlan, chunk: Chunk, result: ChunkPredictions) -> None:
    """Write the predictions of a chunk. A chunk that is written is not computed again."""
    columns = {"row": result.rows.astype(np.int64)}
    outputs = result.predictions.reshape(len(result.predictions), -1)
    for i, column in enumerate(outputs.T):
        columns[f"prediction_{i}"] = np.ascontiguousarray(column)
    if result.unmitigated is not None:
        for i, column in enumerate(result.unmitigated.reshape(outputs.shape).T):
            columns[f"unmitigated_{i}"] = np.ascontiguousarray(column)
    if result.labels is not None:
        columns["label"] = result.labels
    if result.readouts is not None:
        for i, column in enumerate(result.readouts.T):
            columns[f"readout_{i}"] = np.ascontiguousarray(column)
    metadata = {
        "plan": plan.fingerprint,
        "chunk": chunk.index,
        "sha256": _sha256(list(columns.values())),
        "outputs": outputs.shape[1],
        "unmitigated": result.unmitigated is not None,
        "labels": result.labels is not None,
        "readouts": None if result.readouts is None else result.readouts.shape[1],
        "worker": result.worker,
        "seconds": result.seconds,
    }
    table = pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(metadata)})
    sink = io.BytesIO()
    pa.parquet.write_table(table, sink, compression="zstd")
    storage.write_atomic(plan.path(chunk), sink.getvalue())


def read_chunk(plan: ChunkPlan, chunk: Chunk) -> ChunkPredictions | None:
    """Return the predictions of a chunk; None if the file is missing or altered."""
    try:
        content = storage.read_bytes(plan.path(chunk))
    except FileNotFoundError:
        return None
    try:
        file = pa.parquet.ParquetFile(io.BytesIO(content))
        if not _has_size(file, chunk.count):
            return None
        table = file.read()
        metadata = safe_json.parse(table.schema.metadata[METADATA_KEY])
        columns = [column.to_numpy() for column in table.columns]
        intact = (
            metadata["plan"] == plan.fingerprint
            and metadata["chunk"] == chunk.index
            and len(columns[0]) == chunk.count
            and metadata["sha256"] == _sha256(columns)
            and type(metadata["worker"]) is int
            and type(metadata["seconds"]) in (int, float)
        )
        if not intact:
            return None
        rows, *rest = columns
        count = metadata["outputs"]
        predictions, rest = _joined(rest[:count]), rest[count:]
        unmitigated = None
        if metadata["unmitigated"]:
            unmitigated, rest = _joined(rest[:count]), rest[count:]
        labels = rest.pop(0) if metadata["labels"] else None
        readouts = None
        if metadata["readouts"] is not None:
            readouts = np.stack(rest, axis=1) if rest else np.empty((len(rows), 0), np.float32)
        return ChunkPredictions(
            *(rows, labels, predictions, readouts, metadata["worker"], metadata["seconds"]),
            unmitigated,
        )
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def _has_size(file: pa.parquet.ParquetFile, rows: int) -> bool:
    """Return True if a file has this many rows of numbers: a small file may contain large ones."""
    types = file.schema_arrow.types
    numbers = all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in types)
    return numbers and len(types) <= MAX_COLUMNS and file.metadata.num_rows == rows


def _joined(columns: list[np.ndarray]) -> np.ndarray:
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def _sha256(columns: list[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for column in columns:
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()
