"""Circuits without the gates of some trained angles: shorter, not masked.

The idea of pruning by utility while a model trains is that of FIITED (arXiv:2401.04408).
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence

import cirq
import numpy as np

from qfleet.compiler.circuit import expressions
from qfleet.compiler.circuit.gate_factors import MATRIX_QUBITS
from qfleet.compiler.circuit.identity import identity
from qfleet.compiler.circuit.lowering import is_plain
from qfleet.compiler.circuit.plain_operations import SymbolValues, with_values
from qfleet.compiler.circuit.symbols import parameter_names

NO_PERIOD = 0.0
"""Period of an angle whose gates are the identity at 0 only."""

_AXES: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("Z", (cirq.ZPowGate, cirq.CZPowGate, cirq.ZZPowGate)),
    ("X", (cirq.XPowGate, cirq.XXPowGate)),
    ("Y", (cirq.YPowGate, cirq.YYPowGate)),
)
"""Gates by the Pauli matrix that they are powers of; those with the same one commute."""

_Wire = dict[int, tuple[Hashable, str]]  # by number of the operation: its identity and axis

_HALF_TURNS = 2
"""Exponent at which a gate of _AXES is the identity again, up to a global phase."""


def removable_angles(circuit: cirq.AbstractCircuit, angles: Iterable[str]) -> dict[str, float]:
    """Return the angles without which a circuit has fewer gates, with their periods.

    Args:
        circuit: A circuit without noise.
        angles: Names of trained symbols.

    Returns:
        The period by name, in the order of `angles`: all gates of an angle are the identity, up to
        a global phase, at 0 and at multiples of it; NO_PERIOD if only at 0. Angles that are left
        out have a gate that is not the identity at 0.
    """
    wanted = tuple(angles)
    zeros = SymbolValues(dict.fromkeys(wanted, 0.0))
    periods: dict[str, set[float]] = defaultdict(set)
    kept: set[str] = set()
    for operation in circuit.all_operations():
        names = parameter_names(operation) & zeros.param_dict.keys()
        if not names:
            continue
        try:
            is_identity = _is_identity(with_values(operation, zeros))
        except ValueError:  # its exponent has no value at 0, as log(x)
            is_identity = False
        if not is_identity:
            kept |= names
            continue
        factors = _factors(operation)
        for name in names:
            factor = abs(factors.get(name, 0.0))
            periods[name].add(round(_HALF_TURNS / factor, 9) if factor else NO_PERIOD)
    return {
        name: min(periods[name]) if len(periods[name]) == 1 else NO_PERIOD
        for name in wanted
        if name in periods and name not in kept
    }


def without_angles(circuit: cirq.AbstractCircuit, angles: Collection[str]) -> cirq.Circuit:
    """Return a circuit whose angles of some names are 0, without gates that do nothing then.

    Left out are the gates that become the identity, and pairs of inverse gates that meet once
    the gates between them are gone, or commute with them. The circuit keeps its qubits.

    Args:
        circuit: A circuit without noise.
        angles: Names of symbols.
    """
    zeros = SymbolValues(dict.fromkeys(angles, 0.0))
    operations = []
    for operation in circuit.all_operations():
        if parameter_names(operation) & zeros.param_dict.keys():
            operation = with_values(operation, zeros)
            if _is_identity(operation):
                continue
        operations.append(operation)
    shorter = cirq.Circuit(_cancelled(operations))
    lost = circuit.all_qubits() - shorter.all_qubits()
    return shorter + cirq.Circuit(cirq.I.on_each(*sorted(lost))) if lost else shorter


def _factors(operation: cirq.Operation) -> dict[str, float]:
    """Return the factors of symbols in the exponent of a gate; none if it is not affine in them."""
    if not isinstance(operation.gate, cirq.EigenGate) or not _axis(operation, 0):
        return {}
    affine = expressions.affine(operation.gate.exponent)
    return affine[0] if affine else {}


def _is_identity(operation: cirq.Operation) -> bool:
    if cirq.is_parameterized(operation) or len(operation.qubits) > MATRIX_QUBITS:
        return False
    unitary = cirq.unitary(operation, None)
    return unitary is not None and np.allclose(unitary, np.eye(len(unitary)))


def _axis(operation: cirq.Operation, place: int) -> str:
    """Return the Pauli matrix by which a gate acts on its qubit of a number; empty if by none."""
    if is_plain(operation.gate, cirq.CXPowGate):
        return "ZX"[place]
    return next((axis for axis, gates in _AXES if is_plain(operation.gate, gates)), "")


def _cancelled(operations: Sequence[cirq.Operation]) -> list[cirq.Operation]:
    """Return operations without pairs of fixed gates that cancel each other."""
    wires: dict[cirq.Qid, _Wire] = defaultdict(dict)
    removed: set[int] = set()
    for index, operation in enumerate(operations):
        key, inverse = _identities(operation)
        axes = {qubit: _axis(operation, at) for at, qubit in enumerate(operation.qubits)}
        partners = {_partner(wires[qubit], inverse, axis) for qubit, axis in axes.items()}
        partner = partners.pop() if len(partners) == 1 else None
        if partner is not None:
            removed |= {index, partner}
            for qubit in axes:
                del wires[qubit][partner]
            continue
        for qubit, axis in axes.items():
            wires[qubit][index] = key, axis
    return [operation for index, operation in enumerate(operations) if index not in removed]


def _identities(operation: cirq.Operation) -> tuple[Hashable, Hashable]:
    """Return the identities of a gate and of its inverse; None for gates that cancel no other."""
    if len(operation.qubits) > 2 or not cirq.has_unitary(operation):
        return None, None
    inverse = cirq.inverse(operation, None)
    return identity(operation), None if inverse is None else identity(inverse)


def _partner(wire: _Wire, inverse: Hashable, axis: str) -> int | None:
    """Return the number of the inverse gate that is last on a wire, but for commuting gates."""
    for index, (key, other) in reversed(wire.items()):
        if inverse is not None and key == inverse:
            return index
        if not axis or axis != other:
            return None
    return None
