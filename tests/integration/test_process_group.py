"""Process groups of real processes with the fake trainer: restarts, exit codes, resuming, leases.

test_tensorflow_process_group.py uses the same entry point with TensorFlow.
"""

import json
import os
import re
import signal
import socket
import time

import psutil
import pytest

from common import storage
from common.runs import Run
from tests.support.patience import seconds
from tests.support.storage_emulator import BUCKET, Emulator, point_to
from tests.support.training_processes import (
    FAKE_TRAINING,
    FAKE_WORKER,
    ROOT,
    SMALL,
    TrainingProcess,
    checkpoints,
    distance,
    metrics,
    training_processes,
)

_start = pytest.fixture(training_processes)

LONG = (*SMALL[:-1], "EPOCHS=40")
ENDLESS = (*SMALL[:-1], "EPOCHS=100000")


@pytest.fixture
def start(_start):
    """Start the launcher with fake workers, or another module."""

    def start_fake(*args, module=FAKE_TRAINING, **environ):
        return _start(*args, module=module, **environ)

    return start_fake


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A finished run of 40 epochs with two workers, and the output."""
    storage = tmp_path_factory.mktemp("undisturbed")
    process = TrainingProcess(storage, *LONG, module=FAKE_TRAINING)
    assert process.wait() == 0, process.output
    return storage / "hybrid", process.output


def set_pace(storage, **faults):
    """Set seconds per step, or the step at which workers kill themselves."""
    storage.mkdir(parents=True, exist_ok=True)
    (storage / "pace.json").write_text(json.dumps(faults))


def attempts(run, rank=0):
    return json.loads((run / "attempts" / f"worker-{rank}.json").read_text())


def log_of(run, rank, attempt):
    return (run / "text" / f"worker-{rank}.attempt-{attempt}.log").read_text()


def test_worker_imports_no_large_package_itself(start, tmp_path):
    """So errors of the user appear quickly, and before a trainer imports TensorFlow."""
    process = start(tmp_path, *SMALL, "WORKERS=1", module=FAKE_WORKER, PYTHONPROFILEIMPORTTIME="1")
    assert process.wait(60) == 0, process.output
    imported = set(re.findall(r"^import time:.*\|\s*(\w+)$", process.output, re.M))
    assert "numpy" in imported
    assert not imported & {
        "cirq",
        "matplotlib",
        "pandas",
        "scipy",
        "sklearn",
        "sympy",
        "tensorflow",
    }


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.nightly), 3])
def test_result_does_not_depend_on_workers(start, tmp_path, undisturbed, workers):
    process = start(tmp_path, *LONG, f"WORKERS={workers}")
    assert process.wait() == 0, process.output
    assert distance(tmp_path / "hybrid", undisturbed[0]) == 0


def test_output_names_run_folder_and_next_steps(undisturbed):
    run, output = undisturbed
    first, second, *_ = output.splitlines()
    assert "with 2 workers on this machine" in first
    assert second == f"Starting run 'hybrid' in {run}"
    assert "epoch 40/40" in output
    tail = output.strip().splitlines()[-5:]
    assert tail == [
        f"Run folder: {run}",
        "Next steps:",
        f"  make inference STORAGE={run.parent} RUN=hybrid",
        f"  .venv/bin/python -m qfleet report STORAGE={run.parent} RUN=hybrid",
        f"  make tensorboard STORAGE={run.parent} RUN=hybrid",
    ]
    assert output.count("epoch 3/40 ") == 1


def test_events_stream_from_a_worker_on_stdout(start, tmp_path):
    process = start(tmp_path, *SMALL, "WORKERS=1", module=FAKE_WORKER, QFLEET_EVENTS="stdout")
    assert process.wait(60) == 0, process.output
    events = [json.loads(line) for line in process.output.splitlines()]
    kinds = [event["event"] for event in events]
    assert kinds.count("epoch") == 12
    assert kinds.count("checkpoint_saved") == 12
    assert kinds[:2] == ["worker_started", "run_started"]
    (finished,) = [event for event in events if event["event"] == "run_finished"]
    assert set(finished["metrics"]) == {"train", "validation", "test"}
    assert {event["rank"] for event in events} == {0}


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.exhaustive), 1])
def test_killed_worker_restarts_all_with_equal_weights(start, tmp_path, undisturbed, rank):
    run = tmp_path / "hybrid"
    set_pace(tmp_path, seconds=0.1)
    process = start(tmp_path, *LONG)
    process.wait_until(lambda: len(checkpoints(run)) >= 3)
    other = process.worker(1 - rank)
    process.worker(rank).kill()
    process.wait_until(lambda: not other.is_running() or other.status() == "zombie", timeout=60)
    set_pace(tmp_path)
    assert process.wait() == 0, process.output
    assert "restarting all workers (restart 1 of 10)" in process.output
    assert "Resuming run 'hybrid' from checkpoint: epoch" in process.output
    assert "(attempt 2)" in process.output
    assert distance(run, undisturbed[0]) == 0
    assert [line["epoch"] for line in metrics(run)] == list(range(1, 41))
    assert attempts(run)["attempts"] == 2


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.default), signal.SIGHUP],
)
def test_stop_signal_checkpoints_at_a_step_and_resumes(start, tmp_path, undisturbed, number):
    run = tmp_path / "hybrid"
    set_pace(tmp_path, seconds=0.2)
    process = start(tmp_path, *LONG, "CHECKPOINT_INTERVAL=40")
    process.wait_until(lambda: (run / "metrics.jsonl").exists())
    process.process.send_signal(number)
    assert process.wait(60) == 128 + number, process.output
    assert "RUN=hybrid` to resume" in process.output
    (checkpoint,) = checkpoints(run)
    state = json.loads(checkpoint.read_text())["state"]
    assert not (run / "lease.json").exists()
    set_pace(tmp_path)
    again = start(tmp_path, *LONG)
    assert again.wait() == 0, again.output
    position = f"epoch {state['epoch'] + 1}, step {state['step']} (attempt 2)"
    assert position in again.output
    assert distance(run, undisturbed[0]) == 0


def test_sigterm_of_chief_exits_143_with_checkpoint(start, tmp_path):
    run = tmp_path / "hybrid"
    chief = start(tmp_path, *ENDLESS, "WORKERS=1", module=FAKE_WORKER)
    chief.wait_until(lambda: checkpoints(run))
    chief.process.terminate()
    assert chief.wait(30) == 143, chief.output
    assert "stopped by SIGTERM; saved checkpoint: epoch" in chief.output
    assert "Traceback" not in chief.output
    assert not (run / "lease.json").exists()
    assert attempts(run)["cause"].startswith("stopped by SIGTERM")


def test_sigterm_of_stuck_chief_saves_last_boundary(start, tmp_path):
    """Its peer is suspended, so that the next step boundary does not come."""
    run = tmp_path / "hybrid"
    process = start(tmp_path, *ENDLESS, "CHECKPOINT_INTERVAL=100000", "MAX_RESTARTS=0")
    process.wait_until(lambda: (run / "metrics.jsonl").exists())
    chief, other = process.worker(0), process.worker(1)
    other.suspend()
    time.sleep(0.2)
    assert not checkpoints(run)
    chief.terminate()
    process.wait_until(lambda: checkpoints(run), timeout=30)
    process.wait_until(lambda: not chief.is_running() or chief.status() == "zombie", timeout=30)
    other.resume()
    assert process.wait(60) == 138, process.output


def test_killed_launcher_leaves_no_workers(start, tmp_path):
    process = start(tmp_path, *ENDLESS)
    process.wait_until(lambda: checkpoints(tmp_path / "hybrid"))
    workers = [process.worker(0), process.worker(1)]
    process.process.kill()
    gone, alive = psutil.wait_procs(workers, timeout=seconds(30))
    assert (len(gone), alive) == (2, [])


def test_max_restarts_ends_with_retryable_code(start, tmp_path):
    set_pace(tmp_path, kill_at_step=0)
    process = start(tmp_path, *SMALL, "WORKERS=1", "MAX_RESTARTS=2")
    assert process.wait(90) == 138, process.output
    assert "restart 2 of 2" in process.output
    assert "restart 3" not in process.output
    assert "MAX_RESTARTS=2" in process.output
    assert attempts(tmp_path / "hybrid")["attempts"] == 3


def test_max_attempts_ends_permanently_with_cause(start, tmp_path):
    set_pace(tmp_path, kill_at_step=0)
    process = start(tmp_path, *SMALL, "WORKERS=1", "MAX_ATTEMPTS=2")
    assert process.wait(90) == 2, process.output
    assert "MAX_ATTEMPTS=2" in process.output
    assert "out of memory?" in process.output
    assert attempts(tmp_path / "hybrid")["attempts"] == 2


@pytest.mark.exhaustive
def test_attempt_with_new_checkpoint_resets_the_limit(start, tmp_path):
    run = tmp_path / "hybrid"
    for step in (5, 10, 15):
        set_pace(tmp_path, kill_at_step=step)
        process = start(tmp_path, *LONG, "WORKERS=1", "MAX_ATTEMPTS=2", "MAX_RESTARTS=0")
        assert process.wait(90) == 138, process.output
    set_pace(tmp_path)
    process = start(tmp_path, *LONG, "WORKERS=1", "MAX_ATTEMPTS=2")
    assert process.wait(90) == 0, process.output
    assert attempts(run)["attempts"] == 4


@pytest.mark.exhaustive
def test_deadline_exits_146_with_checkpoint_and_resumes(start, tmp_path, undisturbed):
    run = tmp_path / "hybrid"
    set_pace(tmp_path, seconds=seconds(0.1))
    deadline = f"DEADLINE={seconds(2):.0f}"
    process = start(tmp_path, *LONG, "CHECKPOINT_INTERVAL=40", deadline)
    assert process.wait(90) == 146, process.output
    assert "DEADLINE" in process.output
    assert "restarting" not in process.output
    assert len(checkpoints(run)) == 1
    set_pace(tmp_path)
    again = start(tmp_path, *LONG)
    assert again.wait() == 0, again.output
    assert distance(run, undisturbed[0]) == 0


def test_chief_killed_after_its_result_ends_well(start, tmp_path):
    """The other worker waits in the last barrier, so all restart and find the run finished."""
    run = tmp_path / "hybrid"
    set_pace(tmp_path, stop="barrier", rank=1)
    process = start(tmp_path, *SMALL)
    process.wait_until((tmp_path / "stop.done").exists)
    chief, other = process.worker(0), process.worker(1)
    process.wait_until((run / "result.json").exists)
    chief.kill()
    other.resume()
    assert process.wait() == 0, process.output


def test_finished_run_gets_a_numbered_successor(start, undisturbed):
    storage = undisturbed[0].parent
    before = (undisturbed[0] / "result.json").read_bytes()
    process = start(storage, *SMALL)
    assert process.wait() == 0, process.output
    assert "Run 'hybrid' is finished; starting run 'hybrid-2'" in process.output
    assert (storage / "hybrid-2" / "result.json").exists()
    assert (undisturbed[0] / "result.json").read_bytes() == before


def test_worker_of_finished_run_exits_0(start, undisturbed):
    settings = (*SMALL, "RUN=hybrid", "WORKERS=1")
    process = start(undisturbed[0].parent, *settings, module=FAKE_WORKER)
    assert process.wait(60) == 0
    (line,) = process.output.strip().splitlines()
    assert "hybrid" in line
    assert "finished" in line


def test_run_in_training_is_refused_to_another_group(start, tmp_path):
    run = tmp_path / "hybrid"
    process = start(tmp_path, *ENDLESS)
    process.wait_until(lambda: checkpoints(run))
    second = start(tmp_path, *ENDLESS)
    assert second.wait(60) == 2, second.output
    assert "hybrid" in second.output
    assert "Traceback" not in second.output
    assert process.process.poll() is None


def test_run_is_not_resumed_with_other_settings(start, tmp_path):
    process = start(tmp_path, *ENDLESS)
    process.wait_until(lambda: checkpoints(tmp_path / "hybrid"))
    process.close()
    other = start(tmp_path, *ENDLESS, "SEED=7")
    assert other.wait(60) == 2, other.output
    assert "SEED=0 (now 7)" in other.output
    assert "Traceback" not in other.output


def test_chief_stops_when_its_lease_is_taken(start, tmp_path):
    run = tmp_path / "hybrid"
    set_pace(tmp_path, seconds=0.02)
    process = start(tmp_path, *ENDLESS, "WORKERS=1", module=FAKE_WORKER)
    process.wait_until(lambda: checkpoints(run))
    found = storage.read_versioned(run / "lease.json")
    taken = found.data.replace(b'"token": "', b'"token": "x')
    version = storage.write_if(run / "lease.json", taken, found.version)
    assert process.wait(60) != 0
    newest = checkpoints(run)[-1].name
    assert storage.read_versioned(run / "lease.json") == (taken, version)
    assert (run / "lease.json").read_bytes() == taken
    assert checkpoints(run)[-1].name == newest


def test_corrupt_checkpoint_falls_back_with_a_warning(start, tmp_path, undisturbed):
    run = tmp_path / "hybrid"
    set_pace(tmp_path, seconds=0.02)
    process = start(tmp_path, *LONG)
    process.wait_until(lambda: len(checkpoints(run)) >= 3)
    process.close()
    newest = checkpoints(run)[-1].with_suffix(".npz")
    newest.write_bytes(newest.read_bytes()[:-100])
    set_pace(tmp_path)
    again = start(tmp_path, *LONG)
    assert again.wait() == 0, again.output
    assert newest.name in again.output
    assert distance(run, undisturbed[0]) == 0


def test_missing_worker_is_named_at_the_timeout(start, tmp_path):
    config = {"cluster": {"worker": ["127.0.0.1:61", "127.0.0.1:62"]},
              "task": {"type": "worker", "index": 0}}  # fmt: skip
    settings = (*SMALL, "RENDEZVOUS_TIMEOUT=1", "RENDEZVOUS_PORT=0")
    process = start(tmp_path, *settings, module=FAKE_WORKER, TF_CONFIG=json.dumps(config))
    assert process.wait(60) == 144
    assert "worker 1 (127.0.0.1:62)" in process.output
    assert "RENDEZVOUS_TIMEOUT=1" in process.output
    # A failed rendezvous is not an attempt without progress.
    for _ in range(2):
        again = start(tmp_path, *settings, "MAX_ATTEMPTS=1", module=FAKE_WORKER,
                      TF_CONFIG=json.dumps(config))  # fmt: skip
        assert again.wait(60) == 144, again.output


def test_taken_rendezvous_port_exits_144(start, tmp_path):
    config = {"cluster": {"worker": ["127.0.0.1:61", "127.0.0.1:62"]},
              "task": {"type": "worker", "index": 0}}  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        process = start(tmp_path, *SMALL, f"RENDEZVOUS_PORT={port}", module=FAKE_WORKER,
                        TF_CONFIG=json.dumps(config))  # fmt: skip
        assert process.wait(60) == 144, process.output
    assert f"RENDEZVOUS_PORT={port}" in process.output


def test_permanent_failure_is_not_restarted(start, tmp_path):
    process = start(tmp_path, *SMALL, f"DATA={tmp_path}/missing.csv")
    assert process.wait(60) == 2, process.output
    assert "missing.csv" in process.output
    assert "restarting" not in process.output


def test_text_logs_record_the_reason_of_the_exit(start, tmp_path):
    run = tmp_path / "hybrid"
    process = start(tmp_path, *ENDLESS, "MAX_RESTARTS=0")
    process.wait_until(lambda: checkpoints(run))
    process.worker(1).kill()
    assert process.wait(60) == 138, process.output
    assert "ERROR worker 0 lost a peer" in log_of(run, 0, 1)


@pytest.mark.exhaustive
def test_training_on_flaky_gs_storage_uploads_its_logs(start, flaky_gs):
    """Every third request fails."""
    process = start(str(flaky_gs), *SMALL, "LOG_UPLOAD_INTERVAL=0.5")
    assert process.wait() == 0, process.output
    run = Run.at(storage.path(str(flaky_gs)), "hybrid")
    assert [line["epoch"] for line in run.metrics()] == list(range(1, 13))
    assert {path.name for path in storage.children(run.path)} >= {
        "run.json", "result.json", "metrics.jsonl", "text", "model", "checkpoints",
    }  # fmt: skip
    for rank in (0, 1):
        assert "Traceback" not in storage.read_bytes(run.text_log(rank, 1)).decode()


@pytest.mark.exhaustive
def test_storage_that_goes_away_exits_145(start, tmp_path, monkeypatch):
    site = tmp_path / "site"
    site.mkdir()
    # Retries end after seconds instead of a minute.
    code = f"from common import storage\nstorage.limit_retries({seconds(1.5)})\n"
    (site / "sitecustomize.py").write_text(code)
    emulator = Emulator().start()
    try:
        point_to(monkeypatch, emulator.address)
        place = f"gs://{BUCKET}/away"
        process = start(place, *ENDLESS, "MAX_RESTARTS=0", PYTHONPATH=f"{site}{os.pathsep}{ROOT}")
        root = storage.path(place)
        process.wait_until(lambda: storage.exists(root / "hybrid" / "checkpoints"), pause=0.2)
    finally:
        emulator.stop()
    assert process.wait(120) == 145, process.output
    assert "gs://" in process.output
    assert "Traceback" not in process.output
