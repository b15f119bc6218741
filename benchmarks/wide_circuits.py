"""Time of wide circuits by tensor networks: `python -m benchmarks.wide_circuits`.

A step is values and gradients of all readouts by all parameters, for a batch, in complex64 on all
cores. Prints a Markdown table; times of steps are medians. Each case is compiled twice: without
kept contraction paths, and with those that the first compilation kept.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import qfleet
from qfleet.circuits import ModelCircuit, qcnn
from qfleet.circuits.qcnn import Pooling
from qfleet.compiler.network.contraction_path import give_paths
from qfleet.engine.compiled_circuit import CompiledCircuit

BATCH, ROUNDS = 32, 5


@dataclass(frozen=True)
class WideCase:
    """A QCNN on a cluster state, and its data.

    Attributes:
        qubits: Width.
        layers: Layers before the readouts; None for layers down to one qubit.
        pool: As of `qcnn`.
        ring: As of `qcnn`.
        one_angle: If all but one angle of an example are 0, as in the data set `excitations`.
    """

    qubits: int
    layers: int | None
    pool: Pooling
    ring: bool = True
    one_angle: bool = False


CASES = (
    WideCase(1024, 1, "halves"),
    WideCase(2048, 1, "halves"),
    WideCase(1024, 2, "halves"),
    WideCase(2048, 2, "halves"),
    WideCase(1024, 2, "halves", one_angle=True),
    WideCase(1024, 3, "neighbours"),
    WideCase(32, None, "neighbours", ring=False),
    WideCase(64, None, "neighbours", ring=False),
)


def measure(case: WideCase) -> str:
    """Return a case's row of the table."""
    model = qcnn(case.qubits, layers=case.layers, pool=case.pool, ring=case.ring)
    compilation, _ = _compile(model)
    cached, compiled = _compile(model)
    random = np.random.default_rng(0)
    inputs = random.normal(size=(BATCH, len(model.inputs)))
    if case.one_angle:
        kept = random.integers(0, inputs.shape[1], BATCH)
        inputs *= np.eye(inputs.shape[1])[kept]
    parameters = random.normal(size=len(model.parameters))
    upstream = random.normal(size=(BATCH, compiled.readouts))

    def step() -> None:
        compiled.value_and_gradient(inputs, parameters, upstream, input_gradients=False)

    step()
    milliseconds = 1e3 * statistics.median(_times(step)) / BATCH
    contraction = compiled._source.contraction
    assert contraction is not None
    return (
        f"| {case.qubits:,} | {'all' if case.layers is None else case.layers} | {case.pool},"
        f" {'ring' if case.ring else 'chain'} | {'one' if case.one_angle else 'all'} |"
        f" {compiled.readouts} | {contraction.width} | {contraction.operations:,} |"
        f" {compilation:.1f} | {cached:.1f} | {milliseconds:.3g} |"
    )


def _compile(model: ModelCircuit) -> tuple[float, CompiledCircuit]:
    """Return the seconds of a compilation, with the paths that are on disk, and its result."""
    arguments = model.circuit, model.inputs, model.parameters, model.observables
    give_paths({})
    began = time.perf_counter()
    compiled = qfleet.compile(*arguments, dtype="complex64", method="tensor_network")
    return time.perf_counter() - began, compiled


def _times(call: Callable[[], None]) -> list[float]:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return times


def main() -> int:
    """Print the table."""
    print(
        "| qubits | layers | pooling | angles that differ | readouts | width | multiplications per"
        " example | compilation, s | with kept paths, s | step, ms per example |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_CACHE_HOME"] = folder
            print(measure(case), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
