"""States that a circuit starts from."""

from collections.abc import Sequence

import cirq


def cluster_state(qubits: Sequence[cirq.Qid]) -> cirq.Circuit:
    """The one-dimensional cluster state on a ring: H on all, then CZ on each pair of neighbours.

    Briegel and Raussendorf, "Persistent entanglement in arrays of interacting particles"
    (arXiv:quant-ph/0004051). Two qubits have one bond, not two, since CZ undoes itself.

    Args:
        qubits: The ring, at least two.
    """
    ring = list(zip(qubits, [*qubits[1:], qubits[0]], strict=True))
    bonds = ring[:1] if len(qubits) == 2 else ring
    return cirq.Circuit(cirq.H.on_each(*qubits), (cirq.CZ(a, b) for a, b in bonds))
