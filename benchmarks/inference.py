"""How fast a run answers 20,000 examples of 12 qubits with 1 and 2 processes, and one that is lost.

    python -m benchmarks.inference [QUBITS=12] [TEST_EXAMPLES=20000]

Every example turns every qubit: a table of random features. The rates are those that `make
inference` prints (the longest worker's, without starting). "Lost" is a worker that is killed in the
middle: from its end until its next has answered a piece, which is mostly TensorFlow's start.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet

from common.errors import run_main
from common.settings import Settings


def main() -> None:
    """Train a little, answer thrice, print a line each."""
    said = Settings.from_args(["QUBITS=12", "TEST_EXAMPLES=20000", *sys.argv[1:]])
    assert said.test
    with tempfile.TemporaryDirectory(prefix="qfleet-") as name:
        folder = Path(name)
        _table(folder / "random.parquet", said.qubits, said.test + 600)
        shape = [f"QUBITS={said.qubits}", f"DATA={folder / 'random.parquet'}", "TRAIN_EXAMPLES=400",
                 "VALIDATION_EXAMPLES=200", f"TEST_EXAMPLES={said.test}"]  # fmt: skip
        run = [f"STORAGE={folder}", "RUN=random"]
        _ran("training", *shape, *run, "INITIALIZATIONS=1", "EPOCHS=1", "WORKERS=1")
        for threads in (1, 2):
            print(f"1 process of {threads}: {_rate(_ran('inference', *run, f'THREADS={threads}'))}")
        began = time.monotonic()
        print(f"2 processes of 1: {_rate(_ran('inference', *run, 'PARALLELISM=2', 'THREADS=1'))}")
        print(f"  from the command to the report: {time.monotonic() - began:.1f} s")
        for piece in folder.glob("random/predictions/test/*/piece-*"):
            piece.unlink()
        print(f"lost: {_lost(*run, 'PARALLELISM=2', 'THREADS=1', 'BATCH=64'):.1f} s")


def _table(path: Path, columns: int, rows: int) -> None:
    generator = np.random.Generator(np.random.PCG64(0))
    features = generator.normal(size=(rows, columns))
    table = {f"f{i}": features[:, i] for i in range(columns)}
    pa.parquet.write_table(pa.table({**table, "label": (features[:, 0] > 0).astype(int)}), path)


def _words(module: str, *args: str) -> list[str]:
    return [sys.executable, "-m", module, *args]


def _environment() -> dict[str, str]:
    return {n: v for n, v in os.environ.items() if not n.startswith("QFLEET_")}


def _ran(module: str, *args: str) -> str:
    done = subprocess.run(
        _words(module, *args), env=_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{module} {' '.join(args)}: {done.stderr}")
    return done.stdout


def _rate(said: str) -> str:
    found = re.search(r"in \S+ s: (.*)", said)
    assert found
    return found[0]


def _lost(*args: str) -> float:
    """Seconds from the end of a killed worker until its next has answered a piece."""
    killed, again = 0.0, False
    with subprocess.Popen(
        _words("inference", *args), env=_environment(), stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout
        for line in child.stdout:
            again = again or (killed > 0 and line.startswith("worker 1: pieces "))
            if not line.startswith("worker 1: piece "):
                continue
            if again:
                seconds = time.monotonic() - killed
                child.stdout.read()
                return seconds
            for one in psutil.Process(child.pid).children() if not killed else ():
                if one.environ().get("JOB_COMPLETION_INDEX") == "1":
                    one.kill()
                    killed = time.monotonic()
    raise SystemExit("worker 1 ended before it could be killed: raise TEST")


if __name__ == "__main__":
    sys.exit(run_main(main))
