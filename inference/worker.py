"""A worker of a parallel inference: it predicts its chunks; the last worker merges all chunks.

JOB_COMPLETION_INDEX is the number of the worker. An Indexed Job sets it in its pods, LocalWorkers
sets it on this machine. A worker emits `chunks_assigned` and `chunk_done`, in text:

    worker 1: chunks 6-10 of 20 (2 done before)
    worker 1: chunk 8/20  1,024 examples  25,233 circuits/s
"""

import functools
import json
import logging
import os
import signal
import sys
import uuid
from typing import TYPE_CHECKING

from common import events, storage
from common.errors import Preempted, RunError, SettingsError, run_main
from common.lease import Lease
from common.native_watchdog import start_heartbeat
from common.settings import InferenceSettings, Settings
from common.settings.launcher_variables import heartbeat_file, job_id
from common.storage import StoragePath
from common.text import plural
from inference import chunk_plan, chunks, inference_input, model_source, summary
from inference.chunk_plan import Chunk, ChunkPlan
from inference.chunks import ChunkPredictions
from inference.inference_input import InferenceInput
from inference.model_source import ModelSource

if TYPE_CHECKING:
    from inference.predictor import Predictor
    from qfleet.tensorflow.runtime import keras

COMPLETION_INDEX = "JOB_COMPLETION_INDEX"


class _Terminated(BaseException):
    """SIGTERM was received. Not an Exception, which libraries could catch and convert."""


def main() -> None:
    """Compute the missing chunks of this worker, and merge all chunks if they are complete."""
    signal.signal(signal.SIGTERM, _raise_terminated)
    try:
        _run()
    except _Terminated:
        raise Preempted("stopped by SIGTERM: finished chunks are kept") from None


def _run() -> None:
    settings = Settings.from_args(sys.argv[1:])
    start_heartbeat(heartbeat_file())
    logging.basicConfig(format="%(message)s", handlers=[events.LogHandler()])
    chunk_plan.check_settings(settings.training)
    job = job_id() or uuid.uuid4().hex
    index = _worker_index(settings.inference)
    source = model_source.choose_model(settings)
    inputs = inference_input.resolve_input(settings, source)
    plan = chunk_plan.agree_on_plan(settings, source, inputs, job)
    lease = Lease(
        chunk_plan.input_folder(source, inputs),
        job,
        name=f"worker-{index}.lease.json",
        title=f"{inputs.title} for {source.name} (worker {index})",
    ).acquire()
    try:
        worker = InferenceWorker(settings, index, source, inputs, plan)
        worker.predict_chunks(lease)
        if len(plan.existing()) == len(plan.chunks) and _claim_merge(plan, index, job):
            worker.merge()
            _remove_stale_files(plan, job)
    finally:
        lease.close()


