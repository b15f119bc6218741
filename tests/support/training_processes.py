"""Real training processes for tests: started as a user starts them, observed, and killed."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import psutil

from common.settings.sources import last_of_each
from tests.support import patience
from tests.support.ports import own_ports
from training.group.secret import ENVIRONMENT_VARIABLE, new_secret

# Small enough to start quickly, with several steps per epoch and an incomplete last batch.
SMALL = (
    "QUBITS=2", "TRAIN_EXAMPLES=100", "VALIDATION_EXAMPLES=30", "TEST_EXAMPLES=50", "BATCH=32",
    "INITIALIZATIONS=1", "EPOCHS=12",
)  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]
FAKE_TRAINING = "tests.support.fake_training"
FAKE_WORKER = "tests.support.fake_worker"


class TrainingProcess:
    """A `python -m training` (or another module) in a process of its own.

    Args:
        storage: STORAGE.
        args: Other settings.
        module: The module to run.
        environ: Environment variables to add.
    """

    def __init__(self, storage: Path | str, *args: str, module: str = "training", **environ: str):
        clean = {n: v for n, v in os.environ.items() if not n.startswith(("QFLEET_", "TF_"))}
        self.storage = storage
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *last_of_each([f"STORAGE={storage}", *args])],
            cwd=ROOT,
            env={**clean, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._output: str | None = None

    def wait(self, timeout: float = 240) -> int:
        """Wait for the end, for seconds of an idle machine at most, and return the exit code."""
        self._output = self.process.communicate(timeout=patience.seconds(timeout))[0]
        return self.process.returncode

    @property
    def output(self) -> str:
        """All that it printed, after `wait`."""
        assert self._output is not None
        return self._output

    def worker(self, rank: int) -> psutil.Process:
        """Return the living worker of that rank, identified by its TF_CONFIG."""
        for child in psutil.Process(self.process.pid).children():
            try:
                config = json.loads(child.environ()["TF_CONFIG"])
            except (KeyError, psutil.Error):
                continue
            if config["task"]["index"] == rank:
                return child
        raise AssertionError(f"worker {rank} is not running")

    def wait_until(
        self, condition: Callable[[], object], timeout: float = 120, pause: float = 0.02
    ) -> None:
        """Wait until the condition holds; fail if the process ends before."""

        def holds() -> bool:
            if condition():
                return True
            assert self.process.poll() is None, self.process.communicate()[0]
            return False

        patience.wait_until(holds, timeout, pause)

    def close(self) -> None:
        """Kill it and its workers, if it has not ended."""
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


def start_workers(
    start: Callable[..., TrainingProcess],
    storage: Path,
    *args: str,
    size: int,
    ranks: Sequence[int] | None = None,
    own: Mapping[int, Sequence[str]] | None = None,
    modules: Mapping[int, str] | None = None,
) -> list[TrainingProcess]:
    """Start fake workers of one process group without a launcher.

    Args:
        start: Body of the fixture `training_processes`.
        storage: STORAGE.
        args: Settings of all workers.
        size: Number of workers in TF_CONFIG.
        ranks: Ranks to start; all by default.
        own: More settings of single workers, by rank.
        modules: Programs other than the fake worker, by rank.
    """
    file = storage / "addresses.json"
    if not file.exists():  # late workers join the same group
        storage.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(own_ports(size + 1)))
    *ports, rendezvous = json.loads(file.read_text())
    addresses = [f"127.0.0.1:{port}" for port in ports]
    settings = (*args, f"RENDEZVOUS_PORT={rendezvous}", "RUN=hybrid")
    started = []
    for rank in range(size) if ranks is None else ranks:
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
        more = (own or {}).get(rank, ())
        started.append(
            start(
                storage,
                *settings,
                *more,
                module=(modules or {}).get(rank, FAKE_WORKER),
                TF_CONFIG=json.dumps(config),
                QFLEET_JOB_ID="test",
            )
        )
    return started


def training_processes() -> Iterator[Callable[..., TrainingProcess]]:
    """Body of a fixture that starts processes, and ends those that are left."""
    started: list[TrainingProcess] = []

    def start(*args: object, **options: str) -> TrainingProcess:
        started.append(TrainingProcess(*args, **options))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for process in started:
        process.close()


def weights_file(run: Path) -> Path:
    """Return the weights that result.json names."""
    return run / json.loads((run / "result.json").read_text())["weights"]["path"]


def weights(run: Path) -> dict[str, np.ndarray]:
    """Return all arrays of a run's weights: HDF5, or the JSON of the fake trainer."""
    file = weights_file(run)
    if file.read_bytes()[:1] == b"[":
        return {"fake": np.array(json.loads(file.read_text()))}
    import h5py

    found: dict[str, np.ndarray] = {}
    with h5py.File(file) as content:
        content.visititems(
            lambda name, item: (
                found.update({name: np.array(item)}) if isinstance(item, h5py.Dataset) else None
            )
        )
    assert found
    return found


