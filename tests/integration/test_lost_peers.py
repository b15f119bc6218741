"""Workers that are killed, stopped, missing or different: the others notice it in every stage.

Real worker processes with the fake trainer, without a launcher, so that nothing else ends them.
"""

import json
import signal
import time

import psutil
import pytest

from tests.support.patience import seconds
from tests.support.training_processes import (
    FAKE_TRAINING,
    FAKE_WORKER,
    SMALL,
    distance,
    start_workers,
    training_processes,
)

start = pytest.fixture(training_processes)

PEER_TIMEOUT_SECONDS = round(seconds(2.5))
SETTINGS = (*SMALL, f"PEER_TIMEOUT={PEER_TIMEOUT_SECONDS}")


def set_fault(storage, **fault):
    storage.mkdir(parents=True, exist_ok=True)
    (storage / "pace.json").write_text(json.dumps(fault))


def wait_for_stop(process):
    """Wait until a process has stopped itself."""
    status = f"/proc/{process.process.pid}/stat"

    def is_stopped():
        with open(status) as file:
            return file.read().rpartition(")")[2].split()[0] == "T"

    process.wait_until(is_stopped)


def assert_others_leave(workers, stopped):
    """All others end with 138 and name the stopped worker."""
    wait_for_stop(workers[stopped])
    for rank, worker in enumerate(workers):
        if rank != stopped:
            assert worker.wait(60) == 138, worker.output
            name = "the chief (" if stopped == 0 else f"worker {stopped} ("
            assert f"{name}127.0.0.1:" in worker.output
            assert "no sign of life" in worker.output
    assert workers[stopped].process.poll() is None


def stop_in_stage(start, storage, stage, rank, size):
    if stage == "construction":
        set_fault(storage, stage=stage, rank=rank, signal=signal.SIGSTOP)
    else:
        set_fault(storage, stop=stage, rank=rank)
    workers = start_workers(start, storage, *SETTINGS, size=size)
    assert_others_leave(workers, rank)


@pytest.mark.parametrize(
    ("stage", "rank"),
    [pytest.param("construction", 1, marks=pytest.mark.exhaustive), ("step 3", 0)],
)
def test_stopped_worker_is_named_by_all_others(start, tmp_path, stage, rank):
    stop_in_stage(start, tmp_path, stage, rank, size=2)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("stage", "rank"),
    [
        ("construction", 0),
        ("construction", 1),
        ("build", 0),
        ("build", 1),
        pytest.param("step 3", 0, marks=pytest.mark.exhaustive),
        ("step 3", 1),
        ("measure test", 0),
        ("measure test", 1),
        ("barrier", 0),
        ("barrier", 1),
    ],
)
def test_worker_stopped_in_any_stage_is_named(start, tmp_path, stage, rank):
    stop_in_stage(start, tmp_path, stage, rank, size=3)


@pytest.mark.exhaustive
def test_chief_stopped_while_it_publishes_is_named(start, tmp_path):
    stop_in_stage(start, tmp_path, "save", 0, size=3)


def test_worker_killed_after_the_start_message_ends_all(start, tmp_path):
    """It dies before the connections of the trainer exist."""
    set_fault(tmp_path, stage="construction", rank=1, signal=signal.SIGKILL)
    chief, killed, other = start_workers(start, tmp_path, *SETTINGS, size=3)
    assert killed.wait(60) == -signal.SIGKILL
    for worker in (chief, other):
        assert worker.wait(60) == 138, worker.output
        assert "worker 1 (127.0.0.1:" in worker.output
        assert "no sign of life" not in worker.output, "its closed connection ends them at once"
    attempts = json.loads((tmp_path / "hybrid" / "attempts" / "worker-0.json").read_text())
    assert "worker 1 (127.0.0.1:" in attempts["cause"]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "number",
    [
        # test_peer_lost_before_the_strategy_is_noticed kills the worker too.
        pytest.param(signal.SIGKILL, marks=pytest.mark.nightly),
        signal.SIGSTOP,
    ],
)
def test_chief_inside_tensorflow_leaves_a_lost_worker(start, tmp_path, number):
    """The worker is lost after the start message, and TensorFlow would wait for it for ever."""
    set_fault(tmp_path, stage="construction", rank=1, signal=number)
    # Below the limit of the stage, which would name no worker.
    settings = (*SMALL, f"PEER_TIMEOUT={min(seconds(7.5), 40):.0f}")
    chief, lost = start_workers(start, tmp_path, *settings, size=2, modules={0: "training.worker"})
    assert chief.wait(120) == 138, chief.output
    assert "worker 1 (127.0.0.1:" in chief.output
    assert (lost.process.poll() is None) == (number == signal.SIGSTOP)


