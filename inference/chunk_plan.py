"""The division of an inference into chunks of rows, fixed in advance and equal in every attempt.

    predictions/NAME/
      worker-3.lease.json       held by worker 3 while it runs
      job-ID.json               the plan that the workers of one job use
      FINGERPRINT/
        plan.json               the division of the examples
        chunk-00012.parquet     the predictions of one chunk (chunks.py)
        merge-ID.json           the worker that merges the chunks

The fingerprint covers the examples and the weights, so chunks of other weights are in another
folder and are never merged. A chunk consists of whole batches of one block of examples. Worker i
of P gets the i-th P-th of all chunks; they are adjacent, so each worker reads its own shards.
"""

import functools
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from common import storage
from common.errors import DataError, SettingsError
from common.settings import Settings, TrainingSettings
from common.settings.micro_batches import NETWORK_QUBITS
from common.storage import StoragePath
from inference.inference_input import InferenceInput
from inference.model_source import ModelSource
from inference.predictor import MAX_MEMORY_BYTES, rows_per_batch

FORMAT = 2
CHUNKS_PER_WORKER = 4
"""Minimum number of chunks per worker, if there are enough examples. Small chunks keep the loss
of an interrupted worker small and let all workers finish at about the same time."""

MAX_BATCHES_PER_CHUNK = 16


@dataclass(frozen=True)
class Chunk:
    """Adjacent rows whose predictions are written to one file.

    Attributes:
        index: Number of the chunk, from 0.
        block: Number of the block of examples that contains the rows.
        first: First row, counted within the block.
        count: Number of rows.
    """

    index: int
    block: int
    first: int
    count: int


@dataclass(frozen=True)
class ChunkPlan:
    """All chunks and the paths of their predictions.

    Attributes:
        folder: Folder of this plan.
        fingerprint: SHA-256 (hex) of the examples and the weights.
        sizes: Number of examples in each block.
        rows: Rows per chunk; the last chunk of a block may have fewer.
    """

    folder: StoragePath
    fingerprint: str
    sizes: tuple[int, ...]
    rows: int

    @functools.cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """All chunks, in the order of the examples."""
        ranges = (
            (block, first, min(self.rows, size - first))
            for block, size in enumerate(self.sizes)
            for first in range(0, size, self.rows)
        )
        return tuple(Chunk(index, *rows) for index, rows in enumerate(ranges))

    def assigned_to(self, worker: int, workers: int) -> tuple[Chunk, ...]:
        """Return the chunks of one of `workers` workers. Every chunk has exactly one worker."""
        total = len(self.chunks)
        return self.chunks[worker * total // workers : (worker + 1) * total // workers]

    def path(self, chunk: Chunk) -> StoragePath:
        """Return the path of a chunk's predictions."""
        return self.folder / f"chunk-{chunk.index:05d}.parquet"

    def existing(self) -> set[Chunk]:
        """Return the chunks that have a file."""
        names = {path.name for path in storage.children(self.folder)}
        return {chunk for chunk in self.chunks if self.path(chunk).name in names}


def check_settings(training: TrainingSettings) -> None:
    """Check the settings that inference does not support.

    Raises:
        SettingsError: STATE_SHARDS is more than 1.
    """
    if training.state_shards > 1:
        raise SettingsError(
            f"STATE_SHARDS={training.state_shards} applies to training only: leave STATE_SHARDS"
            " out and set PARALLELISM to the number of processes or pods"
        )


def input_folder(source: ModelSource, inputs: InferenceInput) -> StoragePath:
    """Return the folder of all plans for these examples."""
    return source.predictions / inputs.name


def agree_on_plan(
    settings: Settings, source: ModelSource, inputs: InferenceInput, job: str
) -> ChunkPlan:
    """Return the plan that all workers use: the existing one, or a new one.

    Args:
        settings: PARALLELISM and BATCH are used.
        source: The model, whose weights are hashed.
        inputs: The examples.
        job: Identity of the job.

    Raises:
        DataError: The existing plan is damaged, or the examples or the weights have changed
            since the job was started.
        WeightsError: The weights are missing or altered.
    """
    weights, fingerprint = _fingerprint(source, inputs)
    folder = input_folder(source, inputs) / fingerprint[:12]
    file = folder / "plan.json"
    if (plan := _read(file)) is None:
        new = {
            "format": FORMAT,
            "fingerprint": fingerprint,
            "weights": weights,
            "examples": inputs.title,
            "blocks": list(inputs.sizes),
            "rows": _rows_per_chunk(settings, source, inputs),
        }
        storage.create_exclusive(file, json.dumps(new, indent=1).encode() + b"\n")
        plan = _read(file)  # another worker may have created it first
    if plan is None or plan.get("fingerprint") != fingerprint or not _is_valid(plan, inputs):
        raise DataError(f"{file} is damaged: delete its folder, then run inference again")
    job_file = job_path(folder.parent, job)
    storage.create_exclusive(job_file, json.dumps({"plan": fingerprint}).encode())
    if storage.read_json(job_file).get("plan") != fingerprint:
        raise DataError(
            f"the weights of {source.name} or the examples ({inputs.title}) have changed since"
            " this inference was started, so its chunks do not match: start it again"
        )
    return ChunkPlan(folder, fingerprint, inputs.sizes, plan["rows"])


def job_path(folder: StoragePath, job: str) -> StoragePath:
    """Return the path of the file that records the plan of a job."""
    return folder / f"job-{job}.json"


def _fingerprint(source: ModelSource, inputs: InferenceInput) -> tuple[str, str]:
    """Return the SHA-256 of the weights, and that of all that determines the predictions."""
    with source.local_weights() as path:
        weights = hashlib.sha256(path.read_bytes()).hexdigest()
    described = json.dumps([source.described["settings"], source.described["encoding"]])
    text = "\n".join([str(FORMAT), weights, described, inputs.fingerprint])
    return weights, hashlib.sha256(text.encode()).hexdigest()


def _rows_per_chunk(settings: Settings, source: ModelSource, inputs: InferenceInput) -> int:
    qubits = int(source.settings.get("qubits", 1))
    if qubits >= NETWORK_QUBITS:
        qubits = 0
    batch = rows_per_batch(qubits, settings.training.batch, MAX_MEMORY_BYTES)
    rows = inputs.total / (settings.inference.parallelism * CHUNKS_PER_WORKER)
    return batch * min(MAX_BATCHES_PER_CHUNK, max(1, math.ceil(rows / batch)))


def _is_valid(plan: Mapping[str, object], inputs: InferenceInput) -> bool:
    rows = plan.get("rows")
    return isinstance(rows, int) and rows > 0 and plan.get("blocks") == list(inputs.sizes)


def _read(file: StoragePath) -> dict | None:
    try:
        content = storage.read_json(file)
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
