"""A circuit for patches of 2 x 2 pixels with 2 channels."""

import cirq
import sympy

_QUBITS = cirq.LineQubit.range(4)
INPUTS = [f"x{number}" for number in range(8)]
OBSERVABLES = [cirq.Z(_QUBITS[0]), cirq.X(_QUBITS[1]) * cirq.Z(_QUBITS[2])]


def patch_circuit(entanglers: int) -> cirq.Circuit:
    """Return a circuit with 8 inputs and 4 trained angles.

    Args:
        entanglers: Number of CNOTs.
    """
    angles = [sympy.Symbol(f"w{at}") for at in range(4)]
    circuit = cirq.Circuit(
        [cirq.ry(sympy.Symbol(INPUTS[at])).on(qubit) for at, qubit in enumerate(_QUBITS)],
        [cirq.rx(sympy.Symbol(INPUTS[4 + at])).on(qubit) for at, qubit in enumerate(_QUBITS)],
    )
    circuit += [cirq.CNOT(_QUBITS[at], _QUBITS[(at + 1) % 4]) for at in range(entanglers)]
    return circuit + [cirq.ry(angle).on(q) for angle, q in zip(angles, _QUBITS, strict=True)]
