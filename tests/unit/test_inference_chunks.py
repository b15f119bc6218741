"""Pieces of an inference: how they are cut, written, checked, and merged into one report.

Workers run in this process, one after another; tests/integration/test_inference_parallel.py starts
real ones.
"""

import csv
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from common import storage
from common.data import load
from common.errors import Preempted, SettingsError, StorageUnavailable, run_main
from common.lease import Lease
from common.runs import Run
from common.settings import Settings
from inference import chunk_plan, chunks, inference_input, model_source, scoring, worker
from inference.__main__ import main
from inference.chunk_plan import ChunkPlan
from inference.chunks import ChunkPredictions
from inference.local_workers import LocalWorkers
from inference.scoring import Histogram, Scores
from tests.support.finished_run import finish

EXAMPLES = 3_000  # three pieces


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A STORAGE with a finished run."""
    root = tmp_path_factory.mktemp("made")
    finish(root, "small", f"TEST_EXAMPLES={EXAMPLES}")
    return root


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Run:
    """A copy of it to answer."""
    return Run(Path(shutil.copytree(made, tmp_path / "runs")) / "small")


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def infer(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Call]:
    """A worker of PARALLEL, or all in one process for None: exit code, stdout, stderr."""

    def call(index: int | None, parallel: int = 1, *args: str) -> tuple[int, str, str]:
        said = ["inference", f"STORAGE={run.path.parent}", f"PARALLELISM={parallel}", *args]
        monkeypatch.setattr(sys, "argv", said)
        monkeypatch.setenv(worker.COMPLETION_INDEX, str(index))
        capsys.readouterr()
        return run_main(main if index is None else worker.main), *capsys.readouterr()

    before = signal.getsignal(signal.SIGTERM)
    yield call
    signal.signal(signal.SIGTERM, before)


def answered(said: str) -> list[int]:
    """The pieces that were answered, as often as they were."""
    return [int(n) for n in re.findall(r"worker \d+: piece (\d+)/\d+  ", said)]


def numbers(run: Run) -> list[str]:
    """All numbers of a report that are no times."""
    page = storage.read_bytes(run.predictions / "report.html").decode()
    text = re.sub(r"in \S+ s: [\d,]+ \w+/s( by \d+ workers)?", "", page)
    return re.findall(r"-?\d[\d.,]*", re.sub(r"Written [^<]*", "", text))


def alone(infer: Call, run: Run, name: str = "test.csv", *args: str) -> tuple[bytes, list[str]]:
    """What one process writes: predictions and the report's numbers; nothing of it is left."""
    code, _, err = infer(None, 1, *args)
    assert (code, err) == (0, "")
    found = storage.read_bytes(run.predictions / name), numbers(run)
    storage.delete(run.predictions)
    return found


@pytest.mark.parametrize("parallel", [1, 2, 3, 5, 60])
def test_every_row_is_in_just_one_piece_of_just_one_worker(parallel: int) -> None:
    plan = ChunkPlan(Path("x"), "f", (70, 0, 64, 1), 16)
    mine = [plan.of(index, parallel) for index in range(parallel)]
    assert [piece for each in mine for piece in each] == list(plan.pieces)
    assert max(map(len, mine)) - min(map(len, mine)) <= 1
    rows = [(p.block, row) for p in plan.pieces for row in range(p.first, p.first + p.count)]
    assert rows == [(block, row) for block, size in enumerate(plan.sizes) for row in range(size)]


def answers(n: int, labels: bool = True, readouts: int | None = 2) -> ChunkPredictions:
    generator = np.random.default_rng(n)
    said = generator.normal(size=n).astype("f4")
    read = None if readouts is None else generator.uniform(-1, 1, (n, readouts)).astype("f4")
    known = np.where(generator.random(n) < 0.5, -1, 1).astype("f4") if labels else None
    return ChunkPredictions(np.arange(n) * 3, known, said, read, 4, 0.25)


@pytest.mark.parametrize("readouts", [None, 0, 3])
@pytest.mark.parametrize("labels", [True, False])
def test_a_piece_comes_back_as_it_was_written(tmp_path, labels, readouts):
    made, said = ChunkPlan(tmp_path, "f", (10,), 10), answers(10, labels, readouts)
    chunks.write_chunk(made, made.pieces[0], said)
    back = chunks.read_chunk(made, made.pieces[0])
    for one, other in zip(said, back, strict=True):
        assert (one is None and other is None) or np.array_equal(one, other)


