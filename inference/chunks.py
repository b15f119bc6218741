"""The answers of one piece as a file: Parquet, whole or not at all, with its sha256."""

import hashlib
import io
import json
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from common import storage
from inference.chunk_plan import Chunk, ChunkPlan

ABOUT = b"qfleet"


class ChunkPredictions(NamedTuple):
    """What was answered to a piece.

    Attributes:
        rows: int64 [n], the examples' numbers from 0.
        labels: float32 [n] of -1 and +1; None where they are not known.
        answers: float32 [n].
        readouts: float32 [n, readouts]; None for a model that does not show them.
        worker: Who answered.
        seconds: How long it took.
    """

    rows: np.ndarray
    labels: np.ndarray | None
    answers: np.ndarray
    readouts: np.ndarray | None
    worker: int
    seconds: float


def write_chunk(plan: ChunkPlan, piece: Chunk, said: ChunkPredictions) -> None:
    """Write a piece's answers; from here on nobody answers it again."""
    columns = {"row": said.rows.astype(np.int64), "answer": said.answers}
    if said.labels is not None:
        columns["label"] = said.labels
    if said.readouts is not None:
        for i, column in enumerate(said.readouts.T):
            columns[f"readout_{i}"] = np.ascontiguousarray(column)
    about = {
        "plan": plan.fingerprint,
        "piece": piece.number,
        "sha256": _sha256(list(columns.values())),
        "labels": said.labels is not None,
        "readouts": None if said.readouts is None else said.readouts.shape[1],
        "worker": said.worker,
        "seconds": said.seconds,
    }
    table = pa.table(columns).replace_schema_metadata({ABOUT: json.dumps(about)})
    sink = io.BytesIO()
    pa.parquet.write_table(table, sink, compression="zstd")
    storage.write_atomic(plan.path(piece), sink.getvalue())


def read_chunk(plan: ChunkPlan, piece: Chunk) -> ChunkPredictions | None:
    """A piece's answers; None where they are not there, or are not what was written."""
    try:
        content = storage.read_bytes(plan.path(piece))
    except FileNotFoundError:
        return None
    try:
        table = pa.parquet.ParquetFile(io.BytesIO(content)).read()
        about = json.loads(table.schema.metadata[ABOUT])
        columns = [column.to_numpy() for column in table.columns]
        whole = (
            about["plan"] == plan.fingerprint
            and about["piece"] == piece.number
            and len(columns[0]) == piece.count
            and about["sha256"] == _sha256(columns)
        )
        if not whole:
            return None
        rows, answers, *rest = columns
        labels = rest.pop(0) if about["labels"] else None
        readouts = None
        if about["readouts"] is not None:
            readouts = np.stack(rest, axis=1) if rest else np.empty((len(rows), 0), np.float32)
        return ChunkPredictions(rows, labels, answers, readouts, about["worker"], about["seconds"])
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def _sha256(columns: list[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for column in columns:
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()
