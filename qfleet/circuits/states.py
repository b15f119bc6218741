"""Initial states of circuits."""

from collections.abc import Sequence

import cirq


def cluster_state(qubits: Sequence[cirq.Qid]) -> cirq.Circuit:
    """Build the one-dimensional cluster state on a ring: H on all qubits, CZ on all neighbors.

    Briegel and Raussendorf, "Persistent entanglement in arrays of interacting particles"
    (arXiv:quant-ph/0004051). Two qubits have one bond, because two CZ gates would cancel.

    Args:
        qubits: The ring, at least two qubits.

    Returns:
        The circuit, to be applied to |0...0>.

    Example:
        >>> import cirq
        >>> print(cluster_state(cirq.LineQubit.range(2)))
        0: ───H───@───
                  │
        1: ───H───@───
    """
    ring = list(zip(qubits, [*qubits[1:], qubits[0]], strict=True))
    bonds = ring[:1] if len(qubits) == 2 else ring
    return cirq.Circuit(cirq.H.on_each(*qubits), (cirq.CZ(a, b) for a, b in bonds))
