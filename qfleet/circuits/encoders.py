"""Where the data's angles enter a circuit.

cluster   rx(x_i) on qubit i of the cluster state: a stabiliser state with local excitations,
          as in TensorFlow Quantum's tutorial. The data set `excitations` is made of it.
angle     ry(x_i) on qubit i of |0...0>. For tables: each feature can be read from its own qubit
          (<Z> = cos x, <X> = sin x), whereas no one or two qubits of a cluster state hold any
          of it.
reupload  `angle` again before every layer, on the qubits that are still active. Perez-Salinas
          et al., "Data re-uploading for a universal quantum classifier" (arXiv:1907.02085).
"""

from collections.abc import Sequence

import cirq
import sympy

from common.errors import CircuitError
from qfleet.circuits.states import cluster_state
from qfleet.placement import PLACEMENTS


def input_circuit(
    qubits: Sequence[cirq.Qid], inputs: Sequence[str], placement: str
) -> cirq.Circuit:
    """What comes before the first layer: the state and, unless re-uploaded, the data.

    Args:
        qubits: All qubits.
        inputs: Data symbols, at most one a qubit unless re-uploaded.
        placement: One of PLACEMENTS.

    Raises:
        CircuitError: No such placement, no data symbols, or more of them than qubits.
    """
    if placement not in PLACEMENTS:
        raise CircuitError(
            f"encoder {placement!r} is not known to the circuit: use one of {', '.join(PLACEMENTS)}"
        )
    if placement == "reupload":
        return cirq.Circuit()
    if len(inputs) > len(qubits):
        raise CircuitError(
            f"{len(inputs)} features do not fit on {len(qubits)} qubits, one on each: use more"
            " qubits, or an encoder that reduces or wraps them (pca or reupload)"
        )
    pairs = list(zip(map(sympy.Symbol, inputs), qubits, strict=False))
    if placement == "cluster":
        return cluster_state(qubits) + cirq.Circuit(cirq.rx(x)(qubit) for x, qubit in pairs)
    return cirq.Circuit(cirq.ry(x)(qubit) for x, qubit in pairs)


def reupload_circuit(
    active: Sequence[cirq.Qid], inputs: Sequence[str], placement: str
) -> cirq.Circuit:
    """What comes before each layer: feature j on active qubit j mod n where data is re-uploaded.

    Features that share a qubit turn about Y and Z by turns: about one axis they would add up, and
    only their sum would be known.

    Args:
        active: The layer's qubits.
        inputs: Data symbols, any number.
        placement: One of PLACEMENTS.
    """
    if placement != "reupload":
        return cirq.Circuit()
    turns = (cirq.ry, cirq.rz)
    return cirq.Circuit(
        turns[j // len(active) % 2](sympy.Symbol(x))(active[j % len(active)])
        for j, x in enumerate(inputs)
    )
