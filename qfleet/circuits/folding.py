"""Folded circuits, which have more noise and the same unitary; and circuit-then-reverse."""

from collections.abc import Sequence

import cirq
import numpy as np

from qfleet.argument_checks import checked
from qfleet.circuit_checks import CIRCUIT, QUBITS
from qfleet.compiler.circuit.location import describe_error
from qfleet.errors import CircuitError
from qfleet.zne_factors import check_factor


@checked(circuit=CIRCUIT)
def fold(circuit: cirq.AbstractCircuit, factor: int) -> cirq.Circuit:
    """Return U (U^-1 U)^n of factor = 2 n + 1: the unitary U with `factor` times the gates.

    Giurgica-Tiron et al., "Digital zero noise extrapolation for quantum error mitigation"
    (arXiv:2005.10921). Fold before noise is added.

    Args:
        circuit: Unitary gates; symbols stay.
        factor: An odd number from 1 on.

    Raises:
        ArgumentError: The factor can't be folded, or the circuit has the wrong type.
        CircuitError: The circuit has operations without an inverse, such as noise channels.
    """
    check_factor(factor)
    folded = circuit.unfreeze()
    if factor > 1:
        pair = _inverse(circuit) + circuit.unfreeze()
        for _ in range(factor // 2):
            folded += pair
    return folded


@checked(circuit=CIRCUIT)
def circuit_then_reverse(circuit: cirq.AbstractCircuit) -> cirq.Circuit:
    """Return U^-1 U. Without noise, it leaves |0...0> as it is.

    Args:
        circuit: Unitary gates; symbols stay.

    Raises:
        CircuitError: As for `fold`.
    """
    return circuit.unfreeze() + _inverse(circuit)


@checked(qubits=QUBITS)
def join_zeros(qubits: Sequence[cirq.Qid]) -> cirq.Circuit:
    """Return channels after which the first qubit is |0> as often as all qubits were before.

    Z of the first qubit then has the value 2 p - 1, where p is the probability of |0...0>. The
    projector itself would be a sum of 2**N Pauli words.

    Raises:
        CircuitError: There are no qubits.
    """
    if not qubits:
        raise CircuitError("the circuit has no qubits: pass one with a gate on each qubit to read")
    first, *others = qubits
    # (a, b) -> (a or b, 0): one Kraus operator for each state of both.
    targets = {0: 0, 1: 2, 2: 2, 3: 2}
    operators = []
    for source, target in targets.items():
        matrix = np.zeros((4, 4))
        matrix[target, source] = 1
        operators.append(matrix)
    either = cirq.KrausChannel(operators)
    return cirq.Circuit(either.on(first, other) for other in others)


def _inverse(circuit: cirq.AbstractCircuit) -> cirq.Circuit:
    try:
        return cirq.inverse(circuit.unfreeze())
    except Exception as error:  # of Cirq, or of the class of a gate
        raise CircuitError(f"the circuit can't be folded: {describe_error(error)}") from error
