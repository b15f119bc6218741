"""A Cirq circuit lowered to factors on one or two qubits.

Every EigenGate is a factor as it is (Cirq defines it by its eigenspaces; the global shift is added
to their half-turns), and so are its controlled forms. All other gates with symbols come down to
these through Cirq's own decompositions.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import cirq
import numpy as np
import sympy

from common.errors import CircuitError
from qfleet.compiler import expressions, parity
from qfleet.compiler.factor import Factor, fixed_factor, parametrised_factor
from qfleet.compiler.synthesis import decompose, synthesise

MAX_NAME_LENGTH = 80  # characters of a gate in an error's sentence
MATRIX_QUBITS = 4  # the widest gate without parameters that is synthesised from its unitary


def lower(circuit: cirq.AbstractCircuit) -> list[Factor]:
    """Lower every operation of a circuit, in order.

    The product of the factors is the circuit's unitary, global phase included: a phase is a factor
    on one of the circuit's qubits that is a multiple of the identity.

    Raises:
        CircuitError: An operation is no unitary that can be taken; it names the gate, the moment
            and the qubits.
    """
    factors: list[Factor] = []
    first = min(circuit.all_qubits(), default=None)
    for index, moment in enumerate(circuit):
        for operation in moment:
            place = _Place(operation, index, next(iter(operation.qubits), first))
            factors.extend(_lower(operation, place))
    return factors


@dataclass(frozen=True)
class _Place:
    operation: cirq.Operation
    moment: int
    qubit: cirq.Qid | None  # for a phase; None in a circuit without qubits

    def refuse(self, why: str) -> CircuitError:
        return CircuitError(
            f"{describe_location(self.operation, self.moment)} can't be simulated: {why}"
        )


def describe_location(operation: cirq.Operation, moment: int) -> str:
    """An operation for an error's sentence: its gate, moment and qubits."""
    gate = operation.gate if operation.gate is not None else operation.untagged
    name = str(gate)
    if "\n" in name or len(name) > MAX_NAME_LENGTH:
        name = type(gate).__name__
    qubits = ", ".join(str(qubit) for qubit in operation.qubits)
    return f"the gate {name} in moment {moment} on qubits {qubits}"


def _lower(operation: cirq.Operation, place: _Place) -> Iterator[Factor]:
    operation = operation.untagged
    if any(qubit.dimension != 2 for qubit in operation.qubits):
        raise place.refuse("only qubits are taken, no qudits")
    if isinstance(operation, cirq.ClassicallyControlledOperation):
        raise place.refuse(
            "classical control needs a measurement, and only unitary gates are taken"
        )
    if cirq.is_measurement(operation):
        raise place.refuse("it measures; leave it out and name what is read as an observable")
    if isinstance(operation, cirq.CircuitOperation):
        for part in decompose(operation) or ():
            yield from _lower(part, place)
    elif cirq.is_parameterized(operation):
        yield from _lower_parametrised(operation, place)
    elif not cirq.has_unitary(operation):
        raise place.refuse("it is not unitary, and noise channels are not taken")
    else:
        yield from _lower_fixed(operation, place)


def _lower_fixed(operation: cirq.Operation, place: _Place) -> Iterator[Factor]:
    qubits = operation.qubits
    if not qubits:
        yield from _narrowed(fixed_factor((), cirq.unitary(operation)), place)
        return
    if len(qubits) <= 2:
        yield fixed_factor(qubits, cirq.unitary(operation))
        return
    parts = decompose(operation)
    if parts is not None:
        for part in parts:
            yield from _lower(part, place)
        return
    if len(qubits) > MATRIX_QUBITS:
        raise place.refuse(
            f"it acts on {len(qubits)} qubits and Cirq has no decomposition of it; gates given by"
            f" their matrix may have at most {MATRIX_QUBITS}"
        )
    for part in synthesise(qubits, cirq.unitary(operation)):
        yield from _lower_fixed(part, place)


