"""The few process groups that need TensorFlow; test_process_group.py has the others."""

import json

import pytest

from tests.support.training_processes import (
    SMALL,
    TrainingProcess,
    checkpoints,
    distance,
    metrics,
    step_losses,
    training_processes,
)

start = pytest.fixture(training_processes)

LONG = (*SMALL[:-1], "EPOCHS=40")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A finished run of 40 epochs with two workers, and the output."""
    storage = tmp_path_factory.mktemp("undisturbed")
    process = TrainingProcess(storage, *LONG)
    assert process.wait() == 0, process.output
    return storage / "hybrid", process.output


def test_one_two_and_three_workers_have_equal_losses(start, tmp_path, undisturbed):
    found = {2: step_losses(undisturbed[0])}
    for workers in (1, 3):
        process = start(tmp_path / str(workers), *LONG, f"WORKERS={workers}")
        assert process.wait() == 0, process.output
        found[workers] = step_losses(tmp_path / str(workers) / "hybrid")
    for step in range(1, 31):
        assert found[1][step] == pytest.approx(found[2][step], abs=1e-4)
        assert found[1][step] == pytest.approx(found[3][step], abs=1e-4)
    assert len({round(found[1][step], 6) for step in range(1, 31)}) > 25


def test_each_example_is_counted_once_per_epoch(undisturbed):
    lines = metrics(undisturbed[0])
    assert [line["epoch"] for line in lines] == list(range(1, 41))
    assert {line["examples"] for line in lines} == {100}
    assert {line["val_examples"] for line in lines} == {30}


def test_finished_run_has_the_documented_layout(undisturbed):
    run, output = undisturbed
    assert not [line for line in output.splitlines() if "grpc" in line or "cuda" in line.lower()]
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


def test_killed_worker_resumes_with_equal_weights(start, tmp_path, undisturbed):
    run = tmp_path / "hybrid"
    process = start(tmp_path, *LONG)
    process.wait_until(lambda: len(checkpoints(run)) >= 3)
    process.worker(1).kill()
    assert process.wait() == 0, process.output
    assert "restart 1 of" in process.output
    assert "Resuming run 'hybrid'" in process.output
    assert distance(run, undisturbed[0]) == 0
    assert [line["epoch"] for line in metrics(run)] == list(range(1, 41))


def test_sigterm_resumes_within_an_epoch(start, tmp_path, undisturbed):
    run = tmp_path / "hybrid"
    process = start(tmp_path, *LONG, "STEPS_PER_CALL=1", "CHECKPOINT_INTERVAL=40")
    process.wait_until(lambda: (run / "metrics.jsonl").exists())
    process.process.terminate()
    assert process.wait(60) == 143, process.output
    (checkpoint,) = checkpoints(run)
    state = json.loads(checkpoint.read_text())["state"]
    again = start(tmp_path, *LONG)
    assert again.wait() == 0, again.output
    position = f"epoch {state['epoch'] + 1}, step {state['step']} (attempt 2)"
    assert position in again.output
    assert distance(run, undisturbed[0]) == 0
    assert {line["examples"] for line in metrics(run)} == {100}
