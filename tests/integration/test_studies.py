"""Studies of real processes. All but one test train with the fake trainer, without TensorFlow."""

import json
import random
import signal
import time

import psutil
import pytest

from common import storage
from common.processes import find_child
from tests.support.patience import seconds, wait_until
from tests.support.training_processes import SMALL, checkpoints, training_processes

pytestmark = pytest.mark.exhaustive

STUDY = "tests.support.fake_study"
TRIALS = (*SMALL, "NAME=s", "SEEDS=0..1", "LAYERS=1,2", "MODEL=hybrid", "QUBITS=4")
FIELDS = ("trial", "run", "state", "layers", "seed", "test mse", "trained epochs")

processes = pytest.fixture(training_processes)


@pytest.fixture
def study(processes):
    """Start a study of four trials in a folder."""

    def start(root, *args, **environ):
        return processes(root, *TRIALS, *args, module=STUDY, **environ)

    return start


def set_pace(folder, step_seconds):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pace.json").write_text(json.dumps({"seconds": step_seconds}))


def tables(root):
    """The tables of a study, without the times of its trials."""
    folder = root / "studies" / "s"
    rows = [line.split(",") for line in (folder / "trials.csv").read_text().splitlines()]
    kept = [i for i, name in enumerate(rows[0]) if name != "seconds"]
    texts = [(folder / f"{name}.csv").read_text() for name in ("summary", "differences")]
    return [[row[i] for i in kept] for row in rows], texts


def processes_of(root):
    """All running processes that have the folder in their arguments."""
    found = []
    for process in psutil.process_iter():
        try:
            if (
                any(str(root) in part for part in process.cmdline())
                and process.status() != "zombie"
            ):
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_until_gone(root):
    wait_until(lambda: not processes_of(root), 40, pause=0.1)


@pytest.mark.nightly
def test_killed_study_ends_with_the_table_of_an_undisturbed_one(study, tmp_path):
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    process = study(calm)
    assert process.wait() == 0, process.output
    set_pace(killed, 0.1)
    moments = random.Random(1)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        process = study(killed)
        process.wait_until(psutil.Process(process.process.pid).children)  # a trial
        time.sleep(moments.uniform(0.3, 2.0))
        process.process.send_signal(number)
        assert process.wait() == (-9 if number == signal.SIGKILL else 143), process.output
    set_pace(killed, 0.0)
    process = study(killed)
    assert process.wait() == 0, process.output
    assert tables(killed) == tables(calm)
    wait_until_gone(killed)
    # Nothing is trained twice: the same command only writes the tables.
    before = {
        run: (killed / run / "result.json").stat().st_mtime_ns for run in ("s-0000", "s-0003")
    }
    process = study(killed)
    assert process.wait() == 0, process.output
    assert {run: (killed / run / "result.json").stat().st_mtime_ns for run in before} == before
    assert not [path.name for path in killed.glob("s-*-2")]


@pytest.mark.nightly
def test_killed_tpe_search_keeps_its_proposals(study, tmp_path):
    pytest.importorskip("optuna")
    args = ("SEARCH=tpe", "TRIALS=6", "SEEDS=0", "LEARNING_RATE=0.01..1", "LAYERS=1")
    trials = tmp_path / "studies" / "s" / "trials"
    set_pace(tmp_path, 0.03)
    proposed = {}
    for _ in range(2):
        process = study(tmp_path, *args)
        process.wait_until(lambda: {p.name for p in trials.glob("*.json")} - proposed.keys())
        process.process.kill()
        process.wait()
        for path in trials.glob("*.json"):
            combination = json.loads(path.read_text())["combination"]
            assert proposed.setdefault(path.name, combination) == combination
    set_pace(tmp_path, 0.0)
    process = study(tmp_path, *args)
    assert process.wait() == 0, process.output
    final = {p.name: json.loads(p.read_text())["combination"] for p in trials.glob("*.json")}
    assert proposed.items() <= final.items()
    assert len({one["learning_rate"] for one in final.values()}) == len(final) == 6


