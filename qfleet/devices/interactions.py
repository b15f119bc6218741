"""Swaps, and powers of XX, YY and ZZ, of one pair of qubits, joined to three CNOT."""

from collections.abc import Iterable, Iterator

import cirq
import sympy

from qfleet.compiler.circuit.lowering import gate_key, is_plain

_KINDS = (cirq.XXPowGate, cirq.YYPowGate, cirq.ZZPowGate)
_SWAP = gate_key(cirq.SWAP)

Exponents = dict[type[cirq.Gate], sympy.Expr]


def join_interactions(operations: Iterable[cirq.Operation]) -> Iterator[cirq.Operation]:
    """Yield operations, where different powers of a pair with symbols are joined, also with a swap.

    Args:
        operations: Operations on one or two qubits, in order.
    """
    waiting: dict[tuple[cirq.Qid, ...], list[cirq.Operation]] = {}
    for operation in operations:
        pair = tuple(sorted(operation.qubits))
        for other in [one for one in waiting if one != pair and {*one} & {*pair}]:
            yield from _joined(waiting.pop(other))
        if is_plain(operation.gate, _KINDS) or gate_key(operation.gate) == _SWAP:
            waiting.setdefault(pair, []).append(operation)
            continue
        yield from _joined(waiting.pop(pair, []))
        yield operation
    for rest in waiting.values():
        yield from _joined(rest)


def _joined(operations: list[cirq.Operation]) -> Iterator[cirq.Operation]:
    """Yield commuting powers of a pair as they are, or the circuit for all of them.

    Vatan and Williams, "Optimal quantum circuits for general two-qubit gates"
    (arXiv:quant-ph/0308006), figure 6.
    """
    exponents: Exponents = {}
    for one in operations:
        # A swap is the square root of XX, YY and ZZ together, up to a phase.
        is_swap = gate_key(one.gate) == _SWAP
        for kind in _KINDS:
            if is_swap or isinstance(one.gate, kind):
                exponents[kind] = exponents.get(kind, 0) + (0.5 if is_swap else one.gate.exponent)
    if len(exponents) < 2 or not any(map(cirq.is_parameterized, operations)):
        yield from operations
        return
    xx, yy, zz = (exponents.get(kind, 0) for kind in _KINDS)
    first, second = operations[0].qubits
    yield cirq.Z(second) ** 0.5
    yield cirq.CNOT(second, first)
    yield cirq.Z(first) ** (zz - 0.5)
    yield cirq.Y(second) ** (xx - 0.5)
    yield cirq.CNOT(first, second)
    yield cirq.Y(second) ** (0.5 - yy)
    yield cirq.CNOT(second, first)
    yield cirq.Z(first) ** -0.5
