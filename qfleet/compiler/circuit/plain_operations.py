"""Operations in a plain form: with values of symbols, numbers of Python and integer controls."""

import copy
from collections.abc import Mapping
from functools import cached_property

import cirq
import sympy

from qfleet.compiler.circuit import expressions


class SymbolValues(cirq.ParamResolver):
    """Values of some symbols, by name or symbol: numbers or expressions.

    Cirq's own resolver fails for a power of a number whose exponent keeps a symbol, and returns
    complex numbers for some real expressions.
    """

    def value_of(self, value: object, recursive: bool = True) -> object:
        """Return an expression with the values, as a number of Python if no symbol is left."""
        if isinstance(value, str):
            value = sympy.Symbol(value)
        if not isinstance(value, sympy.Basic):
            return value
        known = {symbol: self._by_name.get(str(symbol)) for symbol in value.free_symbols}
        found = value.xreplace({key: each for key, each in known.items() if each is not None})
        if found.free_symbols:
            return found
        number = expressions.number(found)
        return number if number.imag else number.real

    @cached_property
    def _by_name(self) -> dict[str, sympy.Expr]:
        return {str(key): sympy.sympify(each) for key, each in self.param_dict.items()}

    def __bool__(self) -> bool:
        return True  # a false resolver is not asked


CONSTANTS = SymbolValues({})
"""Makes numbers of sympy's expressions without symbols, which Cirq takes for parameters."""


def with_values(operation: cirq.Operation, values: SymbolValues) -> cirq.Operation:
    """Return an operation with values in place of symbols, also in sub-circuits."""
    part = operation.untagged
    if isinstance(part.gate, cirq.WaitGate):
        waiting = _with_duration(part.gate, values).on(*part.qubits)
        return waiting.with_tags(*operation.tags) if operation.tags else waiting
    if not isinstance(part, cirq.CircuitOperation):
        resolved: cirq.Operation = cirq.resolve_parameters(operation, values)
        return resolved
    own = SymbolValues(part.param_resolver.param_dict)  # its values may have symbols
    circuit = bind(bind(part.circuit, own), values)
    changed: cirq.Operation = part.replace(
        circuit=circuit.freeze(),
        param_resolver=cirq.ParamResolver({}),
        repetitions=values.value_of(part.repetitions),
    )
    return changed.with_tags(*operation.tags) if operation.tags else changed


def _with_duration(gate: cirq.WaitGate, values: SymbolValues) -> cirq.WaitGate:
    """Return a wait with values; a trained duration below 0, which Cirq refuses, is 0."""
    picos = values.value_of(gate.duration.total_picos())
    if isinstance(picos, complex):
        picos = picos.real
    if isinstance(picos, float):
        picos = max(0.0, picos)
    return cirq.WaitGate(cirq.Duration(picos=picos), qid_shape=cirq.qid_shape(gate))


def bind(
    circuit: cirq.AbstractCircuit, values: Mapping[str, object] | SymbolValues
) -> cirq.Circuit:
    """Return a circuit with values in place of symbols.

    Args:
        circuit: Any circuit.
        values: Numbers or expressions by the name of a symbol.
    """
    resolver = values if isinstance(values, SymbolValues) else SymbolValues(dict(values))
    return cirq.Circuit(
        cirq.Moment(with_values(operation, resolver) for operation in moment) for moment in circuit
    )


def plain(operation: cirq.Operation) -> cirq.Operation:
    """Return an operation without tags, with integer controls and with numbers as shifts.

    Args:
        operation: Any operation. Cirq takes the control values True and False as masks.

    Raises:
        ValueError: A shift has a symbol.
    """
    operation = operation.untagged
    if isinstance(operation, cirq.ControlledOperation):
        part, values = plain(operation.sub_operation), _integers(operation)
        if part is operation.sub_operation and values is operation.control_values:
            return operation
        return cirq.ControlledOperation(operation.controls, part, control_values=values)
    if operation.gate is None:
        return operation
    gate = _plain_gate(operation.gate)
    return operation if gate is operation.gate else gate.on(*operation.qubits)


def _plain_gate(gate: cirq.Gate) -> cirq.Gate:
    if isinstance(gate, cirq.ControlledGate):
        part, values = _plain_gate(gate.sub_gate), _integers(gate)
        if part is gate.sub_gate and values is gate.control_values:
            return gate
        return cirq.ControlledGate(part, gate.num_controls(), values)
    if isinstance(gate, cirq.ParallelGate):
        part = _plain_gate(gate.sub_gate)
        return gate if part is gate.sub_gate else cirq.ParallelGate(part, gate.num_copies)
    shift = getattr(gate, "_global_shift", None)
    if not isinstance(shift, sympy.Basic):
        return gate
    number = CONSTANTS.value_of(shift)
    if not isinstance(number, float):
        raise ValueError(f"its global_shift {shift} is not a real number")
    changed = copy.copy(gate)
    changed._global_shift = number  # of all gates with a shift
    return changed


def _integers(
    controlled: cirq.ControlledOperation | cirq.ControlledGate,
) -> cirq.ops.control_values.AbstractControlValues:
    values = list(controlled.control_values.expand())
    if all(type(value) is int for each in values for value in each):
        return controlled.control_values
    return cirq.SumOfProducts([[int(value) for value in each] for each in values])
