"""The few process groups that need TensorFlow; test_process_group.py has the others."""

import json

import psutil
import pytest

from tests.support.ports import own_ports
from tests.support.training_processes import (
    FAKE_WORKER,
    SMALL,
    TrainingProcess,
    checkpoints,
    distance,
    metrics,
    step_losses,
    training_processes,
)
from training.cluster.spec import ClusterSpec, loopback_addresses

pytestmark = pytest.mark.exhaustive

start = pytest.fixture(training_processes)

LONG = (*SMALL[:-1], "EPOCHS=40", "REPRODUCIBLE=true", "MICRO_BATCH=8")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A finished run of 40 epochs with two workers, and the output."""
    storage = tmp_path_factory.mktemp("undisturbed")
    process = TrainingProcess(storage, *LONG)
    assert process.wait() == 0, process.output
    return storage / "hybrid", process.output


# test_numerics.py has one and four workers, test_process_group.py three without TensorFlow.
@pytest.mark.parametrize("workers", [1, pytest.param(3, marks=pytest.mark.nightly)])
def test_other_groups_have_equal_weights(start, tmp_path, undisturbed, workers):
    losses = step_losses(undisturbed[0])
    assert len(set(losses.values())) > 100
    process = start(tmp_path, *LONG, f"WORKERS={workers}")
    assert process.wait() == 0, process.output
    assert step_losses(tmp_path / "hybrid") == losses
    assert distance(tmp_path / "hybrid", undisturbed[0]) == 0


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


def listening_hosts(process: TrainingProcess) -> set[str]:
    """Return the addresses that the launcher and its workers listen on: at least one per worker."""
    workers = psutil.Process(process.process.pid).children(recursive=True)
    found: set[str] = set()
    for each in [psutil.Process(process.process.pid), *workers]:
        hosts = {c.laddr.ip for c in each.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
        assert hosts or each.pid == process.process.pid, "TensorFlow listens in each worker"
        found |= hosts
    return found


@pytest.mark.timeout(200)
def test_peer_lost_before_the_strategy_is_noticed(start, tmp_path):
    """The other worker comes to the rendezvous only; TensorFlow would wait for it for ever."""
    *ports, rendezvous_port = own_ports(3)
    addresses = loopback_addresses(ports)
    settings = (*SMALL, f"RENDEZVOUS_PORT={rendezvous_port}")
    configs = [ClusterSpec(addresses, rank).to_config() for rank in range(2)]
    other = start(tmp_path, *settings, module=FAKE_WORKER, TF_CONFIG=configs[1])
    chief = start(tmp_path, *settings, module="training.worker", TF_CONFIG=configs[0])
    chief.wait_until((tmp_path / "hybrid" / "text" / "worker-0.attempt-1.log").exists)
    other.process.kill()
    assert chief.wait(150) == 138, chief.output
    assert f"worker 1 ({addresses[1]})" in chief.output
    assert not (tmp_path / "hybrid" / "metrics.jsonl").exists()


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("sign", ["text", "metrics.jsonl"])
def test_worker_stopped_at_any_moment_is_replaced(start, tmp_path, undisturbed, rank, sign):
    process = start(tmp_path, *LONG)
    process.wait_until((tmp_path / "hybrid" / sign).exists)
    process.worker(rank).suspend()
    assert process.wait() == 0, process.output
    assert f"Worker {rank} did not respond" in process.output
    assert distance(tmp_path / "hybrid", undisturbed[0]) == 0


@pytest.mark.nightly  # a killed worker of the installed command ends so too
def test_killed_worker_resumes_with_equal_weights(start, tmp_path, undisturbed, monkeypatch):
    run, temporary = tmp_path / "hybrid", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    process = start(tmp_path, *LONG)
    process.wait_until(lambda: len(checkpoints(run)) >= 3)
    assert listening_hosts(process) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    process.worker(1).kill()
    assert process.wait() == 0, process.output
    assert "restart 1 of" in process.output
    assert "Resuming run 'hybrid'" in process.output
    assert distance(run, undisturbed[0]) == 0
    assert [line["epoch"] for line in metrics(run)] == list(range(1, 41))
    assert list(temporary.iterdir()) == []  # TensorFlow removes files at exit, which a kill skips


# test_process_group.py ends a process group of the fake trainer by SIGTERM.
@pytest.mark.nightly
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
