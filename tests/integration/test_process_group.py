"""Real gangs of real processes: the same numbers whatever their size, and whatever happens."""

import json
import signal
import time

import psutil
import pytest

from tests.support.training_processes import (
    SMALL,
    checkpoints,
    distance,
    gangs,
    metrics,
    step_losses,
)

start = pytest.fixture(gangs)

LONG = (*SMALL[:-1], "EPOCHS=40")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run of 40 epochs by two workers that nothing happened to."""
    storage = tmp_path_factory.mktemp("undisturbed")
    for gang in _one(storage, *LONG):
        assert gang.end() == 0, gang.said
    return storage / "hybrid", gang.said


def _one(*args):
    bodies = gangs()
    yield next(bodies)(*args)
    next(bodies, None)


def test_one_two_and_three_workers_have_the_same_losses(start, tmp_path, undisturbed):
    found = {2: step_losses(undisturbed[0])}
    for workers in (1, 3):
        gang = start(tmp_path / str(workers), *LONG, f"WORKERS={workers}")
        assert gang.end() == 0, gang.said
        found[workers] = step_losses(tmp_path / str(workers) / "hybrid")
    for step in range(1, 31):
        assert found[1][step] == pytest.approx(found[2][step], abs=1e-4)
        assert found[1][step] == pytest.approx(found[3][step], abs=1e-4)
    assert len({round(found[1][step], 6) for step in range(1, 31)}) > 25


def test_each_example_is_counted_once_an_epoch(undisturbed):
    lines = metrics(undisturbed[0])
    assert [line["epoch"] for line in lines] == list(range(1, 41))
    assert {line["examples"] for line in lines} == {100}
    assert {line["val_examples"] for line in lines} == {30}


def test_a_run_says_where_it_is_and_what_to_say_next(undisturbed):
    run, said = undisturbed
    first, *_, last = said.strip().splitlines()
    assert "on this machine; TARGET=k8s for the cluster" in first
    assert str(run) in said
    assert f"make inference STORAGE={run.parent} RUN=hybrid" in said
    assert f"make tensorboard STORAGE={run.parent} RUN=hybrid" in last
    assert not [line for line in said.splitlines() if "grpc" in line or "cuda" in line.lower()]


def test_a_run_leaves_the_layout_that_others_rely_on(undisturbed):
    run, _ = undisturbed
    result = json.loads((run / "result.json").read_text())
    assert set(result["metrics"]) == {"train", "validation", "test"}
    assert all(set(numbers) == {"mse", "accuracy"} for numbers in result["metrics"].values())
    assert json.loads((run / "run.json").read_text())["settings"]["qubits"] == 2
    assert len(checkpoints(run)) == 3
    names = {path.name for path in (run / "logs").iterdir()}
    assert names == {"train", "validation", "steps", "worker-0", "worker-1"}
    assert {path.name for path in (run / "text").iterdir()} == {
        "worker-0.attempt-1.log", "worker-1.attempt-1.log",
    }  # fmt: skip
    assert not (run / "lease.json").exists()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_worker_costs_nothing(start, tmp_path, undisturbed, rank):
    gang = start(tmp_path, *LONG)
    gang.until(lambda: len(checkpoints(tmp_path / "hybrid")) >= 3)
    others = gang.worker(1 - rank)
    gang.worker(rank).kill()
    killed = time.monotonic()
    gang.until(lambda: not others.is_running() or others.status() == "zombie", timeout=60)
    assert time.monotonic() - killed < 30
    assert gang.end() == 0, gang.said
    assert "the gang starts again (1)" in gang.said
    assert "goes on at step" in gang.said
    assert distance(tmp_path / "hybrid", undisturbed[0]) <= 1e-6
    assert [line["epoch"] for line in metrics(tmp_path / "hybrid")] == list(range(1, 41))


def test_ctrl_c_leaves_a_checkpoint_at_a_step_and_the_same_command_goes_on(
    start, tmp_path, undisturbed
):
    run = tmp_path / "hybrid"
    gang = start(tmp_path, *LONG, "STEPS_PER_CALL=1", "CHECKPOINT_INTERVAL=40")
    gang.until(lambda: (run / "metrics.jsonl").exists())
    gang.process.send_signal(signal.SIGINT)
    assert gang.end(60) == 130, gang.said
    assert "make training RUN=hybrid` goes on" in gang.said
    (checkpoint,) = checkpoints(run)
    at = json.loads(checkpoint.read_text())["state"]
    again = start(tmp_path, *LONG)
    assert again.end() == 0, again.said
    assert f"goes on at step {at['step']} of epoch {at['epoch'] + 1} (attempt 2)" in again.said
    assert distance(run, undisturbed[0]) <= 1e-6
    assert {line["examples"] for line in metrics(run)} == {100}


def test_sigterm_of_a_chief_leaves_a_checkpoint_and_a_retryable_code(start, tmp_path):
    run = tmp_path / "hybrid"
    chief = start(tmp_path, *SMALL, "EPOCHS=10000", "WORKERS=1", module="training.worker")
    chief.until(lambda: checkpoints(run))
    chief.process.terminate()
    assert chief.end(30) == 143, chief.said
    assert "stopped by SIGTERM; the checkpoint is at step" in chief.said
    assert "Traceback" not in chief.said
    assert not (run / "lease.json").exists()


def test_a_gang_whose_starter_is_killed_leaves_nobody_behind(start, tmp_path):
    gang = start(tmp_path, *SMALL, "EPOCHS=10000")
    gang.until(lambda: checkpoints(tmp_path / "hybrid"))
    workers = [gang.worker(0), gang.worker(1)]
    gang.process.kill()
    gone, alive = psutil.wait_procs(workers, timeout=30)
    assert (len(gone), alive) == (2, [])


def dying(start, folder, *settings):
    """A worker whose model ends its process before the first step, at every start."""
    (folder / "dies.py").write_text("import os\ndef build(*_):\n    os.kill(os.getpid(), 9)\n")
    own = ("MODEL=dies:build", "RUN=dies", "WORKERS=1")
    return start(folder, *SMALL, *own, *settings, PYTHONPATH=str(folder))


def test_a_gang_that_is_lost_too_often_ends_retryable(start, tmp_path):
    gang = dying(start, tmp_path, "MAX_RESTARTS=0")
    assert gang.end(90) == 138, gang.said
    assert "more than MAX_RESTARTS allows" in gang.said


def test_a_deadline_leaves_a_checkpoint_and_a_retryable_code(start, tmp_path, undisturbed):
    gang = start(tmp_path, *LONG, "STEPS_PER_CALL=1", "CHECKPOINT_INTERVAL=40", "DEADLINE=1")
    assert gang.end(90) == 146, gang.said
    assert "DEADLINE has passed; the checkpoint is at step" in gang.said
    assert len(checkpoints(tmp_path / "hybrid")) == 1
    again = start(tmp_path, *LONG)
    assert again.end() == 0, again.said
    assert distance(tmp_path / "hybrid", undisturbed[0]) <= 1e-6


def test_a_chief_killed_after_its_result_still_ends_well(start, tmp_path):
    run = tmp_path / "hybrid"
    gang = start(tmp_path, *SMALL)
    gang.until(lambda: len(checkpoints(run)) >= 3)
    chief, other = gang.worker(0), gang.worker(1)
    # Weights are written after the last exchange but the one at the end, where all wait for all.
    gang.until((run / "model" / "weights.h5").exists, pause=0.001)
    other.suspend()
    gang.until((run / "result.json").exists, pause=0.001)
    chief.kill()
    other.resume()
    assert gang.end() == 0, gang.said
    assert "is already finished" in gang.said


def test_a_finished_run_is_left_alone_and_the_next_takes_a_number(start, undisturbed):
    storage = undisturbed[0].parent
    before = (undisturbed[0] / "result.json").read_bytes()
    gang = start(storage, *SMALL)
    assert gang.end() == 0, gang.said
    assert "run hybrid is finished: this one is hybrid-2" in gang.said
    assert (storage / "hybrid-2" / "result.json").exists()
    assert (undisturbed[0] / "result.json").read_bytes() == before


def test_a_pod_that_finds_its_run_finished_says_so_and_leaves(start, undisturbed):
    gang = start(undisturbed[0].parent, *SMALL, "RUN=hybrid", "WORKERS=1", module="training.worker")
    assert gang.end(60) == 0
    assert gang.said.strip() == "run hybrid is already finished: there is nothing left to do"


def test_an_unfinished_run_is_not_resumed_with_other_settings_nor_by_two_gangs(start, tmp_path):
    run = tmp_path / "hybrid"
    gang = start(tmp_path, *LONG, "EPOCHS=10000")
    gang.until(lambda: checkpoints(run))
    second = start(tmp_path, *LONG)
    assert second.end(60) == 2
    assert "run hybrid is in use by another job" in second.said
    gang.close()
    other = start(tmp_path, *LONG, "SEED=7")
    assert other.end(60) == 2
    assert "SEED=0 (now 7)" in other.said
    assert "Traceback" not in second.said + other.said


def test_a_corrupted_checkpoint_is_passed_over_with_a_warning(start, tmp_path, undisturbed):
    run = tmp_path / "hybrid"
    gang = start(tmp_path, *LONG)
    gang.until(lambda: len(checkpoints(run)) >= 3)
    gang.close()
    newest = checkpoints(run)[-1].with_suffix(".npz")
    newest.write_bytes(newest.read_bytes()[:-100])
    again = start(tmp_path, *LONG)
    assert again.end() == 0, again.said
    assert newest.name in again.said
    assert "using the checkpoint before it" in again.said
    assert distance(run, undisturbed[0]) <= 1e-6


def test_missing_workers_are_named_at_the_deadline(start, tmp_path):
    config = {"cluster": {"worker": ["127.0.0.1:61", "127.0.0.1:62"]},
              "task": {"type": "worker", "index": 0}}  # fmt: skip
    gang = start(tmp_path, *SMALL, "RENDEZVOUS_TIMEOUT=1", "RENDEZVOUS_PORT=0", module="training.worker",
                 TF_CONFIG=json.dumps(config))  # fmt: skip
    assert gang.end(60) == 144
    assert "worker 1 (127.0.0.1:62) has not come" in gang.said


def test_a_run_that_never_progresses_ends_with_its_cause(start, tmp_path):
    gang = dying(start, tmp_path, "MAX_ATTEMPTS=2")
    assert gang.end(90) == 2, gang.said
    assert "made no progress in 2 attempts in a row" in gang.said
    assert "out of memory?" in gang.said
