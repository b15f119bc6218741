"""Kill one of two workers during training, and compare the final weights with an undisturbed run.

Run:   .venv/bin/python examples/kill_and_resume.py    (after a first `make training`)
Takes: one minute.
Shows: the killed process, the restart, and that the weights of both runs are bit-identical.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import psutil

ROOT = Path(__file__).parents[1]
EPOCHS = 40
SETTINGS = ["WORKERS=2", f"EPOCHS={EPOCHS}"]


def start(storage: Path, run: str) -> subprocess.Popen:
    """Start `python -m training`, which starts one process per worker."""
    command = [sys.executable, "-m", "training", f"STORAGE={storage}", f"RUN={run}", *SETTINGS]
    return subprocess.Popen(command, cwd=ROOT)


def find_worker(training: subprocess.Popen, rank: int) -> psutil.Process:
    """Wait for the worker process of a rank, which its TF_CONFIG states."""
    while training.poll() is None:
        for process in psutil.Process(training.pid).children(recursive=True):
            try:
                config = json.loads(process.environ().get("TF_CONFIG", "{}"))
            except psutil.Error:  # the process starts or ends just now
                continue
            if config.get("task", {}).get("index") == rank:
                return process
        time.sleep(0.1)
    raise ProcessLookupError(f"training ended before worker {rank} started")


def read_weights(run: Path) -> dict[str, np.ndarray]:
    """Return the weights of a finished run by name."""
    weights = {}

    def add(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset):
            weights[name] = item[...]

    result = json.loads((run / "result.json").read_text())
    with h5py.File(run / result["weights"]["path"]) as file:
        file.visititems(add)
    return weights


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        storage = Path(folder)
        assert start(storage, "undisturbed").wait() == 0

        training = start(storage, "killed")
        worker = find_worker(training, rank=1)
        metrics = storage / "killed" / "metrics.jsonl"  # one line per epoch
        while not metrics.exists() or not metrics.read_text():
            assert training.poll() is None, "training ended before its first epoch"
            time.sleep(0.01)
        epoch = len(metrics.read_text().splitlines())
        assert epoch < EPOCHS, "training was faster than this script: increase EPOCHS"
        worker.kill()
        print(f"Killed worker 1 (process {worker.pid}) after epoch {epoch}", flush=True)
        assert training.wait() == 0

        one, other = (read_weights(storage / run) for run in ("undisturbed", "killed"))
        same = one.keys() == other.keys() and all(
            np.array_equal(value, other[name]) for name, value in one.items()
        )
        print(f"The weights of both runs are {'bit-identical' if same else 'different'}")
        sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