def distance(one: Path, other: Path) -> float:
    """Return the largest difference between the weights of two runs."""
    a, b = weights(one), weights(other)
    assert a.keys() == b.keys()
    return max(float(np.abs(a[name] - b[name]).max(initial=0.0)) for name in a)


def inference_output(storage: Path, *args: str) -> str:
    """Return the output of an inference of the run r, which must succeed.

    It runs in this process, which has imported TensorFlow; with PARALLELISM, its workers are
    processes of their own.
    """
    from common.errors import run_main
    from inference.__main__ import main

    printed = io.StringIO()
    words = ["inference", *last_of_each([f"STORAGE={storage}", "RUN=r", *args])]
    with mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(printed):
        code = run_main(main)
    assert code == 0, printed.getvalue()
    return printed.getvalue()


def assert_killed_run_has_equal_weights(
    start: Callable[..., Any], folder: Path, *settings: str
) -> None:
    """Train the run r twice, kill worker 1 of the second training, and compare the weights."""
    found = []
    for name in ("calm", "killed"):
        storage = folder / name
        storage.mkdir()
        trained = start(storage, *settings, "REPRODUCIBLE=true")
        if name == "killed":
            trained.wait_until(lambda run=storage / "r": checkpoints(run))
            trained.worker(1).kill()
        assert trained.wait() == 0, trained.output
        assert ("restart" in trained.output.lower()) == (name == "killed")
        (last,) = sorted((storage / "r" / "checkpoints").glob("*.npz"))[-1:]
        found.append(np.load(last))
    for name in found[0].files:
        if name.startswith("model/"):
            np.testing.assert_array_equal(found[0][name], found[1][name])


def step_losses(run: Path) -> dict[int, float]:
    """Return the loss of each step, from the events for TensorBoard."""
    from qfleet.tensorflow.runtime import tf

    losses: dict[int, float] = {}
    for file in sorted((run / "logs" / "steps").iterdir()):
        for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            for value in event.summary.value:
                if value.tag == "loss by step":
                    losses[event.step] = float(tf.make_ndarray(value.tensor))
    return losses


def metrics(run: Path) -> list[dict]:
    """Return the lines of metrics.jsonl."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def checkpoints(run: Path) -> list[Path]:
    """Return the complete checkpoints, oldest first."""
    return sorted((run / "checkpoints").glob("step-*.json"))


def run_two_workers(module: str, *args: str) -> list[dict[str, Any]]:
    """Run a module as two workers of one strategy.

    Returns:
        By rank, the JSON that `python -m module` printed after "RESULT".
    """
    addresses = [f"127.0.0.1:{port}" for port in own_ports(2)]
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("QFLEET_", "TF_"))}
    clean |= {"PYTHONHASHSEED": "0", ENVIRONMENT_VARIABLE: new_secret()}
    workers = []
    for rank in range(2):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
        workers.append(
            subprocess.Popen(
                [sys.executable, "-m", module, *args],
                cwd=ROOT,
                env={**clean, "TF_CONFIG": json.dumps(task)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    results = []
    try:
        for worker in workers:
            out, err = worker.communicate(timeout=patience.seconds(400))
            lines = [line for line in out.splitlines() if line.startswith("RESULT ")]
            assert lines, err[-3000:]
            results.append(json.loads(lines[0].removeprefix("RESULT ")))
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    return results
