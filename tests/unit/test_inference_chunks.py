"""Chunks of an inference: division, files, verification, and the merge into one report.

Workers run in this process, one after another; tests/integration/test_inference_parallel.py starts
real processes.
"""

import csv
import json
import re
import shutil
import signal
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from common import storage
from common.data import load
from common.data.target import SIGNS
from common.errors import Preempted, SettingsError, StorageUnavailable, run_main
from common.lease import Lease
from common.processes import cpu_count
from common.runs import Run
from common.settings import Settings
from inference import chunk_plan, chunks, inference_input, model_source, worker
from inference.__main__ import main
from inference.chunk_plan import ChunkPlan
from inference.chunks import ChunkPredictions
from inference.local_workers import LocalWorkers
from inference.scoring import ClassScores, Histogram
from tests.support.finished_run import finish, shorten_reports

EXAMPLES = 3_000  # three chunks


@pytest.fixture(autouse=True)
def short_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_reports(monkeypatch)


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A STORAGE with a finished run."""
    root = tmp_path_factory.mktemp("runs")
    finish(root, "small", f"TEST_EXAMPLES={EXAMPLES}")
    return root


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Run:
    """A copy of the run, without predictions."""
    return Run(Path(shutil.copytree(finished_run, tmp_path / "runs")) / "small")


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def infer(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Call]:
    """Run one worker, or one process for None; return exit code, stdout and stderr."""

    def call(
        index: int | None, workers: int = 1, *args: str, job: str = ""
    ) -> tuple[int, str, str]:
        argv = ["inference", f"STORAGE={run.path.parent}", f"PARALLELISM={workers}", *args]
        monkeypatch.setattr(sys, "argv", argv)
        monkeypatch.setenv(worker.COMPLETION_INDEX, str(index))
        monkeypatch.setenv("QFLEET_JOB_ID", job)
        capsys.readouterr()
        return run_main(main if index is None else worker.main), *capsys.readouterr()

    before = signal.getsignal(signal.SIGTERM)
    yield call
    signal.signal(signal.SIGTERM, before)


def computed(output: str) -> list[int]:
    """Return the numbers of the computed chunks, from 1, with repetitions."""
    return [int(n) for n in re.findall(r"worker \d+: chunk (\d+)/\d+  ", output)]


def numbers(run: Run) -> list[str]:
    """Return all numbers of a report except times."""
    page = storage.read_bytes(run.predictions / "report.html").decode()
    text = re.sub(r"in \S+ s: [\d,]+ \w+/s( by \d+ workers)?", "", page)
    return re.findall(r"-?\d[\d.,]*", re.sub(r"Created [^<]*", "", text))


def reference(infer: Call, run: Run, name: str = "test.csv", *args: str) -> tuple[bytes, list[str]]:
    """Return predictions and report numbers of one process, and delete its files."""
    code, _, err = infer(None, 1, *args)
    assert (code, err) == (0, "")
    result = storage.read_bytes(run.predictions / name), numbers(run)
    storage.delete(run.predictions)
    return result


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 60])
def test_each_row_is_in_one_chunk_of_one_worker(workers: int) -> None:
    plan = ChunkPlan(Path("x"), "f", (70, 0, 64, 1), 16)
    assigned = [plan.assigned_to(index, workers) for index in range(workers)]
    assert [chunk for each in assigned for chunk in each] == list(plan.chunks)
    assert max(map(len, assigned)) - min(map(len, assigned)) <= 1
    rows = [(c.block, row) for c in plan.chunks for row in range(c.first, c.first + c.count)]
    assert rows == [(block, row) for block, size in enumerate(plan.sizes) for row in range(size)]


def random_predictions(n: int, labels: bool = True, readouts: int | None = 2) -> ChunkPredictions:
    generator = np.random.default_rng(n)
    predictions = generator.normal(size=n).astype("f4")
    values = None if readouts is None else generator.uniform(-1, 1, (n, readouts)).astype("f4")
    signs = np.where(generator.random(n) < 0.5, -1, 1).astype("f4") if labels else None
    return ChunkPredictions(np.arange(n) * 3, signs, predictions, values, 4, 0.25)


@pytest.mark.parametrize("readouts", [None, 0, 3])
@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("outputs", [0, 1, 3])
def test_read_chunk_returns_the_written_chunk(tmp_path, labels, readouts, outputs):
    plan, written = ChunkPlan(tmp_path, "f", (10,), 10), random_predictions(10, labels, readouts)
    if outputs:  # with zero-noise extrapolation
        pair = np.random.default_rng(1).normal(size=(2, 10, outputs)).astype("f4").squeeze()
        written = written._replace(predictions=pair[0], unmitigated=pair[1])
    chunks.write_chunk(plan, plan.chunks[0], written)
    read = chunks.read_chunk(plan, plan.chunks[0])
    for one, other in zip(written, read, strict=True):
        assert (one is None and other is None) or np.array_equal(one, other)


def test_read_chunk_altered_returns_none(tmp_path):
    plan = ChunkPlan(tmp_path, "f", (400, 400), 400)
    first, second = plan.chunks
    assert chunks.read_chunk(plan, first) is None
    chunks.write_chunk(plan, first, random_predictions(400))
    content = plan.path(first).read_bytes()
    plan.path(second).write_bytes(content)
    assert chunks.read_chunk(plan, second) is None, "of another chunk"
    assert chunks.read_chunk(ChunkPlan(tmp_path, "g", (400, 400), 400), first) is None, (
        "of other weights"
    )
    generator = np.random.default_rng(0)
    for _ in range(60):
        altered = bytearray(content)
        altered[generator.integers(len(content))] ^= 1 << int(generator.integers(8))
        plan.path(first).write_bytes(altered)
        read = chunks.read_chunk(plan, first)
        expected = random_predictions(400).predictions
        assert read is None or np.array_equal(read.predictions, expected)
    for length in (0, 3, len(content) // 2, len(content) - 1):
        plan.path(first).write_bytes(content[:length])
        assert chunks.read_chunk(plan, first) is None


@pytest.mark.parametrize(
    ("metadata", "rows", "value"),
    [
        ("[" * 200_000, 400, 0.0),
        ("{}", 3_000_000, 0.0),
        ("{}", 400, "x" * 100_000),
        ('{"worker": {}}', 400, 0.0),
    ],
    ids=["nested metadata", "many rows", "long texts", "worker"],
)
def test_read_chunk_hostile_returns_none(tmp_path, metadata, rows, value):
    plan = ChunkPlan(tmp_path, "f", (400,), 400)
    table = pa.table({"row": pa.array([value] * rows)}).replace_schema_metadata(
        {chunks.METADATA_KEY: metadata}
    )
    pa.parquet.write_table(table, plan.path(plan.chunks[0]), compression="zstd")
    tracemalloc.start()
    try:
        assert chunks.read_chunk(plan, plan.chunks[0]) is None
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_read_chunk_of_a_wrong_worker_returns_none(tmp_path):
    plan = ChunkPlan(tmp_path, "f", (10,), 10)
    chunks.write_chunk(plan, plan.chunks[0], random_predictions(10)._replace(worker="0"))
    assert chunks.read_chunk(plan, plan.chunks[0]) is None


def test_four_workers_write_the_results_of_one_process(run, infer):
    written, expected = reference(infer, run)
    text = ""
    for index in (2, 0, 3, 1):  # in any order
        code, out, err = infer(index, 4, job="one")
        assert (code, err) == (0, "")
        assert ("merging 3 chunks" in out) == (index == 1)
        text += out
    assert sorted(computed(text)) == [1, 2, 3]
    assert "worker 0: nothing to do: there are 3 chunks for 4 workers" in text
    assert storage.read_bytes(run.predictions / "test.csv") == written
    assert numbers(run) == expected
    # A pod that restarts after the merge, and a new job: no chunk is computed twice.
    code, out, _ = infer(2, 4, job="one")
    assert (code, computed(out), "merging" in out) == (0, [], False)
    code, out, _ = infer(0, 1, job="two")
    assert (code, computed(out), "merging" in out) == (0, [], True)
    assert storage.read_bytes(run.predictions / "test.csv") == written
    left = [path.name for path in storage.files(run.predictions / "test")]
    assert sorted(left) == [
        *(f"chunk-0000{i}.parquet" for i in range(3)), "job-two.json", "merge-two.json",
        "plan.json",
    ]  # fmt: skip


def test_only_missing_or_altered_chunks_are_computed_again(run, infer):
    written, _ = reference(infer, run)
    assert infer(0, 1)[0] == 0
    (plan,) = Path(str(run.predictions)).glob("test/*/plan.json")
    (plan.parent / "chunk-00000.parquet").unlink()
    chunk = plan.parent / "chunk-00002.parquet"
    chunk.write_bytes(chunk.read_bytes()[:-9])
    storage.delete(run.predictions / "test.csv")
    code, out, _ = infer(0, 1)
    assert (code, computed(out)) == (0, [1, 3])
    assert "worker 0: chunks 1-3 of 3 (1 done before)" in out
    assert storage.read_bytes(run.predictions / "test.csv") == written


def test_merge_computes_damaged_chunks_again(run, infer):
    written, _ = reference(infer, run)
    assert infer(0, 2, job="one")[0] == 0
    (chunk,) = Path(str(run.predictions)).glob("test/*/chunk-00000.parquet")
    chunk.write_bytes(b"x")
    code, out, _ = infer(1, 2, job="one")
    assert code == 0
    assert "chunk 1 is damaged" in out
    assert storage.read_bytes(run.predictions / "test.csv") == written


def test_merge_is_repeated_only_by_the_same_worker(run, infer, monkeypatch):
    written, _ = reference(infer, run)
    assert infer(0, 2, job="one")[0] == 0
    merge = worker.InferenceWorker.merge

    def stopped(self):
        raise Preempted("stopped by SIGTERM")

    monkeypatch.setattr(worker.InferenceWorker, "merge", stopped)
    assert infer(1, 2, job="one")[0] == 143
    monkeypatch.setattr(worker.InferenceWorker, "merge", merge)
    assert "merging" not in infer(0, 2, job="one")[1]
    assert not storage.exists(run.predictions / "test.csv")
    assert "merging" in infer(1, 2, job="one")[1]
    assert storage.read_bytes(run.predictions / "test.csv") == written


def test_altered_shard_exits_with_2(run, infer):
    for shard in (run.path.parent / "datasets").glob("*/test-*"):
        shard.write_bytes(shard.read_bytes()[:-1])
    code, out, err = infer(0, 2)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "test-" in err
    assert not storage.exists(run.predictions)


def test_unavailable_storage_exits_with_145_and_keeps_chunks(run, infer, monkeypatch):
    written, _ = reference(infer, run)
    write_atomic = storage.write_atomic

    def unavailable(path, data):
        if path.name == "chunk-00001.parquet":
            raise StorageUnavailable("storage is unavailable")
        write_atomic(path, data)

    monkeypatch.setattr(storage, "write_atomic", unavailable)
    code, out, err = infer(0, 1)
    assert (code, computed(out), err.count("\n")) == (145, [1], 1)
    monkeypatch.setattr(storage, "write_atomic", write_atomic)
    code, out, _ = infer(0, 1)
    assert (code, computed(out)) == (0, [2, 3])
    assert storage.read_bytes(run.predictions / "test.csv") == written


def test_weights_changed_during_a_job_are_refused(run, infer):
    assert infer(0, 2, job="one")[0] == 0
    other = finish(run.path.parent, "other", f"TEST_EXAMPLES={EXAMPLES}", "SEED=1")
    shutil.copytree(other.path / "model", run.path / "model", dirs_exist_ok=True)
    for name in ("result.json", "run.json"):
        shutil.copy(other.path / name, run.path / name)
    code, _, err = infer(1, 2, "RUN=small", job="one")
    assert code == 2
    assert "have changed since" in err
    assert err.count("\n") == 1
    # A new job uses none of the old chunks.
    for index in range(2):
        code, out, _ = infer(index, 2, "RUN=small", job="two")
        assert code == 0
        assert computed(out)
    assert len(list(Path(str(run.predictions)).glob("test/*/plan.json"))) == 1


def test_second_inference_of_the_same_input_is_refused(run, infer):
    lease = Lease(run.predictions / "test", "another", name="worker-1.lease.json").acquire()
    try:
        code, out, err = infer(1, 2)
    finally:
        lease.close()
    assert (code, computed(out)) == (2, [])
    assert "for small (worker 1) is in use by another job (process " in err


def test_damaged_plan_exits_with_2(run, infer):
    assert infer(0, 2)[0] == 0
    (plan,) = Path(str(run.predictions)).glob("test/*/plan.json")
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "rows": 0}))
    code, _, err = infer(1, 2)
    assert code == 2
    assert "plan.json is damaged" in err


@pytest.mark.parametrize("index", ["", "2", "x"])
def test_worker_without_completion_index_is_refused(index, monkeypatch):
    monkeypatch.setenv(worker.COMPLETION_INDEX, index)
    with pytest.raises(SettingsError, match=worker.COMPLETION_INDEX):
        worker._worker_index(Settings.from_args(["PARALLELISM=2"]).inference)


def test_local_workers_are_at_most_as_many_as_chunks(tmp_path, capsys):
    settings = Settings.from_args(["PARALLELISM=9"])
    local_workers = LocalWorkers(settings, ChunkPlan(tmp_path, "f", (70,), 32), "g")
    output = capsys.readouterr().out
    assert "PARALLELISM=9 is more than the 3 chunks" in output
    assert "3 processes" in output
    assert local_workers.settings.inference.parallelism == 3
    assert local_workers.settings.training.threads == max(1, cpu_count() // 3)
    LocalWorkers(settings, ChunkPlan(tmp_path, "f", (70,), 7), "g")
    assert not capsys.readouterr().out


# Starts processes that import TensorFlow.
@pytest.mark.exhaustive
def test_local_workers_report_a_final_error_once(run, capsys):
    source = model_source.choose_model(Settings.from_args([f"STORAGE={run.path.parent}"]))
    settings = Settings.from_args([f"STORAGE={run.path.parent}", "PARALLELISM=2"])
    inputs = inference_input.resolve_input(settings, source)
    plan = chunk_plan.agree_on_plan(settings, source, inputs, "g")
    run.weights.write_bytes(b"x")
    assert LocalWorkers(settings, plan, "g").run() == 2
    assert capsys.readouterr().err.count("weights.h5 was altered") == 1


def test_state_shards_are_refused(infer):
    code, _, err = infer(None, 1, "STATE_SHARDS=2")
    assert code == 2
    assert "STATE_SHARDS=2" in err


def test_input_table_is_divided_into_chunks(run, infer, tmp_path):
    table = tmp_path / "new.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([f"x_{i:02}" for i in range(4)])
        writer.writerows([i % 3, i % 5 / 7, i % 11 / 13, 1] for i in range(2500))
    written, expected = reference(infer, run, "new.csv", f"INPUT={table}")
    text = "".join(infer(index, 2, f"INPUT={table}")[1] for index in range(2))
    assert computed(text) == [1, 2, 3]
    assert storage.read_bytes(run.predictions / "new.csv") == written
    assert numbers(run) == expected


@pytest.mark.parametrize("split", ["", "/validation/"])
def test_input_data_set_uses_its_test_split_by_default(run, infer, tmp_path, split):
    data = finish(tmp_path / "more", "other", "SEED=3").path.parent / "datasets"
    (folder,) = Path(str(data)).iterdir()
    code, _, err = infer(None, 1, "RUN=small", f"INPUT={folder}{split}")
    assert (code, err) == (0, "")
    name = split.strip("/") or "test"
    rows = storage.read_bytes(run.predictions / f"{folder.name}-{name}.csv").splitlines()
    assert len(rows) == 1 + load(folder).rows(name)


def test_input_data_set_with_other_encoding_is_refused(run, infer, tmp_path):
    data = finish(tmp_path / "more", "other", "QUBITS=3").path.parent / "datasets"
    (folder,) = Path(str(data)).iterdir()
    code, _, err = infer(None, 1, "RUN=small", f"INPUT={folder}")
    assert code == 2
    assert "has another encoding" in err


def test_large_prediction_table_is_parquet(run, infer, monkeypatch):
    import pyarrow.parquet

    from inference import prediction_table

    written, _ = reference(infer, run)
    monkeypatch.setattr(prediction_table, "MAX_CSV_ROWS", EXAMPLES - 1)
    assert infer(0, 1)[0] == 0
    table = pyarrow.parquet.read_table(run.predictions / "test.parquet").to_pylist()
    read = list(csv.DictReader(written.decode().splitlines()))
    assert [str(row["row"]) for row in table] == [row["row"] for row in read]
    assert [row["prediction"] for row in table] == [np.float32(row["prediction"]) for row in read]


def test_histogram_does_not_depend_on_batches():
    generator = np.random.default_rng(0)
    values = np.concatenate([generator.normal(0, s, 500) for s in (0.1, 1, 9)]).astype("f4")
    groups = generator.integers(2, size=len(values))
    whole, parts = Histogram(), Histogram()
    whole.add(values, groups)
    for part in np.array_split(np.arange(len(values)), 7):
        parts.add(values[part], groups[part])
    for edge, bins in ((whole.largest, 12), (16.0, 64), (2.0, 8)):
        edges, counts = whole.rebinned(edge, bins)
        assert np.array_equal(counts, parts.rebinned(edge, bins)[1])
        assert counts.sum() == len(values)
    edges, counts = whole.rebinned(16.0, 64)
    clipped = np.clip(values, -16, 16)
    for group in (0, 1):
        assert np.array_equal(counts[group], np.histogram(clipped[groups == group], edges)[0])


def test_scores_do_not_depend_on_batches():
    result = random_predictions(1000)
    scores = ClassScores(SIGNS, 2, True, 1)
    for part in np.array_split(np.arange(1000), 9):
        scores.add(result.predictions[part], result.readouts[part], result.labels[part])
    signs = np.where(result.predictions >= 0, 1, -1)
    squares = (result.predictions.astype(float) - result.labels) ** 2
    assert scores.metrics["mse"] == pytest.approx(squares.mean())
    assert scores.metrics["accuracy"] == np.mean(signs == result.labels)
    pairs = [[int(((result.labels == a) & (signs == b)).sum()) for b in (-1, 1)] for a in (-1, 1)]
    assert scores.confusion.tolist() == pairs
