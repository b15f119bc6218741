"""Real gangs for tests: started as a person starts them, watched and broken from outside."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import psutil

from qfleet.tensorflow.runtime import tf

# Small enough to start quickly, with several steps an epoch and a last batch that is not full.
SMALL = (
    "QUBITS=2", "TRAIN_EXAMPLES=100", "VALIDATION_EXAMPLES=30", "TEST_EXAMPLES=50", "BATCH=32", "INITIALIZATIONS=1",
    "PROFILER_PORT=0", "EPOCHS=12",
)  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]


class Gang:
    """A `python -m training` (or another module) in a process of its own."""

    def __init__(self, storage: Path | str, *args: str, module: str = "training", **environ: str):
        clean = {n: v for n, v in os.environ.items() if not n.startswith(("QFLEET_", "TF_"))}
        self.storage = storage
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, f"STORAGE={storage}", *args],
            cwd=ROOT,
            env={**clean, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._said: str | None = None

    def end(self, timeout: float = 240) -> int:
        """Wait for the end; the exit code."""
        self._said = self.process.communicate(timeout=timeout)[0]
        return self.process.returncode

    @property
    def said(self) -> str:
        """All that it printed, once it has ended."""
        assert self._said is not None
        return self._said

    def worker(self, rank: int) -> psutil.Process:
        """The living worker of that rank, told by its TF_CONFIG."""
        for child in psutil.Process(self.process.pid).children():
            try:
                config = json.loads(child.environ()["TF_CONFIG"])
            except (KeyError, psutil.Error):
                continue
            if config["task"]["index"] == rank:
                return child
        raise AssertionError(f"worker {rank} is not there")

    def until(
        self, condition: Callable[[], object], timeout: float = 120, pause: float = 0.02
    ) -> None:
        """Wait until the condition holds; fail if the gang ends before."""
        deadline = time.monotonic() + timeout
        while not condition():
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(pause)

    def close(self) -> None:
        """End it and its workers, if it has not ended."""
        if self.process.poll() is None:
            children = psutil.Process(self.process.pid).children(recursive=True)
            for process in [self.process, *children]:
                try:
                    process.send_signal(signal.SIGKILL)
                except psutil.Error:
                    continue
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


def gangs() -> Iterator[Callable[..., Gang]]:
    """A fixture's body: starts gangs, and ends those that are left."""
    started: list[Gang] = []

    def start(*args: object, **options: str) -> Gang:
        started.append(Gang(*args, **options))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for gang in started:
        gang.close()


def weights(run: Path) -> dict[str, np.ndarray]:
    """All arrays of a run's weights.h5."""
    found: dict[str, np.ndarray] = {}
    with h5py.File(run / "model" / "weights.h5") as file:
        file.visititems(
            lambda name, item: (
                found.update({name: np.array(item)}) if isinstance(item, h5py.Dataset) else None
            )
        )
    assert found
    return found


def distance(one: Path, other: Path) -> float:
    """The largest difference between two runs' weights."""
    a, b = weights(one), weights(other)
    assert a.keys() == b.keys()
    return max(float(np.abs(a[name] - b[name]).max()) for name in a)


def step_losses(run: Path) -> dict[int, float]:
    """The loss of each step, from the events that TensorBoard reads."""
    losses: dict[int, float] = {}
    for file in sorted((run / "logs" / "steps").iterdir()):
        for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            for value in event.summary.value:
                if value.tag == "loss by step":
                    losses[event.step] = float(tf.make_ndarray(value.tensor))
    return losses


def metrics(run: Path) -> list[dict]:
    """The lines of metrics.jsonl."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def checkpoints(run: Path) -> list[Path]:
    """The checkpoints that are complete, oldest first."""
    return sorted((run / "checkpoints").glob("step-*.json"))


def two_workers(module: str, *args: str) -> list[dict[str, Any]]:
    """What each of two workers of one strategy said: `python -m module` prints SAID and JSON."""
    holders = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    addresses = [f"127.0.0.1:{holder.getsockname()[1]}" for holder in holders]
    for holder in holders:
        holder.close()
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("QFLEET_", "TF_"))}
    started = []
    for rank in range(2):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", module, *args],
                cwd=ROOT,
                env={**clean, "TF_CONFIG": json.dumps(task), "PYTHONHASHSEED": "0"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    said = []
    try:
        for worker in started:
            out, err = worker.communicate(timeout=400)
            lines = [line for line in out.splitlines() if line.startswith("SAID ")]
            assert lines, err[-3000:]
            said.append(json.loads(lines[0].removeprefix("SAID ")))
    finally:
        for worker in started:
            worker.kill()
            worker.wait()
    return said
