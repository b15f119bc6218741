"""Initial states of circuits."""

import itertools
from collections.abc import Sequence

import cirq

from qfleet.argument_checks import checked, flag
from qfleet.circuit_checks import QUBITS


@checked(qubits=QUBITS, ring=flag)
def cluster_state(qubits: Sequence[cirq.Qid], *, ring: bool = True) -> cirq.Circuit:
    """Build the one-dimensional cluster state: H on all qubits, CZ on all neighbors.

    Briegel and Raussendorf, "Persistent entanglement in arrays of interacting particles"
    (arXiv:quant-ph/0004051). Two qubits have one bond, because two CZ gates would cancel.

    Args:
        qubits: In order, at least two qubits.
        ring: If the first and the last qubit are neighbors.

    Returns:
        The circuit, to be applied to |0...0>.

    Raises:
        ArgumentError: An argument has the wrong type; the message names it.

    Examples:
        >>> import cirq
        >>> print(cluster_state(cirq.LineQubit.range(2)))
        0: ───H───@───
                  │
        1: ───H───@───
    """
    bonds = list(itertools.pairwise(qubits))
    if ring and len(qubits) > 2:
        bonds.append((qubits[-1], qubits[0]))
    return cirq.Circuit(cirq.H.on_each(*qubits), (cirq.CZ(a, b) for a, b in bonds))