def test_a_piece_that_is_not_what_was_written_counts_as_missing(tmp_path):
    plan = ChunkPlan(tmp_path, "f", (400, 400), 400)
    first, second = plan.pieces
    assert chunks.read_chunk(plan, first) is None
    chunks.write_chunk(plan, first, answers(400))
    content = plan.path(first).read_bytes()
    plan.path(second).write_bytes(content)
    assert chunks.read_chunk(plan, second) is None, "another piece's"
    assert chunks.read_chunk(ChunkPlan(tmp_path, "g", (400, 400), 400), first) is None, (
        "other weights'"
    )
    generator = np.random.default_rng(0)
    for _ in range(60):
        altered = bytearray(content)
        altered[generator.integers(len(content))] ^= 1 << int(generator.integers(8))
        plan.path(first).write_bytes(altered)
        found = chunks.read_chunk(plan, first)
        assert found is None or np.array_equal(found.answers, answers(400).answers)
    for length in (0, 3, len(content) // 2, len(content) - 1):
        plan.path(first).write_bytes(content[:length])
        assert chunks.read_chunk(plan, first) is None


def test_four_workers_leave_what_one_process_leaves(run, infer):
    written, told = alone(infer, run)
    text = ""
    for index in (2, 0, 3, 1):  # in whatever order they come
        code, out, err = infer(index, 4, "JOB_ID=one")
        assert (code, err) == (0, "")
        assert ("merges 3 pieces" in out) == (index == 1)
        text += out
    assert sorted(answered(text)) == [1, 2, 3]
    assert "worker 0: nothing to do: 3 pieces are fewer than 4" in text
    assert storage.read_bytes(run.predictions / "test.csv") == written
    assert numbers(run) == told
    # A pod that starts again after all was merged, and one that is new: nothing is done twice.
    code, out, _ = infer(2, 4, "JOB_ID=one")
    assert (code, answered(out), "merges" in out) == (0, [], False)
    code, out, _ = infer(0, 1, "JOB_ID=two")
    assert (code, answered(out), "merges" in out) == (0, [], True)
    assert storage.read_bytes(run.predictions / "test.csv") == written
    left = [path.name for path in storage.files(run.predictions / "test")]
    assert sorted(left) == ["gang-two.json", "merge-two.json", *(f"piece-0000{i}.parquet" for i in
                            range(3)), "plan.json"]  # fmt: skip


def test_a_piece_that_is_lost_or_altered_is_answered_again_alone(run, infer):
    written, _ = alone(infer, run)
    assert infer(0, 1)[0] == 0
    (plan,) = Path(str(run.predictions)).glob("test/*/plan.json")
    (plan.parent / "piece-00000.parquet").unlink()
    piece = plan.parent / "piece-00002.parquet"
    piece.write_bytes(piece.read_bytes()[:-9])
    storage.delete(run.predictions / "test.csv")
    code, out, _ = infer(0, 1)
    assert (code, answered(out)) == (0, [1, 3])
    assert "worker 0: pieces 1-3 of 3, 1 of them answered before" in out
    assert storage.read_bytes(run.predictions / "test.csv") == written


def test_a_piece_that_is_altered_before_the_merge_is_answered_by_who_merges(run, infer):
    written, _ = alone(infer, run)
    assert infer(0, 2, "JOB_ID=one")[0] == 0
    (piece,) = Path(str(run.predictions)).glob("test/*/piece-00000.parquet")
    piece.write_bytes(b"x")
    code, out, _ = infer(1, 2, "JOB_ID=one")
    assert code == 0
    assert "piece 1 is damaged and is answered again" in out
    assert storage.read_bytes(run.predictions / "test.csv") == written


def test_who_was_to_merge_merges_after_a_restart_and_nobody_else(run, infer, monkeypatch):
    written, _ = alone(infer, run)
    assert infer(0, 2, "JOB_ID=one")[0] == 0
    merge = worker.InferenceWorker.merge

    def killed(self):
        raise Preempted("stopped by SIGTERM")

    monkeypatch.setattr(worker.InferenceWorker, "merge", killed)
    assert infer(1, 2, "JOB_ID=one")[0] == 143
    monkeypatch.setattr(worker.InferenceWorker, "merge", merge)
    assert "merges" not in infer(0, 2, "JOB_ID=one")[1]
    assert not storage.exists(run.predictions / "test.csv")
    assert "merges" in infer(1, 2, "JOB_ID=one")[1]
    assert storage.read_bytes(run.predictions / "test.csv") == written


def test_a_shard_that_is_altered_is_one_sentence(run, infer):
    for shard in (run.path.parent / "datasets").glob("*/test-*"):
        shard.write_bytes(shard.read_bytes()[:-1])
    code, out, err = infer(0, 2)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "test-" in err
    assert not storage.exists(run.predictions)


def test_storage_that_is_away_in_the_middle_is_145_and_what_is_there_stays(run, infer, monkeypatch):
    written, _ = alone(infer, run)
    whole = storage.write_atomic

    def away(path, data):
        if path.name == "piece-00001.parquet":
            raise StorageUnavailable("storage does not answer for piece-00001.parquet")
        whole(path, data)

    monkeypatch.setattr(storage, "write_atomic", away)
    code, out, err = infer(0, 1)
    assert (code, answered(out), err.count("\n")) == (145, [1], 1)
    monkeypatch.setattr(storage, "write_atomic", whole)
    code, out, _ = infer(0, 1)
    assert (code, answered(out)) == (0, [2, 3])
    assert storage.read_bytes(run.predictions / "test.csv") == written


def test_weights_that_change_while_a_gang_answers_are_refused(run, infer):
    assert infer(0, 2, "JOB_ID=one")[0] == 0
    other = finish(run.path.parent, "other", f"TEST_EXAMPLES={EXAMPLES}", "SEED=1")
    for name in ("model/weights.h5", "model/model.json", "result.json", "run.json"):
        shutil.copy(other.path / name, run.path / name)
    code, _, err = infer(1, 2, "RUN=small", "JOB_ID=one")
    assert code == 2
    assert "have changed since this inference began" in err
    assert err.count("\n") == 1
    # Started again, none of the old pieces is used.
    for index in range(2):
        code, out, _ = infer(index, 2, "RUN=small", "JOB_ID=two")
        assert code == 0
        assert answered(out)
    assert len(list(Path(str(run.predictions)).glob("test/*/plan.json"))) == 1


def test_a_second_inference_of_the_same_is_refused(run, infer):
    lease = Lease(run.predictions / "test", "another", name="worker-1.lease.json").acquire()
    try:
        code, out, err = infer(1, 2)
    finally:
        lease.close()
    assert (code, answered(out)) == (2, [])
    assert "for small (worker 1) is in use by another job (process " in err


def test_a_damaged_plan_is_one_sentence(run, infer):
    assert infer(0, 2)[0] == 0
    (plan,) = Path(str(run.predictions)).glob("test/*/plan.json")
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "rows": 0}))
    code, _, err = infer(1, 2)
    assert code == 2
    assert "plan.json is damaged: delete its folder" in err


