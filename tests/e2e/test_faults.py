"""Faults: a job whose pods are deleted, evicted and killed has the weights of an undisturbed job.

One job gets the faults in turn; another, with the same settings, none. The nightly run has each
fault of each worker, here and in test_engines.py. The campaign of test_chaos.py has others.
"""

import contextlib
import os
import re
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from common import storage
from tests.e2e import kube
from tests.e2e.faults import (
    ChiefLog,
    Fault,
    attempt,
    delete,
    evict,
    force,
    kill,
    restarted,
    starve,
    weights,
)
from tests.e2e.kube import Job, kubectl, until

INTERVAL_EPOCHS = 5  # between two checkpoints
SETTINGS = (
    "MODEL=hybrid", "QUBITS=4", "TRAIN_EXAMPLES=200", "VALIDATION_EXAMPLES=50",
    "TEST_EXAMPLES=100", "BATCH=32", "INITIALIZATIONS=1",
    f"CHECKPOINT_INTERVAL={INTERVAL_EPOCHS}", "EPOCHS=400", "MEMORY=1500Mi",
)  # fmt: skip
# Seconds from a fault to the first epoch after the restart. On a slow machine, the limit is the
# time of an undisturbed job to its first epoch, times this factor.
AIM_SECONDS, LIMIT_SECONDS, STARTUP_FACTOR = 25.0, 45.0, 2.5


def start(name: str, *settings: str) -> Job:
    """A job of this file's size."""
    return kube.start(name, *SETTINGS, *settings)


@pytest.fixture(scope="module")
def started() -> list[float]:
    """The undisturbed job's seconds to its first epoch."""
    return []


@pytest.fixture(scope="module")
def calm(cluster_storage: None, started: list[float]) -> Job:
    """The undisturbed job, at its end."""
    since = datetime.now(UTC)
    job = start("calm")
    assert job.end(300) == "Succeeded"
    first, _ = job.timed_events("epoch")[0]
    started.append((first - since).total_seconds())
    return job


@pytest.fixture(scope="module")
def broken(calm: Job) -> Iterator[Job]:
    """The job that gets all faults."""
    job = start("broken")
    yield job
    job.delete()


@pytest.fixture(scope="module")
def seconds() -> list[float]:
    """The seconds of each restart."""
    return []


@pytest.mark.parametrize(
    ("fault", "rank"),
    [
        # Each kind of fault is tested on one of the two workers.
        pytest.param(delete, 1, marks=pytest.mark.nightly),  # an eviction ends a pod so, too
        pytest.param(delete, 0, marks=pytest.mark.nightly),
        pytest.param(evict, 1, marks=pytest.mark.nightly),
        (evict, 0),
        pytest.param(force, 1, marks=pytest.mark.nightly),
        pytest.param(force, 0, marks=pytest.mark.nightly),  # the kill is of the other worker
        (kill, 1),
        pytest.param(kill, 0, marks=pytest.mark.nightly),
        pytest.param(starve, 1, marks=pytest.mark.nightly),  # the kernel kills it, too
    ],
)
def test_workers_restart_after_a_fault(
    broken: Job,
    seconds: list[float],
    measured: Callable[[str], None],
    fault: Fault,
    rank: int,
) -> None:
    before, resumed_in = attempt(broken)
    broken.reach(resumed_in + INTERVAL_EPOCHS + 1)
    with ChiefLog(broken) as chief:
        time.sleep(0.5)
        since = datetime.now(UTC)
        fault(broken, rank)
        took = restarted(broken, since, before)
        if fault is not starve:
            seconds.append(took)
        epoch = attempt(broken)[1]
        repeated = chief.last_epoch() - (epoch - 1)
    measured(
        f"{fault.__name__} worker {rank}: {took:.1f} s to the first epoch,"
        f" {max(repeated, 0)} epochs repeated"
    )
    assert repeated <= INTERVAL_EPOCHS + 1  # the last one ran during the checkpoint's upload


def test_training_survives_restart_of_storage(broken: Job, measured: Callable[[str], None]) -> None:
    before = broken.reach(attempt(broken)[1] + 2)
    (pod,) = kube.get("pods", selector="app.kubernetes.io/component=storage")
    if not kube.kill(pod["metadata"]["name"]):
        pytest.skip("the node's processes are not this machine's")
    since = time.monotonic()
    broken.reach(before + 3 * INTERVAL_EPOCHS)
    measured(f"storage killed: {time.monotonic() - since:.1f} s for {3 * INTERVAL_EPOCHS} epochs")


def test_weights_equal_those_of_undisturbed_job(
    broken: Job,
    root: storage.StoragePath,
    tmp_path: Path,
    seconds: list[float],
    started: list[float],
    measured: Callable[[str], None],
) -> None:
    assert broken.end(400) == "Succeeded"
    difference = np.abs(weights(root / "broken", tmp_path) - weights(root / "calm", tmp_path)).max()
    measured(f"largest difference of a weight: {difference:.1e}")
    assert difference <= 1e-6
    median = statistics.median(seconds)
    times = "  ".join(f"{took:.1f}" for took in sorted(seconds))
    measured(
        f"from fault to first epoch: median {median:.1f} s (aim {AIM_SECONDS:g}); {times};"
        f" undisturbed {started[0]:.1f}"
    )
    assert median <= max(LIMIT_SECONDS, STARTUP_FACTOR * started[0])


def killed_after_result(name: str, root: storage.StoragePath) -> bool:
    """Kill a job's chief once its result exists; return False if it had ended before."""
    job = start(name, "EPOCHS=10")
    until(lambda: job.epoch() >= 1, 120, "the first epoch")
    before, pids = job.uid(0), kube.processes(job.pod(0))
    if not pids:
        pytest.skip("the node's processes are not this machine's")
    result = root / name / "result.json"
    until(lambda: storage.exists(result), 120, "the result", pause=0.005)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert job.end(120) == "Succeeded"
    assert storage.read_json(result)["run"] == name
    killed = job.uid(0) != before
    assert killed == (not job.events("epoch"))
    job.delete()
    return killed


@pytest.mark.nightly  # test_process_group.py has a group on this machine
def test_chief_killed_after_result_is_harmless(root: storage.StoragePath) -> None:
    # It still uploads logs and releases the lease, so there is a short time for killing it.
    assert any(killed_after_result(f"late-{number}", root) for number in range(3))


def test_job_without_progress_fails_with_the_cause(root: storage.StoragePath) -> None:
    text = kube.launch("render", "RUN=starved", *SETTINGS, "MAX_ATTEMPTS=2", "MEMORY=1Gi").stdout
    small = re.sub(r"memory: .?1Gi.?$", "memory: 300Mi", text, flags=re.MULTILINE)
    assert small != text
    kubectl("apply", "--server-side", "-f", "-", given=small)
    job = Job("starved")
    assert job.end(180) == "Failed"
    messages = [message for message in job.messages() if "2 attempts" in message]
    assert messages
    assert all("memory" in message for message in messages)
    job.delete()
