"""The rate of inference with 1 and 2 processes, and the delay after a lost worker.

    python -m benchmarks.inference [QUBITS=12] [TEST_EXAMPLES=20000]

The examples are rows of a random table, so the encoding rotates every qubit. The rates are those
that `make inference` prints: of the slowest worker, without start-up. The delay is the time from
the end of a killed worker until its replacement has computed a chunk; most of it is the start of
TensorFlow.
"""

import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from common.errors import DataError, run_main
from common.events import Event
from common.processes import ManagedProcess, find_child
from common.settings import Settings

DEFAULTS = ("QUBITS=12", "TEST_EXAMPLES=20000")
TRAIN_EXAMPLES, VALIDATION_EXAMPLES = 400, 200


def main() -> None:
    """Train a small model, run inference, and print one line per measurement."""
    settings = Settings.from_args([*DEFAULTS, *sys.argv[1:]])
    qubits, test_examples = settings.model.qubits, settings.data.test_examples
    assert test_examples
    with tempfile.TemporaryDirectory(prefix="qfleet-") as name:
        folder = Path(name)
        table = folder / "random.parquet"
        _write_table(table, qubits, test_examples + TRAIN_EXAMPLES + VALIDATION_EXAMPLES)
        sizes = [
            f"TRAIN_EXAMPLES={TRAIN_EXAMPLES}", f"VALIDATION_EXAMPLES={VALIDATION_EXAMPLES}",
            f"TEST_EXAMPLES={test_examples}",
        ]  # fmt: skip
        run = [f"STORAGE={folder}", "RUN=random"]
        short = ["INITIALIZATIONS=1", "EPOCHS=1", "WORKERS=1"]
        _run("training", f"QUBITS={qubits}", f"DATA={table}", *sizes, *run, *short)
        for threads in (1, 2):
            rate = _rate(_run("inference", *run, f"THREADS={threads}"))
            print(f"1 process, threads={threads}: {rate}")
        start = time.monotonic()
        print(f"2 processes, threads=1: {_rate(_run('inference', *run, *_two_workers()))}")
        print(f"  from the command to the report: {time.monotonic() - start:.1f} s")
        for chunk in folder.glob("random/predictions/test/*/chunk-*"):
            chunk.unlink()
        delay = _restart_seconds(*run, *_two_workers(), "BATCH=64")
        print(f"delay after a lost worker: {delay:.1f} s")


def _two_workers() -> tuple[str, str]:
    return "PARALLELISM=2", "THREADS=1"


def _write_table(path: Path, columns: int, rows: int) -> None:
    generator = np.random.Generator(np.random.PCG64(0))
    features = generator.normal(size=(rows, columns))
    table = {f"f{i}": features[:, i] for i in range(columns)}
    pa.parquet.write_table(pa.table({**table, "label": (features[:, 0] > 0).astype(int)}), path)


def _start(module: str, *args: str) -> ManagedProcess:
    command = [sys.executable, "-m", module, *args]
    return ManagedProcess(command, stdout="discard", stderr="capture")


def _run(module: str, *args: str) -> list[Event]:
    """Run a program and return its events.

    Raises:
        SystemExit: The program failed.
    """
    with _start(module, *args) as process:
        received = list(process.events())
    if process.exit_code:
        raise SystemExit(f"{module} {' '.join(args)}: {process.describe_exit()}")
    return received


def _rate(received: list[Event]) -> str:
    (finished,) = [event for event in received if event.kind == "run_finished"]
    return f"{finished.mapping('metrics')['examples_per_second']:,.0f} examples/s"


def _restart_seconds(*args: str) -> float:
    """Kill worker 1; return the seconds until its replacement has computed a chunk.

    Raises:
        DataError: There are not enough examples to kill the worker in time.
    """
    killed_at: float | None = None
    restarted = False
    with _start("inference", *args) as process:
        for event in process.events():
            if event.kind == "restarting":
                restarted = True
            if event.kind != "chunk_done" or event.integer("worker") != 1:
                continue
            if restarted and killed_at is not None:
                return time.monotonic() - killed_at
            worker = find_child(process.pid, lambda env: env["JOB_COMPLETION_INDEX"] == "1")
            if killed_at is None and worker is not None:
                worker.send_signal(signal.SIGKILL)
                killed_at = time.monotonic()
    raise DataError("worker 1 finished before it could be killed: raise TEST_EXAMPLES")


if __name__ == "__main__":
    sys.exit(run_main(main))
