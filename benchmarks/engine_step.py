"""Time, memory and rates of one training step in the NumPy interface: values and gradients.

python -m benchmarks.engine_step MODEL QUBITS BATCH
"""

import statistics
import sys
import time

from benchmarks.circuit_models import model, random_inputs
from benchmarks.engine_model import compile_model, step_cost
from benchmarks.machine_peaks import MachinePeaks, measure_peaks
from benchmarks.subprocess_protocol import peak_gib

SECONDS, STEPS = 2.0, 3
"""Steps are repeated for so long, and so often. The first one is not counted."""
PEAKS = 11
"""Measurements of the machine's rates."""


def main(name: str, qubits: int, batch: int) -> None:
    """Print the median time of a step by trained symbols, and the peak memory of the process."""
    definition = model(name, qubits)
    data = random_inputs(definition, batch, None)
    compiled = compile_model(definition)
    times: list[float] = []
    end = time.monotonic() + SECONDS
    while len(times) < STEPS or time.monotonic() < end:
        start = time.perf_counter()
        compiled.value_and_gradient(data.angles, data.parameters, input_gradients=False)
        times.append(time.perf_counter() - start)
    median, memory = statistics.median(times[1:]), peak_gib()
    cost, peaks = step_cost(definition), _median_peaks()
    print(
        f"{name}, {qubits} qubits, batch {batch}: {median * 1e3:.4g} ms per step,"
        f" {memory:.2f} GiB at most, {batch * cost.operations / median / 1e9:.0f} of"
        f" {peaks.operations / 1e9:.0f} Gflop/s,"
        f" {batch * peaks.seconds(cost.operations, cost.bytes) / median:.2f} of the bound"
    )


def _median_peaks() -> MachinePeaks:
    each = [measure_peaks() for _ in range(PEAKS)]
    return MachinePeaks(
        statistics.median(peaks.operations for peaks in each),
        statistics.median(peaks.bytes for peaks in each),
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
