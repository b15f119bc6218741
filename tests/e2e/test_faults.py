"""A job whose pods are deleted, evicted, killed and starved ends with the weights of a calm one.

One job takes every fault in turn; another, with the same settings, takes none.
"""

import contextlib
import os
import re
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import h5py
import numpy as np
import pytest

from common import storage
from tests.e2e import kube
from tests.e2e.kube import Job, kubectl, until

INTERVAL = 5  # epochs between two checkpoints
SETTINGS = (
    "MODEL=hybrid", "QUBITS=4", "TRAIN_EXAMPLES=200", "VALIDATION_EXAMPLES=50", "TEST_EXAMPLES=100", "BATCH=32", "INITIALIZATIONS=1",
    f"CHECKPOINT_INTERVAL={INTERVAL}", "EPOCHS=600", "MEMORY=1500Mi",
)  # fmt: skip
# From a fault to the first step of the gang that starts again, in seconds; where the machine is
# slow, so many times as long as an undisturbed job takes to its first.
AIM, LIMIT, INITIALIZATIONS = 25.0, 45.0, 2.5


def start(name: str, *settings: str) -> Job:
    """A job of this file's size."""
    return kube.start(name, *SETTINGS, *settings)


def weights(run: storage.StoragePath, folder: Path) -> np.ndarray:
    """All of a run's weights in one row."""
    file = folder / f"{run.name}.h5"
    file.write_bytes(storage.read_bytes(run / "model" / "weights.h5"))
    found: dict[str, np.ndarray] = {}
    with h5py.File(file) as content:
        content.visititems(
            lambda name, item: (
                found.update({name: np.ravel(item)}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return np.concatenate([found[name] for name in sorted(found)])


@pytest.fixture(scope="module")
def started() -> list[float]:
    """How long the undisturbed job took to its first epoch."""
    return []


@pytest.fixture(scope="module")
def calm(cluster_storage: None, started: list[float]) -> Job:
    """The job that nothing happens to, at its end."""
    since = datetime.now(UTC)
    job = start("calm")
    assert job.end(300) == "Succeeded"
    first = next(moment for moment, text in job.said() if text.startswith("epoch "))
    started.append((first - since).total_seconds())
    return job


@pytest.fixture(scope="module")
def broken(calm: Job) -> Iterator[Job]:
    """The job that everything happens to."""
    job = start("broken")
    yield job
    job.delete()


@pytest.fixture(scope="module")
def seconds() -> list[float]:
    """How long each restart took."""
    return []


class Chief:
    """What the chief's pod says from now on, to its very last word."""

    def __init__(self, job: Job) -> None:
        self._child = subprocess.Popen(
            ["kubectl", "logs", "--follow", job.pod(0)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def last_epoch(self) -> int:
        """The last epoch that it has done, once it is gone."""
        said, _ = self._child.communicate(timeout=60)
        return max(map(int, re.findall(r"^epoch (\d+)/", said, re.MULTILINE)), default=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()


def attempt(job: Job) -> tuple[int, int]:
    """The chief's attempt, and the epoch that it went on in, counted from 1."""
    found = kube.RESUMED.search(job.log())
    return (int(found[3]), int(found[2])) if found else (1, 1)


def restarted(job: Job, since: datetime, before: int) -> float:
    """Seconds from `since` to the first epoch of an attempt after `before`."""

    def first() -> float:
        assert job.ended() != "Failed", job.messages()
        said = job.said()
        if attempt(job)[0] > before:
            for moment, text in said:
                if text.startswith("epoch ") and moment > since:
                    return (moment - since).total_seconds()
        return 0

    return until(first, 150, f"another attempt of {job.name}")


def delete(job: Job, rank: int) -> None:
    kubectl("delete", "pod", job.pod(rank), "--wait=false")


def force(job: Job, rank: int) -> None:
    kubectl("delete", "pod", job.pod(rank), "--force", "--grace-period=0", "--wait=false")


def evict(job: Job, rank: int) -> None:
    kube.evict(job.pod(rank))


def kill(job: Job, rank: int) -> None:
    if not kube.kill(job.pod(rank)):
        pytest.skip("the node's processes are not this machine's")


def starve(job: Job, rank: int) -> None:
    kube.run_out_of_memory(job.pod(rank))


@pytest.mark.parametrize(
    ("fault", "rank"),
    [(delete, 1), (delete, 0), (evict, 1), (evict, 0), (force, 1), (force, 0), (kill, 1),
     (kill, 0), (starve, 1)],
)  # fmt: skip
def test_the_gang_starts_again_after_a_fault(
    broken: Job,
    seconds: list[float],
    measured: Callable[[str], None],
    fault: Callable[[Job, int], None],
    rank: int,
) -> None:
    before, went_on = attempt(broken)
    broken.reach(went_on + INTERVAL + 1)
    with Chief(broken) as chief:
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
    assert repeated <= INTERVAL + 1  # the last of them beside the checkpoint's upload


def test_training_goes_on_when_the_storage_starts_again(
    broken: Job, measured: Callable[[str], None]
) -> None:
    before = broken.reach(attempt(broken)[1] + 2)
    (pod,) = kube.get("pods", selector="app.kubernetes.io/component=storage")
    if not kube.kill(pod["metadata"]["name"]):
        pytest.skip("the node's processes are not this machine's")
    since = time.monotonic()
    broken.reach(before + 3 * INTERVAL)
    measured(f"storage killed: {time.monotonic() - since:.1f} s for {3 * INTERVAL} epochs")


def test_the_weights_are_those_of_the_job_that_nothing_happened_to(
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
    told = "  ".join(f"{took:.1f}" for took in sorted(seconds))
    measured(
        f"from fault to first epoch: median {median:.1f} s (aim {AIM:g}); {told};"
        f" undisturbed {started[0]:.1f}"
    )
    assert median <= max(LIMIT, INITIALIZATIONS * started[0])


def killed_after_result(name: str, root: storage.StoragePath) -> bool:
    """Kill a job's chief once its result is there; whether it was still there to be killed."""
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
    assert killed == (f"run {name} is already finished" in job.log())
    job.delete()
    return killed


def test_a_chief_that_is_killed_after_its_result_costs_nothing(root: storage.StoragePath) -> None:
    # It has logs to send and a lease to give back, so there is time to kill it, but not much.
    assert any(killed_after_result(f"late-{number}", root) for number in range(3))


def test_a_job_that_can_not_progress_fails_with_the_cause(root: storage.StoragePath) -> None:
    text = kube.launch("render", "RUN=starved", *SETTINGS, "MAX_ATTEMPTS=2", "MEMORY=1Gi").stdout
    small = re.sub(r"memory: .?1Gi.?$", "memory: 300Mi", text, flags=re.MULTILINE)
    assert small != text
    kubectl("apply", "--server-side", "-f", "-", given=small)
    job = Job("starved")
    assert job.end(180) == "Failed"
    said = "made no progress in 2 attempts in a row"
    (message,) = {message for message in job.messages() if said in message}
    assert "out of memory?" in message
    job.delete()
