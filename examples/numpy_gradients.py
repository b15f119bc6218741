"""Compute expectation values and gradients of a batch of circuits in NumPy; compare with Cirq's.

Run:   python examples/numpy_gradients.py    (with a wheel of qfleet; needs NumPy, Cirq and SymPy)
       PYTHONPATH=. .venv/bin/python examples/numpy_gradients.py    (in a checkout)
Takes: ten seconds.
Shows: the largest differences, and the times.
"""

import sys
import time
from itertools import pairwise

import cirq
import numpy as np
import sympy

import qfleet

QUBITS, LAYERS, BATCH = 5, 2, 4


def build_circuit(
    qubits: list[cirq.LineQubit],
) -> tuple[cirq.Circuit, list[sympy.Symbol], list[sympy.Symbol]]:
    """Return a circuit, its inputs (one angle per qubit) and its parameters (two per layer)."""
    inputs = list(sympy.symbols(f"x:{len(qubits)}"))
    parameters = list(sympy.symbols(f"p:{2 * LAYERS * len(qubits)}"))
    circuit = cirq.Circuit(cirq.rx(x).on(qubit) for x, qubit in zip(inputs, qubits, strict=True))
    angles = iter(parameters)
    for _ in range(LAYERS):
        circuit += [[cirq.ry(next(angles)).on(qubit), cirq.rz(next(angles)).on(qubit)]
                    for qubit in qubits]  # fmt: skip
        circuit += [cirq.CNOT(*pair) for pair in pairwise(qubits)]
    return circuit, inputs, parameters


def cirq_values(
    circuit: cirq.Circuit, symbols: list[sympy.Symbol], point: np.ndarray, observables: list
) -> np.ndarray:
    """Return expectation values of cirq.Simulator at the values of all symbols."""
    simulator = cirq.Simulator(dtype=np.complex128)
    resolver = dict(zip(symbols, point, strict=True))
    return np.real(simulator.simulate_expectation_values(circuit, observables, resolver))


def cirq_gradient(
    circuit: cirq.Circuit, symbols: list[sympy.Symbol], point: np.ndarray, observables: list
) -> np.ndarray:
    """Return the gradient of the sum of the values, by the parameter-shift rule.

    It is exact: each symbol is the angle of one rotation. It takes two simulations per symbol.
    """
    shifts = np.pi / 2 * np.eye(len(symbols))
    return np.array([
        cirq_values(circuit, symbols, point + shift, observables).sum() / 2
        - cirq_values(circuit, symbols, point - shift, observables).sum() / 2
        for shift in shifts
    ])  # fmt: skip


def main() -> int:
    """Print the largest differences; return 0 if they are below 1e-6."""
    qubits = cirq.LineQubit.range(QUBITS)
    circuit, inputs, parameters = build_circuit(qubits)
    observables = [
        cirq.PauliSum() + cirq.Z(qubits[0]),
        cirq.X(qubits[1]) * cirq.Z(qubits[-1]) + 0.5,
    ]
    rng = np.random.default_rng(1)
    features = rng.uniform(-np.pi, np.pi, (BATCH, len(inputs)))  # a row per example
    weights = rng.uniform(-np.pi, np.pi, len(parameters))  # shared by all examples

    compiled = qfleet.compile(circuit, inputs, parameters, observables)
    start = time.perf_counter()
    values, gradients = compiled.value_and_gradient(features, weights)
    seconds = time.perf_counter() - start

    start = time.perf_counter()
    symbols = [*inputs, *parameters]
    points = [np.concatenate([row, weights]) for row in features]
    cirq_rows = np.array([cirq_values(circuit, symbols, at, observables) for at in points])
    slopes = np.array([cirq_gradient(circuit, symbols, at, observables) for at in points])
    cirq_seconds = time.perf_counter() - start

    differences = {
        "expectation values": values - cirq_rows,
        "gradients by inputs": gradients.inputs - slopes[:, :QUBITS],
        "gradients by parameters": gradients.parameters - slopes[:, QUBITS:].sum(axis=0),
    }
    print(f"{BATCH} examples of {QUBITS} qubits, {len(weights)} parameters")
    for name, difference in differences.items():
        print(f"{name}: largest difference {np.abs(difference).max():.1e}")
    print(f"qfleet {seconds * 1e3:.1f} ms, Cirq with the shift rule {cirq_seconds * 1e3:.0f} ms")
    return int(max(np.abs(difference).max() for difference in differences.values()) > 1e-6)


if __name__ == "__main__":
    sys.exit(main())