@pytest.mark.parametrize("index", ["", "2", "x"])
def test_a_worker_that_nothing_started_is_told_how(index, monkeypatch):
    monkeypatch.setenv(worker.COMPLETION_INDEX, index)
    with pytest.raises(SettingsError, match="start with `make inference`"):
        worker._index(Settings.from_args(["PARALLELISM=2"]))


def test_more_processes_than_pieces_are_lowered_and_it_is_said(tmp_path, capsys):
    settings = Settings.from_args(["PARALLELISM=9", "JOB_ID=g"])
    team = LocalWorkers(settings, ChunkPlan(tmp_path, "f", (70,), 32))
    told = "PARALLELISM=9 is more than the 3 pieces that these examples are cut into: 3 processes"
    assert told in capsys.readouterr().out
    assert team.settings.inference.parallelism == 3
    assert team.settings.training.threads == max(1, len(os.sched_getaffinity(0)) // 3)
    LocalWorkers(settings, ChunkPlan(tmp_path, "f", (70,), 7))
    assert not capsys.readouterr().out


def test_weights_gone_bad_on_the_way_end_all_workers_with_one_sentence(run, capsys):
    chosen = model_source.choose_model(Settings.from_args([f"STORAGE={run.path.parent}"]))
    settings = Settings.from_args([f"STORAGE={run.path.parent}", "PARALLELISM=2", "JOB_ID=g"])
    agreed = chunk_plan.agree_on_plan(
        settings, chosen, inference_input.resolve_input(settings, chosen)
    )
    run.weights.write_bytes(b"x")
    assert LocalWorkers(settings, agreed).answer() == 2
    assert capsys.readouterr().err.count("weights.h5 was altered") == 1


def test_split_is_refused(infer):
    code, _, err = infer(None, 1, "STATE_SHARDS=2")
    assert code == 2
    assert "STATE_SHARDS=2 splits states in training alone" in err


def test_a_table_is_cut_by_rows(run, infer, tmp_path):
    table = tmp_path / "new.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([f"x_{i:02}" for i in range(4)])
        writer.writerows([i % 3, i % 5 / 7, i % 11 / 13, 1] for i in range(2500))
    written, told = alone(infer, run, "new.csv", f"INPUT={table}")
    text = "".join(infer(index, 2, f"INPUT={table}")[1] for index in range(2))
    assert answered(text) == [1, 2, 3]
    assert storage.read_bytes(run.predictions / "new.csv") == written
    assert numbers(run) == told


@pytest.mark.parametrize("split", ["", "/validation/"])
def test_a_data_set_is_answered_its_test_split_unless_another_is_named(run, infer, tmp_path, split):
    data = finish(tmp_path / "more", "other", "SEED=3").path.parent / "datasets"
    (folder,) = Path(str(data)).iterdir()
    code, _, err = infer(None, 1, "RUN=small", f"INPUT={folder}{split}")
    assert (code, err) == (0, "")
    name = split.strip("/") or "test"
    rows = storage.read_bytes(run.predictions / f"{folder.name}-{name}.csv").splitlines()
    assert len(rows) == 1 + load(folder).rows(name)


def test_a_data_set_of_another_encoding_is_refused(run, infer, tmp_path):
    data = finish(tmp_path / "more", "other", "QUBITS=3").path.parent / "datasets"
    (folder,) = Path(str(data)).iterdir()
    code, _, err = infer(None, 1, "RUN=small", f"INPUT={folder}")
    assert code == 2
    assert "holds angles that were made in another way" in err


def test_many_rows_are_written_as_parquet(run, infer, monkeypatch):
    import pyarrow.parquet

    from inference import predictions

    written, _ = alone(infer, run)
    monkeypatch.setattr(predictions, "MAX_CSV_ROWS", EXAMPLES - 1)
    assert infer(0, 1)[0] == 0
    table = pyarrow.parquet.read_table(run.predictions / "test.parquet").to_pylist()
    read = list(csv.DictReader(written.decode().splitlines()))
    assert [str(row["row"]) for row in table] == [row["row"] for row in read]
    assert [row["answer"] for row in table] == [np.float32(row["answer"]) for row in read]


def test_a_histogram_counts_the_same_in_any_parts_and_over_any_range():
    generator = np.random.default_rng(0)
    values = np.concatenate([generator.normal(0, s, 500) for s in (0.1, 1, 9)]).astype("f4")
    groups = generator.integers(2, size=len(values))
    whole, parts = Histogram(), Histogram()
    whole.add(values, groups)
    for part in np.array_split(np.arange(len(values)), 7):
        parts.add(values[part], groups[part])
    for edge, bins in ((whole.largest, 12), (16.0, 64), (2.0, 8)):
        edges, counts = whole.binned(edge, bins)
        assert np.array_equal(counts, parts.binned(edge, bins)[1])
        assert counts.sum() == len(values)
    edges, counts = whole.binned(16.0, 64)
    clipped = np.clip(values, -16, 16)
    for group in (0, 1):
        assert np.array_equal(counts[group], np.histogram(clipped[groups == group], edges)[0])


def test_scores_are_those_of_all_answers_whatever_the_parts():
    said = answers(1000)
    scores = Scores(2, True, 1)
    for part in np.array_split(np.arange(1000), 9):
        scores.add(said.answers[part], said.readouts[part], said.labels[part])
    signs = np.where(said.answers >= 0, 1, -1)
    assert scores.mse == pytest.approx(scoring.mean_squared_error(said.answers, said.labels))
    assert scores.accuracy == np.mean(signs == said.labels)
    pairs = [[int(((said.labels == a) & (signs == b)).sum()) for b in (-1, 1)] for a in (-1, 1)]
    assert scores.confusion.tolist() == pairs