@pytest.mark.exhaustive
def test_paused_group_goes_on(start, tmp_path):
    """A machine that is suspended as a whole for longer than PEER_TIMEOUT loses no worker."""
    set_fault(tmp_path, seconds=0.05)
    workers = start_workers(start, tmp_path, *SETTINGS, size=2)
    workers[0].wait_until((tmp_path / "hybrid" / "metrics.jsonl").exists)
    for worker in workers:
        worker.process.send_signal(signal.SIGSTOP)
    time.sleep(PEER_TIMEOUT_SECONDS + 2)
    for worker in workers:
        worker.process.send_signal(signal.SIGCONT)
    for worker in workers:
        assert worker.wait(60) == 0, worker.output


def is_connected(chief):
    """Return True once a worker has connected to the chief."""
    connections = psutil.Process(chief.process.pid).net_connections("tcp")
    return any(connection.status == psutil.CONN_ESTABLISHED for connection in connections)


@pytest.mark.exhaustive
def test_waiting_worker_leaves_a_stopped_chief(start, tmp_path):
    limit = f"RENDEZVOUS_TIMEOUT={seconds(3):.0f}"
    (chief,) = start_workers(start, tmp_path, *SETTINGS, size=3, ranks=(0,))
    folder = tmp_path / "hybrid" / "rendezvous"
    chief.wait_until(lambda: folder.exists() and [*folder.iterdir()])
    (waiting,) = start_workers(start, tmp_path, *SETTINGS, limit, size=3, ranks=(1,))
    chief.wait_until(lambda: is_connected(chief))
    chief.process.send_signal(signal.SIGSTOP)
    assert waiting.wait(60) == 144, waiting.output
    assert "the chief (127.0.0.1:" in waiting.output
    assert limit in waiting.output


def test_worker_with_other_settings_ends_all(start, tmp_path):
    own = {1: ["LEARNING_RATE=5", "EPOCHS=13"]}
    workers = start_workers(start, tmp_path, *SETTINGS, size=3, own=own)
    for worker in workers:
        assert worker.wait(60) == 2, worker.output
        assert "LEARNING_RATE is 0.1 on workers 0 and 2, 5.0 on worker 1" in worker.output
        assert "EPOCHS is 12 on workers 0 and 2, 13 on worker 1" in worker.output
        assert "Traceback" not in worker.output
    assert not (tmp_path / "hybrid" / "result.json").exists()
    assert not (tmp_path / "hybrid" / "rendezvous").exists()


@pytest.mark.exhaustive
def test_group_without_a_worker_goes_on(start, tmp_path):
    """The missing one comes late, waits, and joins when another one is lost."""
    undisturbed, storage = tmp_path / "undisturbed", tmp_path / "elastic"
    whole = start(undisturbed, *SETTINGS, "RUN=hybrid", "WORKERS=1", module=FAKE_WORKER)
    assert whole.wait(60) == 0, whole.output
    set_fault(storage, seconds=0.05)
    settings = (*SETTINGS, "MIN_WORKERS=2", f"RENDEZVOUS_TIMEOUT={seconds(60):.0f}")
    early = (*settings, "ELASTIC_AFTER=1")
    chief, two = start_workers(start, storage, *early, size=3, ranks=(0, 2))
    metrics, log = storage / "hybrid" / "metrics.jsonl", "hybrid/text/worker-0.attempt-1.log"
    chief.wait_until(metrics.exists)
    set_fault(storage, seconds=1)
    (late,) = start_workers(start, storage, *settings, size=3, ranks=(1,))
    chief.wait_until(lambda: "joins at the next restart" in (storage / log).read_text())
    two.process.kill()
    assert chief.wait(60) == 138, chief.output
    assert "Starting 2 workers (MIN_WORKERS=2)" in chief.output
    assert "without worker 1 (127.0.0.1:" in chief.output
    assert late.process.poll() is None
    set_fault(storage)
    workers = [late, *start_workers(start, storage, *settings, size=3, ranks=(0, 2))]
    for worker in workers:
        assert worker.wait(60) == 0, worker.output
    assert "Starting 2 workers" not in workers[1].output
    assert distance(storage / "hybrid", undisturbed / "hybrid") == 0


@pytest.mark.exhaustive
def test_launcher_does_not_restart_for_a_left_out_worker(start, tmp_path):
    """It stops before it joins, and is killed later."""
    set_fault(tmp_path, seconds=0.1, stage="start", rank=1, signal=signal.SIGSTOP)
    settings = (*SETTINGS, "WORKERS=2", "MIN_WORKERS=1", "ELASTIC_AFTER=1")
    process = start(tmp_path, *settings, module=FAKE_TRAINING)
    process.wait_until((tmp_path / "hybrid" / "metrics.jsonl").exists)
    process.worker(1).kill()
    set_fault(tmp_path)
    assert process.wait(60) == 0, process.output
    assert "restarting" not in process.output
