"""Operations in a plain form: numbers of Python and integer controls, where Cirq allows others."""

import copy
from typing import Any

import cirq
import sympy

from qfleet.compiler import expressions


class _Constants(cirq.ParamResolver):
    """Makes numbers of sympy's expressions without symbols, which Cirq takes for parameters."""

    def value_of(self, value: Any, recursive: bool = True) -> Any:
        """Return a number for such an expression, and any other value itself."""
        if not isinstance(value, sympy.Basic) or value.free_symbols:
            return value
        number = expressions.number(value)
        return number if number.imag else number.real

    def __bool__(self) -> bool:
        return True  # a false resolver is not asked


CONSTANTS = _Constants()
"""A resolver of constants only."""


def with_numbers(operation: cirq.CircuitOperation) -> cirq.CircuitOperation:
    """Return a sub-circuit whose symbols get numbers in place of sympy's constants."""
    values = {key: CONSTANTS.value_of(v) for key, v in operation.param_resolver.param_dict.items()}
    return operation.replace(param_resolver=cirq.ParamResolver(values))


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
    changed._global_shift = number  # type: ignore[attr-defined] # of all gates with a shift
    return changed


def _integers(
    controlled: cirq.ControlledOperation | cirq.ControlledGate,
) -> cirq.ops.control_values.AbstractControlValues:
    values = list(controlled.control_values.expand())
    if all(type(value) is int for each in values for value in each):
        return controlled.control_values
    return cirq.SumOfProducts([[int(value) for value in each] for each in values])