def _lower_parametrised(operation: cirq.Operation, place: _Place) -> Iterator[Factor]:
    gate = operation.gate
    qubits = operation.qubits
    if (factor := _as_factor(gate, qubits, place)) is not None:
        yield from _narrowed(factor, place)
        return
    if isinstance(gate, cirq.ControlledGate) and len(qubits) <= MATRIX_QUBITS:
        inner, controls = gate.sub_gate, gate.num_controls()
        if (factor := _as_factor(inner, qubits[controls:], place)) is not None:
            yield from _controlled(gate, qubits, factor, place)
            return
        if (parts := decompose(inner.on(*qubits[controls:]))) is not None:
            for part in parts:
                wrapped = part.controlled_by(*qubits[:controls], control_values=gate.control_values)
                yield from _lower(wrapped, place)
            return
    parts = decompose(operation)
    if parts is None:
        raise place.refuse(
            "it has symbols, and Cirq decomposes it into no powers of gates that are known;"
            " write it with rotations, powers, PhasedX, FSim or their controlled forms"
        )
    for part in parts:
        yield from _lower(part, place)


def _as_factor(
    gate: cirq.Gate | None, qubits: tuple[cirq.Qid, ...], place: _Place
) -> Factor | None:
    """A gate with symbols as one factor, if it can be one."""
    if isinstance(gate, cirq.GlobalPhaseGate):
        return _turned_phase(gate, place)
    if isinstance(gate, cirq.EigenGate) and _only_exponent(gate):
        wide = len(qubits) > 2
        if not wide or (len(qubits) <= MATRIX_QUBITS and decompose(gate.on(*qubits)) is None):
            return _turned(qubits, gate, place)
    return None


def _narrowed(factor: Factor, place: _Place) -> Iterator[Factor]:
    """A factor on any number of qubits as factors on one and two."""
    if not factor.qubits and place.qubit is not None:
        identities = factor.projectors * np.eye(2)
        yield Factor((place.qubit,), factor.turns, identities, factor.exponents)
    elif len(factor.qubits) <= 2:
        yield factor
    elif factor.fixed:
        yield from _lower_fixed(cirq.MatrixGate(factor.matrix).on(*factor.qubits), place)
    else:
        for part in parity.parity_phases(factor):
            yield from _narrowed(part, place)


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
        return parametrised_factor(qubits, turns, projectors, _checked(expression, place))
    phases = np.exp(1j * np.pi * turns * float(expression))
    return fixed_factor(qubits, np.einsum("k,kij->ij", phases, projectors))


def _turned_phase(gate: cirq.GlobalPhaseGate, place: _Place) -> Factor:
    """`exp(i pi t)` on no qubit, from a product of powers such as `I**s` and `exp(I*s)`."""
    exponent = sympy.Integer(0)
    for part in sympy.Mul.make_args(sympy.sympify(gate.coefficient)):
        base, power = part.as_base_exp()
        if base == sympy.E:
            exponent += sympy.expand(power / sympy.I) / sympy.pi
        elif base.free_symbols or not np.isclose(abs(complex(base)), 1):
            raise place.refuse(
                f"{part} is no phase; write phases as powers of numbers of absolute value 1"
            )
        else:
            exponent += float(np.angle(complex(base)) / np.pi) * power
    return parametrised_factor((), np.ones(1), np.ones((1, 1, 1)), _checked(exponent, place))


def _checked(exponent: sympy.Expr, place: _Place) -> sympy.Expr:
    """An exponent, if all of it can be evaluated."""
    what = expressions.unsupported(exponent)
    if what is not None:
        raise place.refuse(
            f"its exponent {exponent} holds {what}; allowed are + - * / **, numbers and"
            f" {', '.join(sorted(expressions.FUNCTIONS))}, Min, Max"
        )
    return exponent


def _controlled(
    gate: cirq.ControlledGate, qubits: tuple[cirq.Qid, ...], inner: Factor, place: _Place
) -> Iterator[Factor]:
    on = np.zeros(2 ** gate.num_controls())
    for values in gate.control_values.expand():
        on[int("".join(map(str, values)), 2)] = 1
    off = np.kron(np.diag(1 - on), np.eye(2 ** len(inner.qubits)))
    if inner.fixed:  # a number that sympy holds
        yield from _narrowed(fixed_factor(qubits, off + np.kron(np.diag(on), inner.matrix)), place)
    elif len(qubits) > 2:
        for part in parity.controlled_phases(qubits[: gate.num_controls()], on, inner):
            yield from _narrowed(part, place)
    else:
        projectors = np.stack([off, *(np.kron(np.diag(on), p) for p in inner.projectors)])
        turns = np.array([0.0, *inner.turns[:, 0]])
        yield parametrised_factor(qubits, turns, projectors, inner.exponents[0])
