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
from common.simulator import diagonal, expressions
from common.simulator.factor import Factor, fixed, turned
from common.simulator.synthesis import decomposed, synthesised

LONGEST_NAME = 80  # characters of a gate in an error's sentence
MATRIX_QUBITS = 4  # the widest gate without parameters that is synthesised from its unitary


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
        return CircuitError(f"{located(self.operation, self.moment)} can't be simulated: {why}")


def located(operation: cirq.Operation, moment: int) -> str:
    """An operation for an error's sentence: its gate, moment and qubits."""
    gate = operation.gate if operation.gate is not None else operation.untagged
    name = str(gate)
    if "\n" in name or len(name) > LONGEST_NAME:
        name = type(gate).__name__
    qubits = ", ".join(str(qubit) for qubit in operation.qubits)
    return f"the gate {name} in moment {moment} on qubits {qubits}"


def _lower(operation: cirq.Operation, place: _Place) -> Iterator[Factor]:
    operation = operation.untagged
    if not operation.qubits:
        return
    if any(qubit.dimension != 2 for qubit in operation.qubits):
        raise place.refuse("only qubits are taken, no qudits")
    if isinstance(operation, cirq.ClassicallyControlledOperation):
        raise place.refuse(
            "classical control needs a measurement, and only unitary gates are taken"
        )
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
    parts = decomposed(operation)
    if parts is not None:
        for part in parts:
            yield from _lower(part, place)
        return
    if len(qubits) > MATRIX_QUBITS:
        raise place.refuse(
            f"it acts on {len(qubits)} qubits and Cirq has no decomposition of it; gates given by"
            f" their matrix may have at most {MATRIX_QUBITS}"
        )
    for part in synthesised(qubits, cirq.unitary(operation)):
        yield fixed(part.qubits, cirq.unitary(part))


def _lower_parametrised(operation: cirq.Operation, place: _Place) -> Iterator[Factor]:
    gate = operation.gate
    qubits = operation.qubits
    if isinstance(gate, cirq.EigenGate) and len(qubits) <= 2 and _only_exponent(gate):
        yield _turned(qubits, gate, place)
        return
    if isinstance(gate, cirq.ControlledGate) and len(qubits) <= MATRIX_QUBITS:
        inner, controls = gate.sub_gate, gate.num_controls()
        narrow = cirq.num_qubits(inner) <= 2
        if isinstance(inner, cirq.EigenGate) and narrow and _only_exponent(inner):
            yield from _controlled(gate, qubits, _turned(qubits[controls:], inner, place))
            return
        if (parts := decomposed(inner.on(*qubits[controls:]))) is not None:
            for part in parts:
                wrapped = part.controlled_by(*qubits[:controls], control_values=gate.control_values)
                yield from _lower(wrapped, place)
            return
    parts = decomposed(operation)
    if parts is None:
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
        return turned(qubits, turns, projectors, expression)
    phases = np.exp(1j * np.pi * turns * float(expression))
    return fixed(qubits, np.einsum("k,kij->ij", phases, projectors))


def _controlled(
    gate: cirq.ControlledGate, qubits: tuple[cirq.Qid, ...], inner: Factor
) -> Iterator[Factor]:
    on = np.zeros(2 ** gate.num_controls())
    for values in gate.control_values.expand():
        on[int("".join(map(str, values)), 2)] = 1
    if len(qubits) > 2:
        yield from diagonal.controlled(qubits[: gate.num_controls()], on, inner)
        return
    off = np.kron(np.diag(1 - on), np.eye(2))
    projectors = np.stack([off, *(np.kron(np.diag(on), p) for p in inner.projectors)])
    turns = np.array([0.0, *inner.turns[:, 0]])
    yield turned(qubits, turns, projectors, inner.exponents[0])
