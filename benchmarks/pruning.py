"""Pruning while training: angles that are gone, loss and step time, against the same without it.

    python -m benchmarks.pruning [QUBITS ...]

Trains hardware-efficient ansatz circuits with far more layers than the ground state of the
transverse-field Ising model needs, each with PRUNE=0 and pruned, by `python -m training`. Then the
gradients of both trained models are timed in turns, in one process. Prints a Markdown table.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import markdown
from common.environments import ROOT
from common.runs.loading import LoadedRun, load

LAYERS = 20
EPOCHS = {10: 1000, 16: 600}
"""By QUBITS."""
PRUNE = 0.8
SETTINGS = ("TASK=energy", "MODEL=hardware-efficient", f"LAYERS={LAYERS}", "LEARNING_RATE=0.05",
            "INITIALIZATIONS=1", "WORKERS=1", "CHECKPOINT_INTERVAL=100")  # fmt: skip
ROUNDS = 31


def main() -> None:
    """Print the table."""
    columns = ["qubits", "epochs", "angles", "gone", "gates", "left", "energy", "pruned", "worse",
               "step", "pruned", "ratio"]  # fmt: skip
    widths = [int(text) for text in sys.argv[1:]] or list(EPOCHS)
    with tempfile.TemporaryDirectory() as storage:
        rows = [measure(Path(storage), qubits) for qubits in widths]
    print(f"{' '.join(SETTINGS)}, PRUNE=0 and {PRUNE:g}; milliseconds per step:\n")
    print(markdown.table(columns, rows))


def measure(storage: Path, qubits: int) -> list[str]:
    """Train one circuit with and without pruning, and return a row of the table."""
    whole, pruned = (train(storage, qubits, prune) for prune in (0.0, PRUNE))
    energy, other = (one.result["metrics"]["test"]["energy"] for one in (whole, pruned))
    dropped, angles = pruned.result["pruned"]["dropped"], pruned.result["pruned"]["angles"]
    gates = [len(list(one.circuit.all_operations())) for one in (whole, pruned)]
    times = step_times(whole, pruned)
    return [
        *(str(qubits), str(EPOCHS[qubits]), str(angles), f"{dropped / angles:.0%}"),
        *(str(number) for number in gates),
        *(f"{energy:.4f}", f"{other:.4f}", f"{(other - energy) / abs(energy):.2%}"),
        *(f"{1e3 * seconds:.2f}" for seconds in times),
        f"{times[1] / times[0]:.2f}",
    ]


def train(storage: Path, qubits: int, prune: float) -> LoadedRun:
    """Train one model, and return its run."""
    name = f"{'pruned' if prune else 'whole'}-{qubits}"
    case = (f"QUBITS={qubits}", f"EPOCHS={EPOCHS[qubits]}", f"DATA=tfim:{qubits}:1.0")
    command = [sys.executable, "-m", "training", f"STORAGE={storage}", f"RUN={name}"]
    start = time.monotonic()
    done = subprocess.run(
        [*command, *SETTINGS, *case, f"PRUNE={prune:g}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    return load(name, str(storage))


def step_times(*runs: LoadedRun) -> list[float]:
    """Return the median seconds of loss and gradient of each run's model, measured in turns."""
    calls = [gradient_function(run) for run in runs]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for seconds, call in zip(times, calls, strict=True):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    return [statistics.median(each) for each in times]


def gradient_function(run: LoadedRun) -> Callable[[], object]:
    """Return the computation of a training step: the energy and its gradient."""
    from qfleet.tensorflow.runtime import tf

    model = run.model
    row = tf.ones([1, run.described["features"]])

    @tf.function
    def gradient() -> Any:
        with tf.GradientTape() as tape:
            energy = tf.reduce_sum(model(row, training=True))
        return tape.gradient(energy, model.trainable_variables)

    gradient()  # traces
    return lambda: [one.numpy() for one in gradient()]


if __name__ == "__main__":
    main()
