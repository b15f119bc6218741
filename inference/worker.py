"""One of several workers: answers its pieces, and merges all where it is the last.

JOB_COMPLETION_INDEX says which worker this is, as an Indexed Job tells its pods; on this machine
team.py sets it. What a worker prints is what its pod's log shows:

    worker 1: pieces 6-10 of 20, 2 of them answered before
    worker 1: piece 8/20  1,024 examples  25,233 circuits/s
"""

import functools
import json
import logging
import os
import signal
import sys
import time
import uuid
from typing import Any

from rich.console import Console

from common import storage
from common.errors import Preempted, RunError, SettingsError, run_main
from common.lease import CONFIRM_SECONDS, Lease
from common.settings import Settings
from common.storage import StoragePath
from inference import chunk_plan, chunks, inference_input, model_source, summary
from inference.chunk_plan import Chunk, ChunkPlan
from inference.chunks import ChunkPredictions
from inference.inference_input import InferenceInput

COMPLETION_INDEX = "JOB_COMPLETION_INDEX"


class _Stopped(BaseException):
    """SIGTERM came. No Exception: libraries that it comes in the middle of make others of those."""


def main() -> None:
    """Plan -> this worker's pieces, but those that are there -> all there? -> merge."""
    signal.signal(signal.SIGTERM, _leave)
    try:
        _work()
    except _Stopped:
        raise Preempted("stopped by SIGTERM: the pieces that are answered stay") from None


def _work() -> None:
    settings = Settings.from_args(sys.argv[1:])
    logging.basicConfig(format="%(message)s")
    chunk_plan.check(settings)
    settings = settings.replace(job_id=settings.job.job_id or uuid.uuid4().hex)
    index = _index(settings)
    chosen = model_source.choose_model(settings)
    question = inference_input.resolve_input(settings, chosen)
    agreed = chunk_plan.agree_on_plan(settings, chosen, question)
    lease = Lease(
        chunk_plan.plan_path(chosen, question),
        settings.job.job_id,
        name=f"worker-{index}.lease.json",
        title=f"{question.title} for {chosen.name} (worker {index})",
    ).acquire()
    try:
        worker = InferenceWorker(settings, index, chosen, question, agreed)
        worker.answer(lease)
        if len(agreed.there()) == len(agreed.pieces) and _is_to_merge(
            agreed, index, settings.job.job_id
        ):
            worker.merge()
            _clear(agreed, settings.job.job_id)
    finally:
        lease.close()


