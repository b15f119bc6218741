"""Circuits without gates that cancel, and with one symbol for each free angle."""

from collections.abc import Mapping

import cirq
import sympy

from qfleet.compiler.circuit.symbols import parameter_names

_MAKERS = {cirq.Rx: cirq.rx, cirq.Ry: cirq.ry, cirq.Rz: cirq.rz}
_OWN_INVERSES = (cirq.CNOT, cirq.CZ, cirq.X, cirq.Y, cirq.Z, cirq.H, cirq.SWAP)


def simplified(
    circuit: cirq.AbstractCircuit, values: Mapping[str, float]
) -> tuple[cirq.Circuit, dict[str, float]]:
    """Return an equal circuit with fewer gates and symbols, and the values of its symbols.

    Equal gates that follow each other and are their own inverses are left out, rotations of one
    axis are joined, and a rotation by an expression of symbols that no other gate has gets one
    symbol.

    Args:
        circuit: A circuit of operations with gates.
        values: The values of its symbols, in radians; symbols without a value are data.
    """
    qubits = circuit.all_qubits()
    kept = _joined(circuit)
    counts: dict[str, int] = {}
    for one in kept:
        for name in parameter_names(one):
            counts[name] = counts.get(name, 0) + 1
    found: dict[str, float] = {}
    for at, one in enumerate(kept):
        names = sorted(parameter_names(one))
        make = _MAKERS.get(type(one.gate))
        if names and make and all(counts[name] == 1 and name in values for name in names):
            angle = one.gate._rads
            found[names[0]] = float(sympy.sympify(angle).subs({n: values[n] for n in names}))
            kept[at] = make(sympy.Symbol(names[0])).on(*one.qubits)
        else:
            found |= {name: values[name] for name in names if name in values}
    idle = sorted(qubits - {qubit for one in kept for qubit in one.qubits})
    return cirq.Circuit(kept, cirq.I.on_each(*idle)), found


def _joined(circuit: cirq.AbstractCircuit) -> list[cirq.Operation]:
    """Return operations without pairs that cancel, and with rotations of one axis joined."""
    kept: list[cirq.Operation | None] = []
    last: dict[cirq.Qid, list[int]] = {qubit: [] for qubit in circuit.all_qubits()}
    for one in circuit.all_operations():
        if one.gate == cirq.I:
            continue
        before = {last[qubit][-1] if last[qubit] else -1 for qubit in one.qubits}
        place = before.pop() if len(before) == 1 else -1
        other = kept[place] if place >= 0 else None
        if other is not None and set(other.qubits) == set(one.qubits):
            if _cancels(one, other):
                kept[place] = None
                for qubit in one.qubits:
                    last[qubit].pop()
                continue
            make = _MAKERS.get(type(one.gate))
            if make and type(one.gate) is type(other.gate):
                kept[place] = make(other.gate._rads + one.gate._rads).on(*one.qubits)
                continue
        for qubit in one.qubits:
            last[qubit].append(len(kept))
        kept.append(one)
    return [one for one in kept if one is not None and not _is_zero(one)]


def _is_zero(one: cirq.Operation) -> bool:
    """Return True for a rotation by 0, as of an angle and its negative."""
    return type(one.gate) in _MAKERS and one.gate._rads == 0


def _cancels(one: cirq.Operation, other: cirq.Operation) -> bool:
    if one.gate not in _OWN_INVERSES or one.gate != other.gate:
        return False
    return one.qubits == other.qubits or one.gate in (cirq.CZ, cirq.SWAP)
