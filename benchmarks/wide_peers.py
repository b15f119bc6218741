"""Wide circuits in other simulators: `python -m benchmarks.wide_peers` prints a Markdown table.

Each peer computes FEW and MORE readouts of one example in a process of its own. Times grow linearly
with the readouts, so the table has a line through both. All values are compared with qfleet's.
"""

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass

import numpy as np

import qfleet
from benchmarks import markdown
from benchmarks.peers.wide import random_example
from benchmarks.subprocess_protocol import peak_gib, reset_peak
from benchmarks.systems import ROOT
from qfleet.circuits import qcnn
from qfleet.circuits.qcnn import Pooling

PEERS = ("quimb", "default.tensor", "tensorcircuit")
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
LIMIT_SECONDS = 600.0
"""A longer time is a prediction only."""

PROCESS_SECONDS = 240.0
"""Time of a peer's process for FEW and MORE readouts."""

FEW, MORE = (5,), (5, 9, 12)
BATCH = 32
"""Examples of a step of qfleet. The peers compute one at a time."""
TOLERANCE = 1e-4


@dataclass(frozen=True)
class PeerCase:
    """A QCNN on a cluster state that ends after some layers; see `qcnn`."""

    qubits: int
    layers: int
    pool: Pooling


CASES = (PeerCase(64, 1, "halves"), PeerCase(64, 2, "halves"), PeerCase(1024, 1, "halves"))


def measure_qfleet(case: PeerCase) -> tuple[str, np.ndarray]:
    """Return qfleet's row of the table, and the values of the readouts MORE."""
    made = qcnn(case.qubits, layers=case.layers, pool=case.pool)
    idle, begin = reset_peak(), time.perf_counter()
    parts = made.circuit, made.inputs, made.parameters, made.observables
    compiled = qfleet.compile(*parts, dtype="complex64", method="tensor_network")
    compilation = time.perf_counter() - begin
    example, parameters = random_example(case.qubits, case.layers)
    inputs = np.random.default_rng(1).normal(size=(BATCH, case.qubits))
    steps = []
    for step in (
        lambda: compiled.expectation(inputs, parameters),
        lambda: compiled.value_and_gradient(inputs, parameters, input_gradients=False),
    ):
        step()
        begin = time.perf_counter()
        step()
        steps.append((time.perf_counter() - begin) / BATCH)
    row = _row("qfleet", case, compilation, steps[0], steps[1], peak_gib() - idle)
    return row, compiled.expectation(example, parameters)[list(MORE)]


def measure_peer(name: str, case: PeerCase, expected: np.ndarray) -> str:
    """Return a peer's row of the table.

    Raises:
        ValueError: Its values differ from the expected ones.
    """
    request = json.dumps({**asdict(case), "readouts": [FEW, MORE]})
    try:
        done = subprocess.run(
            [str(PYTHON), "-W", "ignore", "-m", "benchmarks.peers.wide", name],
            input=request + "\n", capture_output=True, text=True, timeout=PROCESS_SECONDS, cwd=ROOT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        reason = f"more than {PROCESS_SECONDS / 60:.0f} min for the first readouts"
        return _row(name, case, reason, "", "", "")
    if done.returncode:
        raise ValueError(f"{name} failed: {done.stderr.strip().splitlines()[-1]}")
    few, more = map(json.loads, done.stdout.splitlines()[-2:])
    found = np.array(more["value"]["result"])
    if np.abs(found - expected).max() > TOLERANCE:
        raise ValueError(f"{name} has the values {found}, and qfleet {expected}")
    readouts = case.qubits >> case.layers

    def total(low: float, high: float) -> float:
        """Return the seconds of all readouts, on the line through those of few and more."""
        return low + max(0.0, high - low) / (len(MORE) - len(FEW)) * (readouts - len(FEW))

    def step(part: str) -> float:
        return total(few[part]["step"], more[part]["step"])

    peak = more["peak_gib"]
    if "gradient" not in more:  # it does not compile either
        return _row(name, case, "none", step("value"), "none", peak)
    # The first gradient takes longer than later ones by its compilation.
    first = total(few["gradient"]["first"], more["gradient"]["first"])
    compilation = total(few["build"], more["build"]) + first - step("gradient")
    return _row(name, case, compilation, step("value"), step("gradient"), peak)


def _row(name: str, case: PeerCase, *cells: float | str) -> str:
    readouts = case.qubits >> case.layers
    shown = [cell if isinstance(cell, str) else _seconds(cell) for cell in cells[:3]]
    memory = cells[3] if isinstance(cells[3], str) else f"{cells[3]:.2f}"
    first = name, f"{case.qubits:,}", str(case.layers), str(readouts)
    return markdown.table_row([*first, *shown, memory])


def _seconds(seconds: float) -> str:
    """Return a time; one beyond the limit is marked."""
    if seconds > LIMIT_SECONDS:
        return f"more than 10 min (predicted: {seconds / 60:.0f} min)"
    return f"{seconds:.3g} s"


def main() -> int:
    """Print the table."""
    titles = ["system", "qubits", "layers", "readouts", "compilation"]
    titles += ["value per example", "gradient per example", "peak memory, GiB"]
    print(markdown.table(titles, []))
    for case in CASES:
        row, expected = measure_qfleet(case)
        print(row, flush=True)
        for name in PEERS:
            print(measure_peer(name, case, expected), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
