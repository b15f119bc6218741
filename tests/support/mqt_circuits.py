"""Writes circuits of MQT Bench as Cirq's JSON, one file a family. It runs in .venv-peers.

    .venv-peers/bin/python tests/support/mqt_circuits.py FOLDER [QUBITS]

A family's circuit is its widest one of at most QUBITS (14) qubits and 1,500 gates, of a fixed gate
set, by way of OpenQASM 2. Families without one write nothing: those that measure on the way, and
Shor's.
https://www.cda.cit.tum.de/mqtbench
"""

import sys
from pathlib import Path

import cirq
from cirq.contrib.qasm_import import circuit_from_qasm
from mqt.bench import BenchmarkLevel, get_benchmark
from mqt.bench.benchmarks import get_available_benchmark_names
from qiskit import QuantumCircuit, qasm2, transpile

GATES = ["x", "y", "z", "h", "s", "t", "rx", "ry", "rz", "u3", "cx", "cz", "swap", "ccx"]
MOST_QUBITS, MOST_GATES = 14, 1500


def widest(family: str, most_qubits: int) -> QuantumCircuit | None:
    """A family's widest circuit within the bounds, in GATES; None if it has none."""
    for qubits in range(most_qubits, 1, -1):
        try:
            circuit = get_benchmark(family, BenchmarkLevel.ALG, qubits)
        except ValueError:  # the family has no circuit of this width
            continue
        circuit.remove_final_measurements()
        circuit = transpile(circuit, basis_gates=GATES, optimization_level=0, seed_transpiler=0)
        circuit.data = [step for step in circuit.data if step.operation.name != "barrier"]
        counts = circuit.count_ops()
        if set(counts) <= set(GATES) and sum(counts.values()) <= MOST_GATES:
            return circuit
    return None


def main(folder: Path, most_qubits: int) -> None:
    """Write every family that has a circuit."""
    folder.mkdir(parents=True, exist_ok=True)
    for family in get_available_benchmark_names():
        circuit = widest(family, most_qubits)
        if circuit is not None:
            read = circuit_from_qasm(qasm2.dumps(circuit))
            cirq.to_json(read, folder / f"{family}.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else MOST_QUBITS)
