"""How an inference is cut into pieces of rows, before anyone starts: the same for every attempt.

    predictions/NAME/
      worker-3.lease.json       worker 3 is at work
      gang-GANG.json            the plan that the workers of one inference began with
      FINGERPRINT/
        plan.json               how the examples are cut
        piece-00012.parquet     the answers of one piece (pieces.py)
        merge-GANG.json         which worker merges

The fingerprint is over the examples and the weights, so pieces of other weights lie elsewhere and
are never mixed in. A piece is whole batches of one block of examples; worker i of P takes the i-th
P-th of all pieces, side by side, so that it reads its own shards.
"""

import functools
import hashlib
import json
import math
from dataclasses import dataclass

from common import storage
from common.errors import DataError, SettingsError
from common.settings import Settings
from common.storage import StoragePath
from inference.inference_input import InferenceInput
from inference.model_source import ModelSource
from inference.predictor import MAX_MEMORY_BYTES, rows_per_batch

FORMAT = 1
CHUNKS_PER_WORKER = 4
"""Pieces that each worker gets at least, where examples suffice: what a lost one had begun is
little, and the others' last pieces end at about the same time."""

MAX_BATCHES_PER_CHUNK = 16


@dataclass(frozen=True)
class Chunk:
    """Rows that are answered together.

    Attributes:
        number: From 0.
        block: The block of examples that they lie in.
        first: The first of them, in the block.
        count: How many.
    """

    number: int
    block: int
    first: int
    count: int


@dataclass(frozen=True)
class ChunkPlan:
    """All pieces, and where their answers lie.

    Attributes:
        folder: Of this plan.
        fingerprint: sha256 (hex) over examples and weights.
        sizes: Examples in each block.
        rows: Examples in a piece, but for the last one of a block.
    """

    folder: StoragePath
    fingerprint: str
    sizes: tuple[int, ...]
    rows: int

    @functools.cached_property
    def pieces(self) -> tuple[Chunk, ...]:
        """All pieces, in the order of the examples."""
        cuts = (
            (block, first, min(self.rows, size - first))
            for block, size in enumerate(self.sizes)
            for first in range(0, size, self.rows)
        )
        return tuple(Chunk(number, *cut) for number, cut in enumerate(cuts))

    def of(self, index: int, parallel: int) -> tuple[Chunk, ...]:
        """The pieces of one of so many workers; every piece is just one worker's."""
        total = len(self.pieces)
        return self.pieces[index * total // parallel : (index + 1) * total // parallel]

    def path(self, piece: Chunk) -> StoragePath:
        """The file of a piece's answers."""
        return self.folder / f"piece-{piece.number:05d}.parquet"

    def there(self) -> set[Chunk]:
        """The pieces that have a file."""
        names = {path.name for path in storage.children(self.folder)}
        return {piece for piece in self.pieces if self.path(piece).name in names}


def check(settings: Settings) -> None:
    """Refuse what no inference takes.

    Raises:
        SettingsError: STATE_SHARDS is more than 1.
    """
    if settings.training.state_shards > 1:
        raise SettingsError(
            f"STATE_SHARDS={settings.training.state_shards} splits states in training alone: leave STATE_SHARDS out of inference;"
            " PARALLEL is how many processes or pods answer"
        )


def plan_path(source: ModelSource, question: InferenceInput) -> StoragePath:
    """The folder of all plans for these examples."""
    return source.predictions / question.name


def agree_on_plan(settings: Settings, source: ModelSource, question: InferenceInput) -> ChunkPlan:
    """The plan that all workers follow: the one that is there, or a new one.

    Args:
        settings: PARALLEL, BATCH and JOB_ID are read.
        source: The weights, which are hashed.
        question: The examples.

    Raises:
        DataError: The plan that is there is damaged, or the examples changed since JOB_ID began.
        WeightsError: The weights are missing or altered.
    """
    with source.local_weights() as path:
        weights = hashlib.sha256(path.read_bytes()).hexdigest()
    described = json.dumps([source.described["settings"], source.described["encoding"]])
    told = "\n".join([str(FORMAT), weights, described, question.fingerprint])
    fingerprint = hashlib.sha256(told.encode()).hexdigest()
    folder = plan_path(source, question) / fingerprint[:12]
    file = folder / "plan.json"
    if (found := _read(file)) is None:
        batch = rows_per_batch(
            int(source.settings.get("qubits", 1)), settings.training.batch, MAX_MEMORY_BYTES
        )
        each = question.total / (settings.inference.parallelism * CHUNKS_PER_WORKER)
        rows = batch * min(MAX_BATCHES_PER_CHUNK, max(1, math.ceil(each / batch)))
        plan = {
            "format": FORMAT,
            "fingerprint": fingerprint,
            "weights": weights,
            "examples": question.title,
            "blocks": list(question.sizes),
            "rows": rows,
        }
        storage.create_exclusive(file, json.dumps(plan, indent=1).encode() + b"\n")
        found = _read(file)  # of several who make it one wins
    if found is None or found.get("fingerprint") != fingerprint or not _fits(found, question):
        raise DataError(f"{file} is damaged: delete its folder, and all pieces are answered anew")
    began = job_id_file(folder.parent, settings.job.job_id)
    storage.create_exclusive(began, json.dumps({"plan": fingerprint}).encode())
    if storage.read_json(began).get("plan") != fingerprint:
        raise DataError(
            f"the weights of {source.name}, or what they answer ({question.title}), have changed"
            " since this inference began, so its pieces do not belong together: start it again"
        )
    return ChunkPlan(folder, fingerprint, question.sizes, found["rows"])


def job_id_file(folder: StoragePath, gang: str) -> StoragePath:
    """The file by which the workers of one inference know that they follow one plan."""
    return folder / f"gang-{gang}.json"


def _fits(found: dict, question: InferenceInput) -> bool:
    rows = found.get("rows")
    return isinstance(rows, int) and rows > 0 and found.get("blocks") == list(question.sizes)


def _read(file: StoragePath) -> dict | None:
    try:
        found = storage.read_json(file)
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
