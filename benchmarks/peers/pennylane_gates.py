"""Benchmark circuits in PennyLane."""

import pennylane as qml
from pennylane.typing import TensorLike

from benchmarks.peers.gates import GateList

GATES = {
    "rx": qml.RX,
    "ry": qml.RY,
    "rz": qml.RZ,
    "rxx": qml.IsingXX,
    "ryy": qml.IsingYY,
    "rzz": qml.IsingZZ,
    "h": qml.Hadamard,
    "cz": qml.CZ,
    "cnot": qml.CNOT,
}


def apply_gates(circuit: GateList, angles: TensorLike, parameters: TensorLike) -> None:
    """Queue the gates of a circuit.

    Args:
        circuit: The circuit.
        angles: The inputs, [..., I].
        parameters: The parameters, [P].
    """
    for gate in circuit.gates:
        if gate.values is None:
            GATES[gate.name](wires=gate.wires)
        else:
            value = angles[..., gate.index] if gate.values == "inputs" else parameters[gate.index]
            GATES[gate.name](gate.coefficient * value, wires=gate.wires)