@pytest.mark.nightly
def test_killed_study_keeps_its_pruned_trials(study, tmp_path):
    pytest.importorskip("optuna")
    args = ("EARLY_STOPPING=halving", "MIN_EPOCHS=2", "REDUCTION_FACTOR=6", "LAYERS=1",
            "BATCH=10,20,50", "SEEDS=0", "PARALLELISM=1")  # fmt: skip
    trials = tmp_path / "studies" / "s" / "trials"
    set_pace(tmp_path, 0.1)

    def pruned():
        found = {p.name: json.loads(p.read_text()) for p in trials.glob("*.json")}
        return {name: one for name, one in found.items() if one["state"] == "pruned"}

    process = study(tmp_path, *args)
    process.wait_until(pruned)
    process.process.kill()
    process.wait()
    before = pruned()
    wait_until_gone(tmp_path)
    runs = [tmp_path / one["run"] for one in before.values()]
    metrics = [(run / "metrics.jsonl").read_text() for run in runs]
    set_pace(tmp_path, 0.0)
    process = study(tmp_path, *args)
    assert process.wait() == 0, process.output
    assert before.items() <= pruned().items()
    assert [(run / "metrics.jsonl").read_text() for run in runs] == metrics
    assert not any((run / "result.json").exists() for run in runs)


def test_failed_trial_is_recorded_and_the_study_continues(study, tmp_path):
    (tmp_path / "s-0001").mkdir()
    (tmp_path / "s-0001" / "foreign").touch()
    process = study(tmp_path, "LAYERS=1")
    assert process.wait() == 0, process.output
    rows, _ = tables(tmp_path)
    assert [row[2] for row in rows[1:]] == ["finished", "failed"]
    assert "is not a run" in rows[2][-1]


def test_study_ends_when_more_than_half_of_its_trials_failed(study, tmp_path):
    for number in range(3):
        (tmp_path / f"s-000{number}").mkdir()
        (tmp_path / f"s-000{number}" / "foreign").touch()
    process = study(tmp_path)
    assert process.wait() == 2
    (line,) = [one for one in process.output.splitlines() if one.startswith("qfleet:")]
    assert "3 of its 4 trials failed" in line
    rows, _ = tables(tmp_path)
    assert [row[2] for row in rows].count("failed") == 3


@pytest.mark.nightly
def test_trial_ended_by_another_process_is_started_again(study, tmp_path):
    set_pace(tmp_path, 0.5)
    process = study(tmp_path, "LAYERS=1", "SEEDS=0", "PARALLELISM=1")
    process.wait_until((tmp_path / "s-0000" / "run.json").is_file)
    launcher = find_child(process.process.pid, lambda environment: True)
    assert launcher
    launcher.kill()
    set_pace(tmp_path, 0.0)
    assert process.wait() == 0, process.output
    assert "starting it again" in process.output


@pytest.mark.nightly
@pytest.mark.parametrize("whole_tree", [False, True])
def test_stopped_trial_is_started_again(study, tmp_path, whole_tree):
    calm, stopped = tmp_path / "calm", tmp_path / "stopped"
    args = ("LAYERS=1", "SEEDS=0", "PARALLELISM=1")
    process = study(calm, *args)
    assert process.wait() == 0, process.output
    set_pace(stopped, 0.3)
    process = study(stopped, *args, LIVENESS_SECONDS=str(seconds(3)))
    process.wait_until(lambda: checkpoints(stopped / "s-0000"))
    launcher = find_child(process.process.pid, lambda environment: True)
    assert launcher
    for one in [launcher, *launcher.children()][: None if whole_tree else 1]:
        one.suspend()
    set_pace(stopped, 0.0)
    assert process.wait() == 0, process.output
    assert "Trial s-0000 did not respond" in process.output
    # Without their launcher, workers train to the end.
    assert ("starting it again" in process.output) == whole_tree
    assert tables(stopped) == tables(calm)
    assert not list(stopped.glob("s-*-2"))
    wait_until_gone(stopped)


def test_budget_ends_the_study_which_more_budget_continues(study, tmp_path):
    set_pace(tmp_path, 0.2)
    process = study(tmp_path, "LAYERS=1", "BUDGET=2s")
    assert process.wait() == 0, process.output
    assert "BUDGET" in process.output
    assert not (tmp_path / "s-0001" / "result.json").exists()
    set_pace(tmp_path, 0.0)
    process = study(tmp_path, "LAYERS=1", "BUDGET=1h")
    assert process.wait() == 0, process.output
    assert [row[2] for row in tables(tmp_path)[0][1:]] == ["finished"] * 2


