"""Fidelity kernel matrices: qfleet.kernels, PennyLane's kernels, and Qiskit Machine Learning's.

    .venv-peers/bin/python -m benchmarks.kernels

The matrix of 1,000 rows with themselves, for the ZZ feature map of 10 qubits, 2 layers and linear
entanglement (arXiv:1804.11326), in complex128. qfleet computes all of it. PennyLane's
`square_kernel_matrix` runs a circuit and the reverse of another one per pair, so it
computes the first rows only, and its time is scaled by the number of pairs. Both take turns; a
time is the median of the rounds. The values of the common rows are compared first.

`FidelityStatevectorKernel` of Qiskit Machine Learning computes the whole matrix once, if the
package is installed: `.venv-peers` has Qiskit, but not this package.

A table shows the cost by the number of rows: that of the states, which is linear, and of the rest,
which is a matrix product. Its rate is compared with the rate of one product of the same blocks.
"""

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
import pennylane as qml

import qfleet
from benchmarks.markdown import table
from benchmarks.turns import median_seconds
from qfleet.circuits import zz_feature_map
from qfleet.kernels import FidelityKernel

ROWS, QUBITS, LAYERS = 1000, 10, 2
PEER_ROWS, ROUNDS = 24, 5
MOST_SECONDS, LEAST_RATIO, LEAST_QISKIT_RATIO = 1.5, 100, 20
TABLE_ROWS, BLOCK = (250, 500, 1000, 2000, 4000), (256, 4096)


def main() -> None:
    """Print seconds and the ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels")
    parser.add_argument("--peer-rows", type=int, default=PEER_ROWS, help="rows of PennyLane")
    parser.add_argument("--rows", type=int, nargs="+", default=TABLE_ROWS, help="of the table")
    options = parser.parse_args()
    few = options.peer_rows
    rows = np.random.default_rng(0).uniform(0, 2 * np.pi, (ROWS, QUBITS))
    model = zz_feature_map(QUBITS, LAYERS)
    kernel = FidelityKernel(model.circuit, model.inputs)
    evaluate = pennylane_kernel()

    def peer() -> np.ndarray:
        found = qml.kernels.square_kernel_matrix(
            rows[:few], evaluate, assume_normalized_kernel=True
        )
        return np.asarray(found)

    np.testing.assert_allclose(kernel(rows)[:few, :few], peer(), atol=1e-10)
    calls: list[Callable[[], np.ndarray]] = [lambda: kernel(rows), peer]
    own, measured = median_seconds(calls, ROUNDS)
    pairs, all_pairs = few * (few - 1) // 2, ROWS * (ROWS - 1) // 2
    scaled = measured * all_pairs / pairs
    print(
        f"{ROWS} rows, {QUBITS} qubits, {LAYERS} layers, {qfleet.num_threads()} threads\n"
        f"qfleet: {own:.3f} s for all {all_pairs:,} pairs (at most {MOST_SECONDS} s)\n"
        f"lightning.qubit: {measured:.2f} s for {pairs:,} pairs of {few} rows, scaled by the number"
        f" of pairs to {scaled:,.0f} s\n"
        f"ratio: {scaled / own:,.0f} (at least {LEAST_RATIO})"
    )
    report_qiskit(rows, kernel(rows), own)
    print(cost_by_rows(kernel, options.rows))


def cost_by_rows(kernel: FidelityKernel, numbers: Sequence[int]) -> str:
    """Return a table of the times of states and of the rest, by the number of rows."""
    random = np.random.default_rng(1)
    left, right = (random.normal(size=(size, 2**QUBITS)).astype(np.complex128) for size in BLOCK)
    (product,) = median_seconds([lambda: left @ right.T], ROUNDS)
    peak = 8 * left.size * BLOCK[1] / product  # a complex product has 8 operations
    lines = []
    for number in numbers:
        rows = random.uniform(0, 2 * np.pi, (number, QUBITS))
        states, whole = median_seconds(
            [lambda rows=rows: kernel.compiled.state(rows), lambda rows=rows: kernel(rows)], ROUNDS
        )
        rate = 4 * number**2 * 2**QUBITS / (whole - states)  # half of the products
        figures = (1e3 * states, 1e6 * states / number, 1e3 * (whole - states), rate / 1e9)
        lines.append([f"{number:,}", *(f"{one:.3g}" for one in figures), f"{rate / peak:.2f}"])
    columns = ["rows", "states, ms", "us per row", "rest, ms", "Gflop/s of the rest"]
    share = f"of {peak / 1e9:.0f} Gflop/s of one product"
    return table([*columns, share], lines)


def report_qiskit(rows: np.ndarray, expected: np.ndarray, own: float) -> None:
    """Print the seconds of Qiskit Machine Learning's state-vector kernel, and the ratio."""
    try:
        from qiskit.circuit.library import zz_feature_map as qiskit_feature_map
        from qiskit_machine_learning.kernels import FidelityStatevectorKernel
    except ImportError as error:
        print(f"Qiskit Machine Learning: not measured ({error})")
        return
    circuit = qiskit_feature_map(QUBITS, reps=LAYERS, entanglement="linear")
    peer = FidelityStatevectorKernel(feature_map=circuit)
    np.testing.assert_allclose(peer.evaluate(rows[:3]), expected[:3, :3], atol=1e-10)
    start = time.perf_counter()
    peer.evaluate(rows)
    seconds = time.perf_counter() - start
    print(
        f"Qiskit Machine Learning: {seconds:.1f} s for the whole matrix\n"
        f"ratio: {seconds / own:,.0f} (at least {LEAST_QISKIT_RATIO})"
    )


def pennylane_kernel() -> Callable[[np.ndarray, np.ndarray], float]:
    """Return the fidelity of two rows: |0...0> after the circuit of one and the other's reverse."""

    def encode(row: np.ndarray) -> None:
        for _ in range(LAYERS):
            for wire in range(QUBITS):
                qml.Hadamard(wire)
                qml.PhaseShift(2 * row[wire], wire)
            for wire in range(QUBITS - 1):
                phase = 2 * (np.pi - row[wire]) * (np.pi - row[wire + 1])
                # The same as a phase of odd parity, up to a global phase, which cancels.
                qml.IsingZZ(phase, wires=[wire, wire + 1])

    @qml.qnode(qml.device("lightning.qubit", wires=QUBITS))
    def circuit(x: np.ndarray, y: np.ndarray) -> qml.measurements.ProbabilityMP:
        encode(x)
        qml.adjoint(encode)(y)
        return qml.probs(wires=range(QUBITS))

    return lambda x, y: float(circuit(x, y)[0])


if __name__ == "__main__":
    main()
