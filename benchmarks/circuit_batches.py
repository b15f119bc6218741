"""A batch of different circuits in one call, and the same circuits one after another.

    python -m benchmarks.circuit_batches

Values and gradients of 1,000 circuits of 5 structures, in complex64, whose rotations have random
angles and three symbols. Both ways take turns; a time is the median of the rounds.
"""

import time
from collections.abc import Sequence

import cirq
import numpy as np
import sympy

import qfleet
from benchmarks.turns import median_seconds
from qfleet.engine.circuit_batch import CircuitBatch

QUBITS, ROWS, STRUCTURES = 8, 1000, 5
SINGLE_ROWS, ROUNDS = 100, 15
PARAMETERS = (0.1, 0.2, 0.3)


def main() -> None:
    """Print the time of compilation, and the milliseconds of each way."""
    circuits = [random_circuit(row % STRUCTURES, row) for row in range(ROWS)]
    start = time.perf_counter()
    batch = compile_batch(circuits)
    compiled = time.perf_counter() - start
    start = time.perf_counter()
    singles = [compile_batch([one]) for one in circuits[:SINGLE_ROWS]]
    each = (time.perf_counter() - start) / SINGLE_ROWS
    together, alone = median_seconds(
        [lambda: step(batch), lambda: [step(one) for one in singles]], ROUNDS
    )
    print(
        f"{ROWS} circuits of {STRUCTURES} structures on {QUBITS} qubits: compiled in"
        f" {compiled:.2f} s, each alone {1e3 * each:.1f} ms; {1e3 * together:.1f} ms per call, one"
        f" after another {1e3 * alone * ROWS / SINGLE_ROWS:.0f} ms (from {SINGLE_ROWS})"
    )


def random_circuit(structure: int, seed: int) -> cirq.Circuit:
    """Return three layers of rotations, by `seed`, and of CZ gates, by `structure`."""
    line = cirq.LineQubit.range(QUBITS)
    angles = np.random.default_rng(seed).uniform(0, 2 * np.pi, (3, QUBITS))
    pairs = np.random.default_rng(structure)
    circuit = cirq.Circuit()
    for layer, symbol in zip(angles, sympy.symbols("p0:3"), strict=True):
        circuit += [cirq.ry(angle)(one) for angle, one in zip(layer, line, strict=True)]
        circuit += cirq.rx(symbol).on_each(*line)
        order = pairs.permutation(QUBITS)
        circuit += [cirq.CZ(line[a], line[b]) for a, b in order.reshape(-1, 2)]
    return circuit


def compile_batch(circuits: Sequence[cirq.Circuit]) -> CircuitBatch:
    """Return the circuits with Z of each qubit as observables, compiled."""
    sums = [cirq.Z(one) for one in cirq.LineQubit.range(QUBITS)]
    return qfleet.compile_batch(list(circuits), observables=sums, dtype="complex64")


def step(batch: CircuitBatch) -> None:
    """Compute values and gradients."""
    batch.value_and_gradient(parameters=PARAMETERS)


if __name__ == "__main__":
    main()
