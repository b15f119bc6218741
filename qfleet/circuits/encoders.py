"""Encoders: where the data enter a circuit.

cluster   rx(x_i) on qubit i of the cluster state: a stabiliser state with local excitations,
          as in TensorFlow Quantum's tutorial. The data set `excitations` uses it.
angle     ry(x_i) on qubit i of |0...0>. For tables: each feature can be read from its own qubit
          (<Z> = cos x, <X> = sin x), whereas one or two qubits of a cluster state contain no
          information about it.
reupload  `angle` again before every layer, on the qubits that are still active. Perez-Salinas
          et al., "Data re-uploading for a universal quantum classifier" (arXiv:1907.02085).
amplitude the data are the amplitudes of the initial state, which the caller passes for each
          example. The circuit has no data symbols.
"""

from collections.abc import Sequence

import cirq
import sympy

from qfleet.circuits.states import cluster_state
from qfleet.errors import CircuitError
from qfleet.placement import PLACEMENTS


def input_circuit(
    qubits: Sequence[cirq.Qid], inputs: Sequence[str], placement: str, *, ring: bool = True
) -> cirq.Circuit:
    """Build the circuit before the first layer: the initial state, and the data unless re-uploaded.

    Args:
        qubits: All qubits.
        inputs: Names of the data symbols, at most one per qubit unless re-uploaded.
        placement: One of PLACEMENTS.
        ring: As for `cluster_state`.

    Raises:
        CircuitError: The placement is unknown, or there are more data symbols than qubits.
    """
    if placement not in PLACEMENTS:
        raise CircuitError(f"unknown encoder {placement!r}: use one of {', '.join(PLACEMENTS)}")
    if placement in ("reupload", "amplitude"):
        return cirq.Circuit()
    if len(inputs) > len(qubits):
        raise CircuitError(
            f"{len(inputs)} features do not fit on {len(qubits)} qubits with one feature per qubit:"
            " use more qubits, fewer features, or the encoder reupload"
        )
    pairs = list(zip(map(sympy.Symbol, inputs), qubits, strict=False))
    if placement == "cluster":
        return cluster_state(qubits, ring=ring) + cirq.Circuit(
            cirq.rx(x)(qubit) for x, qubit in pairs
        )
    return cirq.Circuit(cirq.ry(x)(qubit) for x, qubit in pairs)


def reupload_circuit(
    active: Sequence[cirq.Qid], inputs: Sequence[str], placement: str
) -> cirq.Circuit:
    """Build the circuit before each layer: feature j on active qubit j mod n if re-uploaded.

    Features that share a qubit rotate about Y and Z alternately: about one axis only their sum
    would be encoded.

    Args:
        active: The layer's qubits.
        inputs: Names of the data symbols, any number.
        placement: One of PLACEMENTS; the circuit is empty unless it is "reupload".
    """
    if placement != "reupload":
        return cirq.Circuit()
    rotations = (cirq.ry, cirq.rz)
    return cirq.Circuit(
        rotations[j // len(active) % 2](sympy.Symbol(x))(active[j % len(active)])
        for j, x in enumerate(inputs)
    )
