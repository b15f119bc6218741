"""Workers that die in their start: the job ends with the cause, for every way to run it."""

import json
import os
import time

import pytest

from tests.support.training_processes import (
    FAKE_TRAINING,
    FAKE_WORKER,
    ROOT,
    SMALL,
    checkpoints,
    training_processes,
)

start = pytest.fixture(training_processes)

KILLER = """
import importlib.abc, json, os, signal, sys

class Killer(importlib.abc.MetaPathFinder):
    '''Kills this process when it imports a module, as the kernel does when memory runs out.'''

    def find_spec(self, name, path=None, target=None):
        rank = json.loads(os.environ.get("TF_CONFIG") or '{"task": {"index": 0}}')["task"]["index"]
        if name == os.environ["KILL_AT_IMPORT"] and str(rank) == os.environ["KILL_RANK"]:
            count = os.environ["KILL_COUNT"]
            with open(count, "a+") as file:
                file.seek(0)
                done = len(file.read())
                if done < int(os.environ.get("KILLS", 1000)):
                    file.write("x")
                    file.flush()
                    os.kill(os.getpid(), signal.SIGKILL)

sys.meta_path.insert(0, Killer())
"""


@pytest.fixture
def killer(tmp_path):
    """Return the environment that kills a rank whenever it imports a module."""

    def environment(module, rank, kills=1000):
        site = tmp_path / "site"
        site.mkdir(exist_ok=True)
        (site / "sitecustomize.py").write_text(KILLER)
        return {
            "PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "KILL_AT_IMPORT": module,
            "KILL_RANK": str(rank), "KILL_COUNT": str(tmp_path / "kills"), "KILLS": str(kills),
        }  # fmt: skip

    return environment


def config(rank, port=1):
    """A TF_CONFIG of two workers, as the operator sets it."""
    workers = [f"127.0.0.1:{port}", "127.0.0.1:2"]
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}})


@pytest.mark.parametrize(
    "module",
    [
        "training.train",
        pytest.param("common.data.loading", marks=pytest.mark.exhaustive),
        pytest.param("numpy", marks=pytest.mark.exhaustive),
    ],
)
def test_chief_killed_before_the_rendezvous_ends_with_the_limit(start, tmp_path, killer, module):
    """A supervisor starts it again each time, without any memory of its own."""
    root = tmp_path / "runs"
    for _ in range(2):
        process = start(root, *SMALL, "WORKERS=1", "MAX_ATTEMPTS=2", module=FAKE_WORKER,
                        **killer(module, 0))  # fmt: skip
        assert process.wait(60) == -9, process.output
    last = start(root, *SMALL, "WORKERS=1", "MAX_ATTEMPTS=2", module=FAKE_WORKER)
    assert last.wait(60) == 2
    assert "2 attempts in a row (MAX_ATTEMPTS=2)" in last.output
    assert "killed without an error message (out of memory?)" in last.output
    # The count starts again, and there is nothing in the way of the run.
    again = start(root, *SMALL, "WORKERS=1", "MAX_ATTEMPTS=2", module=FAKE_WORKER)
    assert again.wait(60) == 0, again.output


def test_worker_killed_in_its_start_ends_the_chief_too(start, tmp_path, killer, free_port):
    """The chief waits with the cause of the worker, and not until RENDEZVOUS_TIMEOUT."""
    root = tmp_path / "runs"
    settings = (*SMALL, "WORKERS=2", "MAX_ATTEMPTS=2", f"RENDEZVOUS_PORT={free_port}")
    chief = start(root, *settings, module=FAKE_WORKER, TF_CONFIG=config(0), QFLEET_JOB_ID="j")
    for _ in range(2):
        worker = start(root, *settings, module=FAKE_WORKER, TF_CONFIG=config(1),
                       QFLEET_JOB_ID="j", **killer("training.train", 1))  # fmt: skip
        assert worker.wait(60) == -9, worker.output
    last = start(root, *settings, module=FAKE_WORKER, TF_CONFIG=config(1), QFLEET_JOB_ID="j")
    assert last.wait(60) == 2, last.output
    assert chief.wait(60) == 2, chief.output
    for process in (chief, last):
        assert "worker 1 of run hybrid made no progress in 2 attempts" in process.output
        assert "out of memory?" in process.output


