"""Gates whose control has a known value, which are left out of a circuit."""

from collections.abc import Iterable

import cirq


def without_known_controls(
    operations: Iterable[cirq.Operation], start: Iterable[cirq.Operation] = ()
) -> list[cirq.Operation]:
    """Return operations without CNOTs and CZs of qubits with a known value.

    Args:
        operations: The operations. Any gate on one qubit but X makes its value unknown.
        start: Operations before them, in the state |0...0>.
    """
    known: dict[cirq.Qid, int | None] = {}
    for one in start:
        _known_after(one, known)
    kept: list[cirq.Operation] = []
    for one in operations:
        control, target = one.qubits if len(one.qubits) == 2 else (one.qubits[0], one.qubits[0])
        if one.gate == cirq.CZ and known.get(control, 0) is None:
            control, target = target, control
        value = known.get(control, 0)
        if one.gate not in (cirq.CNOT, cirq.CZ) or value is None:
            kept.append(one)
            _known_after(one, known)
        elif value:
            kept.append((cirq.X if one.gate == cirq.CNOT else cirq.Z).on(target))
            _known_after(kept[-1], known)
    return kept


def _known_after(operation: cirq.Operation, known: dict[cirq.Qid, int | None]) -> None:
    """Update the values of qubits, None where they are not known; missing ones are 0."""
    gate, qubits = operation.gate, operation.qubits
    if gate in (cirq.CZ, cirq.Z, cirq.I):
        return
    if gate == cirq.X:
        value = known.get(qubits[0], 0)
        known[qubits[0]] = None if value is None else 1 - value
    elif gate == cirq.CNOT and known.get(qubits[0], 0) is not None:
        if known.get(qubits[0], 0):
            _known_after(cirq.X.on(qubits[1]), known)
    else:
        known |= dict.fromkeys(qubits[1:] if gate == cirq.CNOT else qubits, None)
