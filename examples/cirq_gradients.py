"""Minimize the energy of a spin chain in Cirq, with adjoint gradients of all parameters at once.

Run:   python examples/cirq_gradients.py    (with a wheel of qfleet; needs NumPy, Cirq and SymPy)
       PYTHONPATH=. .venv/bin/python examples/cirq_gradients.py    (in a checkout)
Takes: ten seconds.
Shows: the energy during the descent, the exact ground state's, and the energy that
       `cirq.Simulator` computes for the final parameters.
"""

import argparse
import sys
from itertools import pairwise

import cirq
import numpy as np
import sympy

import qfleet.cirq

QUBITS, LAYERS, RATE = 6, 3, 0.02


def build_ansatz(qubits: list[cirq.LineQubit]) -> cirq.Circuit:
    """Return layers of ZZ and X rotations on |+...+>, with one symbol for each rotation."""
    circuit = cirq.Circuit(cirq.H.on_each(qubits))
    for layer in range(LAYERS):
        circuit += [
            cirq.ZZ(*pair) ** sympy.Symbol(f"z{layer}_{at}")
            for at, pair in enumerate(pairwise(qubits))
        ]
        circuit += [
            cirq.rx(sympy.Symbol(f"x{layer}_{at}"))(qubit) for at, qubit in enumerate(qubits)
        ]
    return circuit


def build_energy(qubits: list[cirq.LineQubit]) -> cirq.PauliSum:
    """Return the Hamiltonian of the transverse-field Ising chain at its critical point."""
    bonds = [-cirq.Z(first) * cirq.Z(second) for first, second in pairwise(qubits)]
    return sum(bonds, start=cirq.PauliSum()) - sum(map(cirq.X, qubits), start=cirq.PauliSum())


def main() -> int:
    """Print the energies; return 0 if the energy fell and agrees with Cirq's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps

    qubits = cirq.LineQubit.range(QUBITS)
    circuit, energy = build_ansatz(qubits), build_energy(qubits)
    simulator = qfleet.cirq.Simulator(dtype=np.complex128)
    rng = np.random.default_rng(1)
    names = sorted(cirq.parameter_names(circuit))
    point = {name: rng.uniform(-0.1, 0.1) for name in names}

    (first,) = simulator.simulate_expectation_values(circuit, energy, point)
    for _ in range(steps):
        (slopes,) = simulator.simulate_expectation_gradients(circuit, energy, point)
        point = {name: value - RATE * slopes[name] for name, value in point.items()}
    (last,) = simulator.simulate_expectation_values(circuit, energy, point)

    reference = cirq.Simulator(dtype=np.complex128)
    (expected,) = reference.simulate_expectation_values(circuit, energy, point)
    ground = np.linalg.eigvalsh(energy.matrix(qubits))[0]
    print(f"{QUBITS} qubits, {len(names)} parameters, {steps} steps")
    print(f"energy {first:.4f} at first, {last:.4f} at last, {ground:.4f} of the ground state")
    print(f"cirq.Simulator: {np.real(expected):.4f}, difference {abs(last - expected):.1e}")
    return int(not (last < first and abs(last - expected) < 1e-6))


if __name__ == "__main__":
    sys.exit(main())
