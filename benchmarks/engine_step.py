"""Time and memory of one training step in the NumPy interface: values and gradients.

python -m benchmarks.engine_step MODEL QUBITS BATCH
"""

import statistics
import sys
import time

import qfleet
from benchmarks.circuit_models import model, random_inputs
from benchmarks.subprocess_protocol import peak_gib

SECONDS = 2.0
"""Steps are repeated for so long. The first one counts only if it takes longer."""


def main(name: str, qubits: int, batch: int) -> None:
    """Print the median time of a step by trained symbols, and the peak memory of the process."""
    definition = model(name, qubits)
    data = random_inputs(definition, batch, None)
    compiled = qfleet.compile(
        definition.circuit,
        definition.inputs,
        definition.parameters,
        definition.observables,
        dtype="complex64",
        method="state_vector",
    )
    times: list[float] = []
    end = time.monotonic() + SECONDS
    while not times or time.monotonic() < end:
        start = time.perf_counter()
        compiled.value_and_gradient(data.angles, data.parameters, input_gradients=False)
        times.append(time.perf_counter() - start)
    median = statistics.median(times[1:] or times)
    print(
        f"{name}, {qubits} qubits, batch {batch}: {median * 1e3:.4g} ms per step,"
        f" {peak_gib():.2f} GiB at most"
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