def _leave(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # what ends this worker's work is not interrupted
    raise _Stopped


def _index(settings: Settings) -> int:
    said = os.environ.get(COMPLETION_INDEX, "")
    if not said.isdecimal() or int(said) >= settings.inference.parallelism:
        raise SettingsError(
            f"{COMPLETION_INDEX}={said} is not a worker of PARALLELISM={settings.inference.parallelism}: it is a number from"
            " 0, which an Indexed Job gives to its pods; start with `make inference`"
        )
    return int(said)


class InferenceWorker:
    """One worker.

    Args:
        settings: PARALLEL, BATCH, THREADS and SEED are read.
        index: Which worker, from 0.
        chosen: The weights.
        question: All examples.
        agreed: How they are cut.
    """

    def __init__(
        self,
        settings: Settings,
        index: int,
        chosen: model_source.ModelSource,
        question: InferenceInput,
        agreed: ChunkPlan,
    ) -> None:
        self._settings, self._index = settings, index
        self._source, self._question, self._plan = chosen, question, agreed
        self._console = Console(highlight=False, soft_wrap=True)

    @functools.cached_property
    def _model(self) -> Any:
        """The model, only where something is left to do: TensorFlow takes seconds."""
        from inference import model_loading
        from qfleet.tensorflow.runtime import configure

        configure(threads=self._settings.training.threads, seed=self._settings.data.seed)
        return model_loading.load(self._source)

    @functools.cached_property
    def _answering(self) -> Any:
        from inference.predictor import Predictor

        return Predictor(self._model, self._question.features, self._settings.training.batch)

    def answer(self, lease: Lease) -> None:
        """Answer this worker's pieces, but those that were answered before.

        Raises:
            RunError: Another inference answers them.
        """
        total = len(self._plan.pieces)
        mine = self._plan.of(self._index, self._settings.inference.parallelism)
        if self._index == 0:
            summary.log_start(self._console, self._source, self._question)
        if not mine:
            self._say(
                f"nothing to do: {total} pieces are fewer than {self._settings.inference.parallelism}"
            )
            return
        there = self._plan.there()
        left = [p for p in mine if p not in there or chunks.read_chunk(self._plan, p) is None]
        before = f", {len(mine) - len(left)} of them answered before" * (len(left) < len(mine))
        self._say(f"pieces {mine[0].number + 1}-{mine[-1].number + 1} of {total}{before}")
        for piece in left:
            lease.check()
            said = self._answer(piece)
            chunks.write_chunk(self._plan, piece, said)
            circuits = max(1, self._answering.circuits)
            unit = "circuits" if self._answering.circuits else "examples"
            self._say(
                f"piece {piece.number + 1}/{total}  {piece.count:,} examples "
                f" {piece.count * circuits / max(said.seconds, 1e-9):,.0f} {unit}/s"
            )

    def _say(self, text: str) -> None:
        self._console.print(f"worker {self._index}: {text}", markup=False)

    def _answer(self, piece: Chunk) -> ChunkPredictions:
        block = self._question.read(piece.block)
        part = slice(piece.first, piece.first + piece.count)
        rows, labels = block.rows[part], None if block.labels is None else block.labels[part]
        answers, readouts, seconds = self._answering.answer(block.angles[part], rows)
        return ChunkPredictions(rows, labels, answers, readouts, self._index, seconds)

    def merge(self) -> None:
        """Put all pieces together: predictions and report, as one process would write them."""
        from inference.finalize import finalize
        from inference.predictions import Predictions
        from inference.scoring import Scores

        self._say(f"merges {len(self._plan.pieces)} pieces")
        answering, question = self._answering, self._question
        scores = Scores(answering.readouts, question.labelled, answering.circuits)
        seconds: dict[int, float] = {}
        with Predictions(self._source.predictions, question, answering.readouts) as predictions:
            for piece in self._plan.pieces:
                said = chunks.read_chunk(self._plan, piece)
                if said is None:  # altered since its worker wrote it
                    self._say(f"piece {piece.number + 1} is damaged and is answered again")
                    said = self._answer(piece)
                    chunks.write_chunk(self._plan, piece, said)
                seconds[said.worker] = seconds.get(said.worker, 0.0) + said.seconds
                scores.add(said.answers, said.readouts, said.labels)
                predictions.add(said.rows, said.answers, said.readouts, said.labels)
            if scores.total != question.total:
                raise RunError(
                    f"{self._plan.folder} holds answers to {scores.total:,} examples of"
                    f" {question.total:,}: delete it, and all are answered anew"
                )
            # They worked side by side: the one that took longest is how long it took.
            scores.workers, scores.seconds = len(seconds), max(seconds.values())
            finalize(
                self._settings, self._source, question, self._model, scores, predictions,
                self._console,
            )  # fmt: skip


def _is_to_merge(agreed: ChunkPlan, index: int, gang: str) -> bool:
    """Whether this worker merges: the first that finds all pieces there, also after a restart."""
    path = _merge_file(agreed, gang)
    created = storage.create_exclusive(path, json.dumps({"worker": index}).encode())
    if created and not storage.is_local(path):
        time.sleep(CONFIRM_SECONDS)  # an emulator lets several create it: the last one has it
    return storage.read_json(path).get("worker") == index


def _merge_file(agreed: ChunkPlan, gang: str) -> StoragePath:
    return agreed.folder / f"merge-{gang}.json"


def _clear(agreed: ChunkPlan, gang: str) -> None:
    """Delete what no one needs any more: pieces of other weights, and what killed workers left."""
    root = agreed.folder.parent
    for path in storage.children(root):
        another = path.name.startswith("gang-") and path != chunk_plan.job_id_file(root, gang)
        if another or (path != agreed.folder and storage.is_file(path / "plan.json")):
            storage.delete(path)
    for path in storage.children(agreed.folder):
        if path.name.startswith("merge-") and path != _merge_file(agreed, gang):
            storage.delete(path)
    storage.remove_partial_files(agreed.folder)


if __name__ == "__main__":
    sys.exit(run_main(main))
