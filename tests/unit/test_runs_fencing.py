"""A job that was stopped at any line of a commit writes nothing over the job that replaced it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common import checkpoints, lease, runs, storage
from common.errors import PeerLost, RunError, StorageUnavailable
from common.lease import holder
from common.runs import attempts, claim, run
from common.storage import durable, generations, local
from tests.support.stopped_thread import StoppedThread

MODULES = [attempts, checkpoints, claim, durable, generations, holder, lease, local, run]
ENDS = (PeerLost, RunError, StorageUnavailable)
STRIDE = int(os.environ.get("QFLEET_TEST_STRIDE", "17"))
"""Lines between two stops: all are too many for every run of the tests."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out fsync, and let no renewal happen by itself."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(lease, "RENEW_INTERVAL_SECONDS", 1000.0)


class Job:
    """The chief of a job, in this process. All jobs are attempts of one, so that none waits."""

    def __init__(self, root: Path, value: float) -> None:
        claimed = runs.claim_for_training(root, "r", {"seed": 0}, "f", "job")
        self.root, self.value = root, value
        self.finished = isinstance(claimed, runs.FinishedRun)
        if isinstance(claimed, runs.ClaimedRun):
            self.claimed = claimed
            self.attempts = runs.Attempts(claimed.run.path)
            self.number = self.attempts.begin(99, "job").attempts
            claimed.confirm()
            claimed.record("d", {}, {})

    def save(self, step: int) -> None:
        """Write a checkpoint whose content identifies this job."""
        arrays = {"x": np.full(3, self.value)}
        checkpoints.save(
            self.claimed.run.path, step, arrays, {"step": step}, keep=1, attempt=self.number,
            confirm=self.claimed.confirm,
        )  # fmt: skip

    def finish(self) -> None:
        """Write weights and result that identify this job."""
        file = self.root / f"weights-{self.value}"
        file.write_bytes(b"weights %f" % self.value)
        weights = self.claimed.run.write_model({"value": self.value}, file)
        metrics = {"test": {"mse": self.value}}
        self.claimed.finish({"metrics": metrics, "epochs": 1, "seconds": 1.0, "weights": weights})


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return all files of a run that people or later attempts read."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and not file.name.startswith(".")
    }


def at_each_stop(root: Path, act: Callable[[Job], Any], then: Callable[[Job, int], None]) -> None:
    """Stop a job at each STRIDE-th line of `act`, let another take over and do `then`, resume."""
    stop, stopped = 0, True
    while stopped:
        folder = root / str(stop)
        old = Job(folder, 1.0)
        old.save(5)
        call = StoppedThread(lambda job=old: act(job), MODULES, stop)
        stopped = call.stopped
        if not stopped:
            assert call.error is None, call.error
            break
        new = Job(folder, 2.0)
        then(new, stop)
        before = snapshot(folder / "r")
        call.resume()
        assert call.error is None or isinstance(call.error, ENDS), call.error
        after = snapshot(folder / "r")
        assert {name: after.get(name) for name in before} == before, stop
        if not new.finished:
            new.claimed.confirm()
        verify(folder, new, stop)
        stop += STRIDE
    assert stop > 100


def verify(root: Path, new: Job, stop: int) -> None:
    """The run is unfinished and resumes with the newer job, or finished and valid."""
    path = root / "r"
    if (path / "result.json").exists():
        mse = json.loads((path / "result.json").read_text())["metrics"]["test"]["mse"]
        finished = runs.Run(path)
        with finished.local_weights() as file:
            assert file.read_bytes() == b"weights %f" % mse, stop
        assert storage.read_json(finished.weights.parent / "model.json") == {"value": mse}, stop
    if not new.finished:
        found = checkpoints.newest(path)
        assert found is not None
        assert found.arrays["x"][0] == new.value, stop
        new.claimed.close()


def test_stopped_checkpoint_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    """The newer job is behind the older one in steps."""
    at_each_stop(tmp_path, lambda job: job.save(10), lambda new, stop: new.save(7))


def test_stopped_result_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    outcomes = set()

    def finish(new: Job, stop: int) -> None:
        outcomes.add(new.finished)
        if not new.finished:
            new.save(7)
            new.finish()

    at_each_stop(tmp_path, lambda job: job.finish(), finish)
    assert outcomes == {True, False}


def test_stopped_result_does_not_finish_the_run_of_a_newer_job(tmp_path: Path) -> None:
    """The newer job is still training when the older one continues."""

    def train(new: Job, stop: int) -> None:
        if not new.finished:
            new.save(7)

    def verify_unfinished(root: Path, new: Job, stop: int) -> None:
        assert new.finished == (root / "r" / "result.json").exists(), stop
        verify(root, new, stop)

    stop, stopped = 0, True
    while stopped:
        folder = tmp_path / str(stop)
        old = Job(folder, 1.0)
        call = StoppedThread(old.finish, MODULES, stop)
        stopped = call.stopped
        new = Job(folder, 2.0)
        train(new, stop)
        call.resume()
        verify_unfinished(folder, new, stop)
        stop += STRIDE


def test_attempts_are_in_the_order_of_the_lease(tmp_path: Path) -> None:
    """A start that was stopped at any line ends, or takes over with a higher number."""
    outcomes = set()
    stop, stopped = 0, True
    while stopped:
        folder = tmp_path / str(stop)
        started: list[Job] = []
        call = StoppedThread(lambda f=folder, s=started: s.append(Job(f, 1.0)), MODULES, stop)
        stopped = call.stopped
        new = Job(folder, 2.0)
        new.save(7)
        call.resume()
        assert call.error is None or isinstance(call.error, ENDS), call.error
        try:
            new.claimed.confirm()
            outcomes.add("ended")
        except PeerLost:
            outcomes.add("took over")
            assert started[0].number > new.number, stop
        else:
            if started:  # it was stopped after its start
                with pytest.raises(PeerLost):
                    started[0].claimed.confirm()
            found = checkpoints.newest(folder / "r")
            assert found is not None
            assert found.arrays["x"][0] == 2.0, stop
        numbers = [job.number for job in (*started, new, Job(folder, 3.0))]
        assert len(set(numbers)) == len(numbers)
        assert max(numbers) == numbers[-1]
        stop += STRIDE
    assert outcomes == {"ended", "took over"}


@pytest.mark.parametrize("when", ["weights", "model", "lease", "result"])
def test_killed_between_two_writes_is_resumable_or_finished(
    tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends after the write of weights, model.json, the commit, or result.json."""

    class Killed(BaseException):
        """As SIGKILL, it runs no handlers of Exception."""

    job = Job(tmp_path, 1.0)
    job.save(5)
    if when in ("weights", "model"):
        name = {"weights": "weights.h5", "model": "model.json"}[when]
        write = storage.write_atomic

        def write_and_die(path: Path, data: Any) -> None:
            write(path, data)
            if path.name == name:
                raise Killed

        monkeypatch.setattr(storage, "write_atomic", write_and_die)
    else:
        create = lease.write_final

        def create_and_die(*args: Any) -> None:
            if when == "result":
                create(*args)
            raise Killed

        monkeypatch.setattr(lease, "write_final", create_and_die)
    with pytest.raises(Killed):
        job.finish()
    monkeypatch.undo()
    new = Job(tmp_path, 2.0)
    assert new.finished == (when in ("lease", "result"))
    if not new.finished:
        new.save(7)
        new.finish()
        new.claimed.close()
    verify(tmp_path, Job(tmp_path, 3.0), 0)
    found = runs.Run(tmp_path / "r")
    assert len(storage.children(found.path / "model")) == 1