@pytest.mark.exhaustive
def test_job_survives_four_kills_in_its_start_with_pauses(start, tmp_path, killer):
    root = tmp_path / "runs"
    environment = killer("training.train", 0, kills=4)
    process = start(root, *SMALL, "WORKERS=1", module=FAKE_TRAINING, **environment)
    began = time.monotonic()
    assert process.wait() == 0, process.output
    assert time.monotonic() - began > 1 + 2 + 4
    pauses = [line for line in process.output.splitlines() if "starts in a row failed" in line]
    assert [line.split("waiting ")[1].split(" s ")[0] for line in pauses] == ["1", "2", "4"]
    assert "out of memory?" in pauses[0]


def test_sigterm_in_the_start_does_not_count(start, tmp_path, free_port):
    """A worker that waits for others is evicted more often than MAX_ATTEMPTS."""
    record = tmp_path / "hybrid" / "attempts" / "worker-1.json"
    for number in range(1, 4):
        worker = start(tmp_path, *SMALL, "WORKERS=2", "MAX_ATTEMPTS=1",
                       f"RENDEZVOUS_PORT={free_port}", module=FAKE_WORKER,
                       TF_CONFIG=config(1))  # fmt: skip
        worker.wait_until(lambda n=number: record.exists()
                          and json.loads(record.read_text())["attempts"] == n)  # fmt: skip
        worker.process.terminate()
        assert worker.wait(60) == 143, worker.output
    assert json.loads(record.read_text())["failed"] == 0


def test_refused_model_leaves_the_name_of_the_run_free(start, tmp_path):
    """Corrected settings are those of another run, and start at once."""
    for _ in range(2):
        process = start(tmp_path, *SMALL, "WORKERS=2", module=FAKE_TRAINING, FAKE_REFUSED="1")
        assert process.wait(60) == 2, process.output
        assert process.output.count("MODEL=hybrid is refused") == 1
    corrected = start(tmp_path, *SMALL, "SEED=7", "WORKERS=2", module=FAKE_TRAINING)
    assert corrected.wait(60) == 0, corrected.output
    assert "starts in a row failed" not in corrected.output


def test_other_settings_are_refused_before_the_lease(start, tmp_path):
    process = start(tmp_path, *SMALL[:-1], "EPOCHS=100000", "WORKERS=1", module=FAKE_WORKER)
    process.wait_until(lambda: checkpoints(tmp_path / "hybrid"))
    other = start(tmp_path, *SMALL, "SEED=7", "WORKERS=1", module=FAKE_WORKER)
    assert other.wait(60) == 2
    assert "SEED=0 (now 7)" in other.output
    assert "checking that its holder is alive" not in other.output


def test_chief_whose_run_is_taken_over_ends_without_a_commit(start, tmp_path):
    """It has no checkpoint to write for a long time, and stops all the same."""
    run = tmp_path / "hybrid"
    settings = (*SMALL[:-1], "EPOCHS=1000000", "WORKERS=1", "CHECKPOINT_INTERVAL=1000000")
    chief = start(tmp_path, *settings, module=FAKE_WORKER, QFLEET_JOB_ID="j")
    chief.wait_until(lambda: (run / "metrics.jsonl").exists())
    newer = start(tmp_path, *settings, module=FAKE_WORKER, QFLEET_JOB_ID="j")
    assert chief.wait(60) == 138, chief.output
    assert "a newer attempt of this job" in chief.output
    assert not checkpoints(run)
    assert newer.process.poll() is None
