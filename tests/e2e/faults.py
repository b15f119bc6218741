"""Faults of pods, and what remains of a training after them: its restart and its weights."""

import subprocess
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Self

import h5py
import numpy as np
import pytest

from common import storage
from common.runs import Run
from tests.e2e import kube
from tests.e2e.kube import Job, kubectl, until
from tests.support.patience import seconds

Fault = Callable[[Job, int], None]


def weights(run: storage.StoragePath, folder: Path) -> np.ndarray:
    """All of a run's weights in one row."""
    file = folder / f"{run.name}.h5"
    file.write_bytes(storage.read_bytes(Run(run).weights))
    found: dict[str, np.ndarray] = {}
    with h5py.File(file) as content:
        content.visititems(
            lambda name, item: (
                found.update({name: np.ravel(item)}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return np.concatenate([found[name] for name in sorted(found)])


class ChiefLog:
    """The chief's log from now on, to its last line."""

    def __init__(self, job: Job) -> None:
        self._child = subprocess.Popen(
            ["kubectl", "logs", "--follow", job.pod(0)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def last_epoch(self) -> int:
        """Return the last epoch of the pod, once it has ended."""
        text, _ = self._child.communicate(timeout=seconds(60))
        found = kube.parse_events(text, "epoch")
        return max((event.integer("epoch") for event in found), default=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()
        self._child.communicate()


def attempt(job: Job) -> tuple[int, int]:
    """Return the chief's attempt, and the epoch (from 1) in which it resumed."""
    found = job.events("run_resumed")
    return (found[0].integer("attempt"), found[0].integer("epoch")) if found else (1, 1)


def restarted(job: Job, since: datetime, before: int) -> float:
    """Seconds from `since` to the first epoch of an attempt after `before`."""

    def first() -> float:
        assert job.ended() != "Failed", job.messages()
        epochs = job.timed_events("epoch")
        if attempt(job)[0] > before:
            for moment, _ in epochs:
                if moment > since:
                    return (moment - since).total_seconds()
        return 0

    return until(first, 150, f"another attempt of {job.name}", pause=1)


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
