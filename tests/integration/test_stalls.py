"""Process groups with a stopped or stuck worker: nothing waits for ever, and no result changes.

Real processes with the fake trainer (tests/support/fake_trainer.py).
"""

import json
import re
import signal

import pytest

from tests.support.patience import seconds
from tests.support.training_processes import (
    FAKE_TRAINING,
    SMALL,
    TrainingProcess,
    checkpoints,
    distance,
    training_processes,
)

pytestmark = pytest.mark.exhaustive

_start = pytest.fixture(training_processes)

EPOCHS = (*SMALL[:-1], "EPOCHS=6")
# A hanging call is to be ended by the deadline, not by its own limit.
LIMITS = (f"STALL_TIMEOUT_MIN={seconds(30):.0f}", f"STALL_TIMEOUT_MAX={seconds(60):.0f}")
DEADLINE = (f"DEADLINE={seconds(4):.0f}", *LIMITS)
LIVENESS = {"LIVENESS_SECONDS": str(seconds(3))}


@pytest.fixture
def start(_start):
    """Start the launcher with fake workers."""
    return lambda *args, **environ: _start(*args, module=FAKE_TRAINING, **environ)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A finished run of 6 epochs with two workers."""
    storage = tmp_path_factory.mktemp("undisturbed")
    process = TrainingProcess(storage, *EPOCHS, module=FAKE_TRAINING)
    assert process.wait() == 0, process.output
    return storage / "hybrid"


def set_fault(storage, **faults):
    """Set a fault of the fake trainer."""
    (storage / "pace.json").write_text(json.dumps(faults))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("place", "rank"),
    [
        ("build", 0),
        ("build", 1),
        ("step 7", 0),
        pytest.param("step 7", 1, marks=pytest.mark.exhaustive),
        ("measure test", 0),
        ("measure test", 1),
        ("save", 0),
        ("save", 1),
        ("barrier", 0),
        ("barrier", 1),
    ],
)
def test_stopped_worker_is_killed_and_all_restart(start, tmp_path, undisturbed, place, rank):
    if place == "save" and rank == 1:
        pytest.skip("only the chief saves the model")
    set_fault(tmp_path, stop=place, rank=rank)
    process = start(tmp_path, *EPOCHS, **LIVENESS)
    assert process.wait(120) == 0, process.output
    assert f"Worker {rank} did not respond" in process.output
    assert "restart 1 of 10" in process.output
    assert distance(tmp_path / "hybrid", undisturbed) == 0


@pytest.mark.default
def test_worker_stopped_at_its_start_is_replaced(start, tmp_path, undisturbed):
    process = start(tmp_path, *EPOCHS, **LIVENESS)
    process.wait_until(lambda: has_worker(process, 1), pause=0.001)
    process.worker(1).send_signal(signal.SIGSTOP)
    assert process.wait(120) == 0, process.output
    assert "Worker 1 did not respond" in process.output
    assert distance(tmp_path / "hybrid", undisturbed) == 0


def test_stopped_group_is_replaced(start, tmp_path, undisturbed):
    set_fault(tmp_path, seconds=0.5)
    process = start(tmp_path, *EPOCHS, **LIVENESS)
    process.wait_until(lambda: checkpoints(tmp_path / "hybrid"))
    for rank in (0, 1):
        process.worker(rank).send_signal(signal.SIGSTOP)
    set_fault(tmp_path)
    assert process.wait(120) == 0, process.output
    assert "Worker 0 did not respond" in process.output
    assert "Worker 1 did not respond" in process.output
    assert distance(tmp_path / "hybrid", undisturbed) == 0


@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.default), 1])
def test_hanging_step_ends_at_its_limit(start, tmp_path, undisturbed, rank):
    set_fault(tmp_path, hang="step 7", rank=rank)
    limits = (f"STALL_TIMEOUT_MIN={seconds(2):.0f}", f"STALL_TIMEOUT_MAX={seconds(60):.0f}")
    process = start(tmp_path, *EPOCHS, *limits)
    assert process.wait(120) == 0, process.output
    assert re.search(r"made no progress in \d+ seconds", process.output)
    assert "a training call" in process.output
    assert distance(tmp_path / "hybrid", undisturbed) == 0


def test_deadline_leaves_a_checkpoint_of_a_hanging_group(start, tmp_path):
    set_fault(tmp_path, hang="step 7", rank=1)
    process = start(tmp_path, *EPOCHS, "CHECKPOINT_INTERVAL=1000", *DEADLINE)
    assert process.wait(120) == 146, process.output
    (checkpoint,) = checkpoints(tmp_path / "hybrid")
    assert checkpoint.name == "step-00000007-1.json"
    assert "Traceback" not in process.output


def test_deadline_holds_while_storage_hangs(start, tmp_path):
    set_fault(tmp_path, hang="commit 8", rank=0)
    process = start(tmp_path, *EPOCHS, "WORKERS=1", *DEADLINE)
    assert process.wait(120) == 146, process.output
    (checkpoint,) = checkpoints(tmp_path / "hybrid")
    assert checkpoint.name == "step-00000004-1.json"


def has_worker(process: TrainingProcess, rank: int) -> bool:
    """Return True once the worker's process exists."""
    try:
        return process.worker(rank).is_running()
    except AssertionError:
        return False