@pytest.mark.nightly
def test_study_in_a_bucket_continues_after_a_kill(study, gs):
    root = storage.path(gs)
    process = study(gs, "LAYERS=1")
    process.wait_until(lambda: storage.is_file(root / "s-0000" / "run.json"), pause=0.2)
    process.process.kill()
    process.wait()
    process = study(gs, "LAYERS=1")
    assert process.wait() == 0, process.output
    rows = storage.read_bytes(root / "studies" / "s" / "trials.csv").decode().splitlines()
    assert [row.split(",")[2] for row in rows[1:]] == ["finished"] * 2
    assert storage.is_file(root / "studies" / "s" / "report.html")
    wait_until_gone(gs)


def test_second_start_of_a_running_study_is_refused(study, tmp_path):
    set_pace(tmp_path, 5.0)
    process = study(tmp_path, "LAYERS=1", "SEEDS=0")
    process.wait_until((tmp_path / "studies" / "s" / "trials").is_dir)
    second = study(tmp_path, "LAYERS=1", "SEEDS=0")
    assert second.wait() == 2
    assert "in use by another job" in second.output


def submissions(root, kind="submissions"):
    """The number of submissions of each job."""
    return {path.stem: path.read_text().count("\n") for path in root.glob(f".jobs/*.{kind}")}


def clients(root):
    """The number of clients that have followed each job."""
    return submissions(root, "clients")


def test_killed_study_of_a_cluster_follows_its_jobs(study, tmp_path):
    set_pace(tmp_path, 1.0)
    args = ("TARGET=k8s", "LAYERS=1")
    process = study(tmp_path, *args)
    process.wait_until(lambda: clients(tmp_path) == {"s-0000": 1, "s-0001": 1})
    process.process.kill()
    process.wait()
    process = study(tmp_path, *args)
    process.wait_until(lambda: clients(tmp_path)["s-0000"] == 2)
    process.process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert "jobs keep running" in process.output
    set_pace(tmp_path, 0.0)
    process = study(tmp_path, *args)
    assert process.wait() == 0, process.output
    assert [row[2] for row in tables(tmp_path)[0][1:]] == ["finished"] * 2
    assert submissions(tmp_path) == {"s-0000": 1, "s-0001": 1}
    assert not [path.name for path in tmp_path.glob("s-*-2")]
    wait_until_gone(tmp_path)


@pytest.mark.nightly
def test_budget_stops_the_jobs_of_a_cluster(study, tmp_path):
    set_pace(tmp_path, seconds(0.5))
    process = study(tmp_path, "TARGET=k8s", "LAYERS=1", f"BUDGET={seconds(4):.0f}s")
    assert process.wait() == 0, process.output
    assert "is used up" in process.output
    assert set(submissions(tmp_path)) == {"s-0000", "s-0001"}
    wait_until_gone(tmp_path)
    assert not (tmp_path / "s-0001" / "result.json").exists()


def test_real_study_is_killed_and_reported(processes, tmp_path):
    args = ("NAME=s", "QUBITS=4", "EPOCHS=2", "TRAIN_EXAMPLES=40", "VALIDATION_EXAMPLES=10",
            "TEST_EXAMPLES=60", "MODEL=qcnn,hybrid", "METRIC=accuracy")  # fmt: skip
    process = processes(tmp_path, *args, module="studies")
    process.wait_until((tmp_path / "s-0001" / "run.json").is_file)
    process.process.kill()
    process.wait()
    process = processes(tmp_path, *args, module="studies")
    assert process.wait() == 0, process.output
    assert [row[2] for row in tables(tmp_path)[0][1:]] == ["finished"] * 2
    assert json.loads((tmp_path / "s-0001" / "run.json").read_text())["other"]["study"] == "s"
    assert "<svg" in (tmp_path / "studies" / "s" / "report.html").read_text()
    wait_until_gone(tmp_path)
