"""Time, memory and rates of one training step in the NumPy interface: values and gradients.

Each step has other parameters than the one before, as in training: the engine keeps the matrices
of the last parameters.

python -m benchmarks.engine_step MODEL QUBITS BATCH [--method METHOD]

The bound of state vectors is the longest of the times that multiply-adds, caches and memory take.
The other methods have the bound of multiply-adds only. Circuits of `density_matrix` and
`trajectories` have depolarizing noise after each moment.
"""

import argparse
import itertools
import statistics
import time

import numpy as np

from benchmarks.circuit_models import MODELS, BenchmarkModel, model, random_inputs
from benchmarks.engine_model import METHODS, STATE_VECTOR, compile_model, method_cost, step_cost
from benchmarks.machine_peaks import MachinePeaks, measure_peaks
from benchmarks.roofline import CHUNKS_BYTES, array_bytes, bounds, tile_bytes
from benchmarks.subprocess_protocol import peak_gib

SECONDS, STEPS = 2.0, 3
"""Steps are repeated for so long, and so often. The first one is not counted."""
PEAKS = 11
"""Measurements of the machine's rates."""


def main(name: str, qubits: int, batch: int, method: str) -> None:
    """Print the median time of a step by trained symbols, and the peak memory of the process."""
    definition = model(name, qubits)
    data = random_inputs(definition, batch, None)
    compiled = compile_model(definition, method=method)
    parameters = itertools.cycle([data.parameters, -data.parameters])
    times: list[float] = []
    end = time.monotonic() + SECONDS
    while len(times) < STEPS or time.monotonic() < end:
        current = next(parameters)
        start = time.perf_counter()
        compiled.value_and_gradient(data.angles, current, input_gradients=False)
        times.append(time.perf_counter() - start)
    median, memory = statistics.median(times[1:]), peak_gib()
    if method == STATE_VECTOR:
        rates = _state_rates(definition, qubits, batch, median)
    else:
        rates = _method_rates(definition, data.angles, method, median)
    print(
        f"{name}, {qubits} qubits, batch {batch}, {method}: {median * 1e3:.4g} ms per step,"
        f" {memory:.2f} GiB at most, {rates}"
    )


def _state_rates(definition: BenchmarkModel, qubits: int, batch: int, seconds: float) -> str:
    """Describe the rates of a step of state vectors, and the bound that holds."""
    cost, tile = step_cost(definition), tile_bytes(qubits, batch, states=2)
    peaks = _median_peaks(array_bytes(tile))
    each = bounds(peaks, cost, tile)
    longest = max(each, key=lambda name: each[name])
    return (
        f"{_gflops(batch * cost.operations / seconds, peaks)},"
        f" {batch * cost.cached_bytes / seconds / 1e9:.0f} of"
        f" {peaks.cached_bytes / 1e9:.0f} GB/s in caches,"
        f" {batch * each[longest] / seconds:.2f} of the bound ({longest})"
    )


def _method_rates(
    definition: BenchmarkModel, angles: np.ndarray, method: str, seconds: float
) -> str:
    """Describe the rate of multiply-adds of a step, and its share of the machine's."""
    batch, peaks = len(angles), _median_peaks(CHUNKS_BYTES)
    rate = batch * method_cost(definition, angles, method) / seconds
    share = rate / peaks.operations
    return f"{_gflops(rate, peaks)}, {share:.2f} of the bound (multiply-adds)"


def _gflops(rate: float, peaks: MachinePeaks) -> str:
    return f"{rate / 1e9:.0f} of {peaks.operations / 1e9:.0f} Gflop/s"


def _median_peaks(cached_bytes: int) -> MachinePeaks:
    each = [measure_peaks(cached_bytes) for _ in range(PEAKS)]
    return MachinePeaks(
        *(
            statistics.median(getattr(peaks, rate) for peaks in each)
            for rate in ("operations", "bytes", "cached_bytes")
        )
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("qubits", type=int)
    parser.add_argument("batch", type=int)
    parser.add_argument("--method", choices=METHODS, default=STATE_VECTOR)
    arguments = parser.parse_args()
    main(arguments.model, arguments.qubits, arguments.batch, arguments.method)