def _raise_terminated(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # the clean-up is not interrupted again

    def stop() -> None:
        raise _Terminated

    events.interrupt(stop)


def _worker_index(inference: InferenceSettings) -> int:
    value = os.environ.get(COMPLETION_INDEX, "")
    if not value.isdecimal() or int(value) >= inference.parallelism:
        raise SettingsError(
            f"{COMPLETION_INDEX}={value} is not a worker of PARALLELISM={inference.parallelism}:"
            " it is a number from 0 that an Indexed Job sets in its pods; start with `make"
            " inference`"
        )
    return int(value)


class InferenceWorker:
    """One worker.

    Args:
        settings: PARALLELISM, BATCH, THREADS and SEED are used.
        index: Number of the worker, from 0.
        source: The model.
        inputs: All examples.
        plan: The division into chunks.
    """

    def __init__(
        self,
        settings: Settings,
        index: int,
        source: ModelSource,
        inputs: InferenceInput,
        plan: ChunkPlan,
    ) -> None:
        self._settings, self._index = settings, index
        self._source, self._inputs, self._plan = source, inputs, plan

    @functools.cached_property
    def _model(self) -> "keras.Model":
        """The model. It is loaded on first use, because importing TensorFlow takes seconds."""
        from inference import model_loading, normalization
        from qfleet.tensorflow.runtime import configure

        configure(threads=self._settings.training.threads, seed=self._settings.data.seed)
        model = model_loading.load(self._source, self._settings.training.batch)
        normalization.adapt(model, self._source, self._inputs)
        return model

    @functools.cached_property
    def _predictor(self) -> "Predictor":
        from inference.mitigation import predictor_for

        batch = self._settings.training.batch
        return predictor_for(self._model, self._inputs.features, self._source, batch)

    def predict_chunks(self, lease: Lease) -> None:
        """Compute the chunks of this worker that are not yet written.

        Raises:
            RunError: The lease was lost to another inference.
        """
        total = len(self._plan.chunks)
        workers = self._settings.inference.parallelism
        assigned = self._plan.assigned_to(self._index, workers)
        if self._index == 0:
            summary.log_start(self._source, self._inputs)
        if not assigned:
            self._log(f"nothing to do: there are {total} chunks for {workers} workers")
            return
        existing = self._plan.existing()
        missing = [
            chunk
            for chunk in assigned
            if chunk not in existing or chunks.read_chunk(self._plan, chunk) is None
        ]
        self._report_assignment(assigned, len(assigned) - len(missing))
        for chunk in missing:
            lease.confirm()
            result = self._predict(chunk)
            chunks.write_chunk(self._plan, chunk, result)
            self._report_chunk(chunk, result.seconds)

    def _report_assignment(self, assigned: tuple[Chunk, ...], done: int) -> None:
        first, last, total = assigned[0].index, assigned[-1].index, len(self._plan.chunks)
        suffix = f" ({done} done before)" if done else ""
        events.emit(
            "chunks_assigned",
            f"worker {self._index}: chunks {first + 1}-{last + 1} of {total}{suffix}",
            worker=self._index, first=first, last=last, total=total, done=done,
        )  # fmt: skip

    def _report_chunk(self, chunk: Chunk, seconds: float) -> None:
        total, circuits = len(self._plan.chunks), self._predictor.circuits
        unit = "circuits" if circuits else "examples"
        rate = chunk.count * max(1, circuits) / max(seconds, 1e-9)
        events.emit(
            "chunk_done",
            f"worker {self._index}: chunk {chunk.index + 1}/{total}"
            f"  {plural(chunk.count, 'example')}  {rate:,.0f} {unit}/s",
            worker=self._index, index=chunk.index, total=total, rate=rate, unit=f"{unit}/s",
            examples=chunk.count,
        )  # fmt: skip

    def _log(self, text: str) -> None:
        events.emit("log", f"worker {self._index}: {text}", level="INFO")

    def _predict(self, chunk: Chunk) -> ChunkPredictions:
        block = self._inputs.read(chunk.block)
        part = slice(chunk.first, chunk.first + chunk.count)
        rows, labels = block.rows[part], None if block.labels is None else block.labels[part]
        found = self._predictor.predict(block.angles[part], rows)
        known = rows, labels, found.outputs, found.readouts
        return ChunkPredictions(*known, self._index, found.seconds, found.unmitigated)

    def merge(self) -> None:
        """Merge all chunks into the predictions and the report that one process would write.

        Raises:
            RunError: The chunks do not contain all examples.
        """
        from inference.finalize import finalize
        from inference.prediction_table import PredictionTable
        from inference.scoring import scores_for

        self._log(f"merging {plural(len(self._plan.chunks), 'chunk')}")
        inputs, predictor = self._inputs, self._predictor
        is_mitigated = predictor.is_mitigated
        scores = scores_for(
            *(inputs.target, predictor.readouts, inputs.labelled, predictor.circuits),
            is_mitigated=is_mitigated,
        )
        seconds: dict[int, float] = {}
        folder = self._source.predictions
        with PredictionTable(
            folder, inputs, predictor.readouts, is_mitigated=is_mitigated
        ) as table:
            for chunk in self._plan.chunks:
                result = self._read_or_predict(chunk)
                seconds[result.worker] = seconds.get(result.worker, 0.0) + result.seconds
                part = slice(chunk.first, chunk.first + chunk.count)
                origin = inputs.origin(chunk.block, part, result.rows)
                known = result.predictions, result.readouts, result.labels, result.unmitigated
                scores.add(*known, origin)
                table.add(result.rows, *known, origin)
            if scores.total != inputs.total:
                raise RunError(
                    f"{self._plan.folder} contains predictions for {scores.total:,} of"
                    f" {inputs.total:,} examples: delete it, then run inference again"
                )
            # Workers run in parallel, so the slowest one determines the time.
            scores.workers, scores.seconds = len(seconds), max(seconds.values())
            seed = self._settings.data.seed
            finalize(seed, self._source, inputs, self._model, predictor, scores, table)

    def _read_or_predict(self, chunk: Chunk) -> ChunkPredictions:
        """Return a chunk; compute it again if its file was altered since it was written."""
        result = chunks.read_chunk(self._plan, chunk)
        if result is None:
            self._log(f"chunk {chunk.index + 1} is damaged; computing it again")
            result = self._predict(chunk)
            chunks.write_chunk(self._plan, chunk, result)
        return result


def _claim_merge(plan: ChunkPlan, index: int, job: str) -> bool:
    """Return True in one worker of the job: the first that finds all chunks, also restarted."""
    path = _merge_path(plan, job)
    storage.create_exclusive(path, json.dumps({"worker": index}).encode())
    return storage.read_json(path).get("worker") == index


def _merge_path(plan: ChunkPlan, job: str) -> StoragePath:
    return plan.folder / f"merge-{job}.json"


def _remove_stale_files(plan: ChunkPlan, job: str) -> None:
    """Delete chunks of other weights, records of other jobs and files of killed workers."""
    root = plan.folder.parent
    for path in storage.children(root):
        stale = path.name.startswith("job-") and path != chunk_plan.job_path(root, job)
        if stale or (path != plan.folder and storage.is_file(path / "plan.json")):
            storage.delete(path)
    for path in storage.children(plan.folder):
        if path.name.startswith("merge-") and path != _merge_path(plan, job):
            storage.delete(path)
    storage.remove_partial_files(plan.folder)


if __name__ == "__main__":
    sys.exit(run_main(main))
