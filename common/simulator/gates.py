"""A Cirq circuit lowered to factors: matrices on one or two qubits, fixed or turned by an angle.

A factor with an expression t is `sum_k exp(i pi turns_k t) projector_k`, which is how Cirq defines
every EigenGate (`cirq.EigenGate`, with the global shift added to the eigenvalues' half-turns).
All other parametrised gates come down to these through Cirq's own decompositions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import cirq
import numpy as np
import sympy

from common.errors import CircuitError
from common.simulator import expressions

MATRIX_QUBITS = 4  # the widest gate without parameters that is synthesised from its unitary


@dataclass(frozen=True)
class Factor:
    """One gate on one or two qubits.

    Attributes:
        qubits: What it acts on; the first is the most significant bit.
        turns: [K] half-turns of each eigenspace per unit of the expression.
        projectors: [K, D, D] complex128 projectors on the eigenspaces, D = 2**len(qubits).
        expression: The exponent t; None for a fixed gate (K is 1, the projector its matrix).
    """

    qubits: tuple[cirq.Qid, ...]
    turns: np.ndarray
    projectors: np.ndarray
    expression: sympy.Expr | None = None

    @property
    def matrix(self) -> np.ndarray:
        """[D, D] complex128, of a fixed gate."""
        assert self.expression is None
        return self.projectors[0]

    @property
    def symbols(self) -> frozenset[str]:
        """The names of the symbols that turn it."""
        return expressions.symbol_names(self.expression) if self.expression is not None else _NONE


_NONE: frozenset[str] = frozenset()


def fixed(qubits: tuple[cirq.Qid, ...], matrix: np.ndarray) -> Factor:
    """A factor without symbols."""
    return Factor(qubits, np.zeros(1), np.asarray(matrix, np.complex128)[None])


def lower(circuit: cirq.AbstractCircuit) -> list[Factor]:
    """Lower every operation of a circuit, in order.

    Global phases are dropped, since no expectation value shows them.

    Raises:
        CircuitError: An operation is no unitary that can be taken; it names the gate, the moment
            and the qubits.
    """
    factors: list[Factor] = []
    for index, moment in enumerate(circuit):
        for operation in moment:
            factors.extend(_lower(operation, _Place(operation, index)))
    return factors


@dataclass(frozen=True)
class _Place:
    operation: cirq.Operation
    moment: int

    def refuse(self, why: str) -> CircuitError:
        gate = self.operation.gate if self.operation.gate is not None else self.operation
        qubits = ", ".join(str(qubit) for qubit in self.operation.qubits)
        return CircuitError(
            f"the gate {gate} in moment {self.moment} on qubits {qubits} can't be simulated: {why}"
        )


def _lower(operation: cirq.Operation, place: _Place) -> Iterator[Factor]:
    operation = operation.untagged
    if not operation.qubits:
        return
    if any(qubit.dimension != 2 for qubit in operation.qubits):
        raise place.refuse("only qubits are taken, no qudits")
    if isinstance(operation, cirq.ClassicallyControlledOperation):
        raise place.refuse("classical control needs a measurement, and only unitary gates are taken")
    if cirq.is_measurement(operation):
        raise place.refuse("it measures; leave it out and name what is read as an observable")
    if cirq.is_parameterized(operation):
        yield from _lower_parametrised(operation, place)
    elif not cirq.has_unitary(operation):
        raise place.refuse("it is not unitary, and noise channels are not taken")
    else:
        yield from _lower_fixed(operation, place)


def _lower_fixed(operation: cirq.Operation, place: _Place) -> Iterator[Factor]:
    qubits = operation.qubits
    if len(qubits) <= 2:
        yield fixed(qubits, cirq.unitary(operation))
        return
    parts = cirq.decompose_once(operation, default=None)
    if parts is not None and all(set(part.qubits) <= set(qubits) for part in parts):
        if all(len(part.qubits) < len(qubits) or part.gate != operation.gate for part in parts):
            for part in parts:
                yield from _lower(part, place)
            return
    if len(qubits) > MATRIX_QUBITS:
        raise place.refuse(
            f"it acts on {len(qubits)} qubits and Cirq has no decomposition of it; gates given by"
            f" their matrix may have at most {MATRIX_QUBITS}"
        )
    for part in cirq.quantum_shannon_decomposition(list(qubits), cirq.unitary(operation)):
        if part.qubits:
            yield fixed(part.qubits, cirq.unitary(part))


def _lower_parametrised(operation: cirq.Operation, place: _Place) -> Iterator[Factor]:
    gate = operation.gate
    qubits = operation.qubits
    if isinstance(gate, cirq.EigenGate) and len(qubits) <= 2 and _only_exponent(gate):
        yield _turned(qubits, gate, place)
        return
    if isinstance(gate, cirq.ControlledGate) and len(qubits) == 2 and gate.num_controls() == 1:
        inner = gate.sub_gate
        if isinstance(inner, cirq.EigenGate) and _only_exponent(inner):
            yield _controlled(qubits, gate, _turned(qubits[1:], inner, place))
            return
    try:
        parts = cirq.decompose_once(operation, default=None)
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        parts = None  # a decomposition that only works on numbers
    if parts is None or any(not set(part.qubits) <= set(qubits) for part in parts):
        raise place.refuse(
            "it has symbols, and Cirq decomposes it into no powers of gates that are known;"
            " write it with rotations, powers, PhasedX, FSim or their controlled forms"
        )
    for part in parts:
        yield from _lower(part, place)


def _only_exponent(gate: cirq.EigenGate) -> bool:
    """Whether the exponent is all that the symbols turn (PhasedISwap has a phase besides)."""
    if not cirq.is_parameterized(gate):
        return True
    try:
        return not cirq.is_parameterized(gate._with_exponent(1.0))
    except TypeError:
        return False


def _turned(qubits: tuple[cirq.Qid, ...], gate: cirq.EigenGate, place: _Place) -> Factor:
    expression = sympy.sympify(gate.exponent)
    # The eigenspaces do not depend on the exponent, which may be a symbol.
    components = gate._with_exponent(1.0)._eigen_components()
    turns = np.array([float(turn) + float(gate._global_shift) for turn, _ in components])
    projectors = np.stack([np.asarray(p, np.complex128) for _, p in components])
    if expression.free_symbols:
        what = expressions.unsupported(expression)
        if what is not None:
            raise place.refuse(
                f"its exponent {expression} holds {what}; allowed are + - * / **, numbers and"
                f" {', '.join(sorted(expressions.FUNCTIONS))}, Min, Max"
            )
        return Factor(qubits, turns, projectors, expression)
    phases = np.exp(1j * np.pi * turns * float(expression))
    return fixed(qubits, np.einsum("k,kij->ij", phases, projectors))


def _controlled(
    qubits: tuple[cirq.Qid, ...], gate: cirq.ControlledGate, inner: Factor
) -> Factor:
    on = np.zeros((2, 2))
    for (value,) in gate.control_values.expand():
        on[value, value] = 1
    off = np.kron(np.eye(2) - on, np.eye(2))
    projectors = np.stack([off, *(np.kron(on, p) for p in inner.projectors)])
    return Factor(qubits, np.array([0.0, *inner.turns]), projectors, inner.expression)
