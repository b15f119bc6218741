"""A step of the engine next to another library's threads, in one process.

python -m benchmarks.shared_threads [--qubits N] [--batch N] [--rounds N]

Each library runs in a process of its own: a block of steps, then a block in which the library
multiplies two matrices with all its threads right before each step. Only the steps count. Prints
the median step of both kinds of blocks and their ratio. The last row is a process on one CPU, as by
`taskset --cpu-list 0`, and one whose engine has one thread.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from benchmarks.circuit_models import model, random_inputs
from benchmarks.systems import ROOT

ENVIRONMENTS = {
    "none": ".venv",
    "OpenBLAS (NumPy)": ".venv",
    "TensorFlow": ".venv",
    "OpenMP (PyTorch)": ".venv-peers",
}
SIZE = 512
"""Rows of the matrices: large enough for all threads of each library."""
STEPS, WARM_UP_STEPS = 100, 50
"""Of a block."""
SETTLE_SECONDS = 0.3
"""Before a block: threads of OpenBLAS wait in a loop for some tens of milliseconds."""


def other_work(library: str) -> Callable[[], object]:
    """Return a function that keeps the threads of a library busy once."""
    if library == "none":
        return lambda: None
    if library == "TensorFlow":
        import tensorflow

        matrix = tensorflow.ones((SIZE, SIZE))
        return lambda: tensorflow.linalg.matmul(matrix, matrix).numpy()
    if library == "OpenMP (PyTorch)":
        import torch

        tensor = torch.ones((SIZE, SIZE))
        return lambda: tensor @ tensor
    import numpy as np

    array = np.ones((SIZE, SIZE), np.float32)
    return lambda: array @ array


def measure(library: str, qubits: int, batch: int, rounds: int) -> dict[str, float]:
    """Return the median seconds of a step "alone" and "after" its work, and the "threads"."""
    import qfleet
    from benchmarks.engine_model import compile_model

    definition = model("entangling", qubits)
    data, compiled = random_inputs(definition, batch, None), compile_model(definition)
    step = functools.partial(
        compiled.value_and_gradient, data.angles, data.parameters, input_gradients=False
    )
    work = other_work(library)
    for _ in range(WARM_UP_STEPS):
        work()
        step()
    times: dict[str, list[float]] = {"alone": [], "after": []}
    for _ in range(rounds):
        for kind, before in (("alone", None), ("after", work)):
            time.sleep(SETTLE_SECONDS)
            times[kind] += _block(step, before)
    medians = {kind: statistics.median(each) for kind, each in times.items()}
    return medians | {"threads": qfleet.num_threads()}


def _block(step: Callable[[], object], before: Callable[[], object] | None) -> Iterator[float]:
    for _ in range(STEPS):
        if before:
            before()
        start = time.perf_counter()
        step()
        yield time.perf_counter() - start


def in_process(
    library: str, options: argparse.Namespace, cpus: set[int] | None = None, threads: str = ""
) -> dict[str, float]:
    """Measure in a process of the library's environment.

    Args:
        library: Of `ENVIRONMENTS`.
        options: Of the command line.
        cpus: That the process may use; all unless given.
        threads: QFLEET_NUM_THREADS.
    """
    numbers = [f"--{name}={getattr(options, name)}" for name in ("qubits", "batch", "rounds")]
    python = ROOT / ENVIRONMENTS[library] / "bin" / "python"
    done = subprocess.run(
        [python, "-m", "benchmarks.shared_threads", f"--library={library}", *numbers],
        cwd=ROOT,
        env=os.environ | {"QFLEET_NUM_THREADS": threads},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        preexec_fn=(lambda: os.sched_setaffinity(0, cpus)) if cpus else None,
    )
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> int:
    """Print the table, or the medians of one library as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--qubits", type=int, default=8)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--library", choices=ENVIRONMENTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.library:
        print(json.dumps(measure(options.library, options.qubits, options.batch, options.rounds)))
        return 0
    print("| library | engine's threads | step alone, ms | step after its work, ms | ratio |")
    print("|---|---|---|---|---|")
    for library in ENVIRONMENTS:
        found = in_process(library, options)
        _print_row(library, found["threads"], found["alone"], found["after"])
    first = min(os.sched_getaffinity(0))
    one, pinned = in_process("none", options, threads="1"), in_process("none", options, {first})
    _print_row("taskset, one CPU", pinned["threads"], one["alone"], pinned["alone"])
    return 0


def _print_row(library: str, threads: float, alone: float, after: float) -> None:
    milliseconds = f"{alone * 1e3:.3f} | {after * 1e3:.3f}"
    print(f"| {library} | {threads:.0f} | {milliseconds} | {after / alone:.2f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
