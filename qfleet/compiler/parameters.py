"""Names of the symbols of circuits: those that Cirq lists, and those that it leaves out."""

from collections.abc import Mapping

import cirq
import sympy

# Fields of gates that are missing in Cirq's `parameter_names`, in versions 1.5 to 1.7 at least.
_MISSING: Mapping[type, tuple[str, ...]] = {
    cirq.PhasedFSimGate: ("theta", "zeta", "chi", "gamma", "phi"),
    cirq.BooleanHamiltonianGate: ("_theta",),
}


def parameter_names(part: cirq.AbstractCircuit | cirq.Operation) -> set[str]:
    """Return the names of all symbols of a circuit or an operation.

    Args:
        part: The circuit or the operation.
    """
    operations = part.all_operations() if isinstance(part, cirq.AbstractCircuit) else (part,)
    return set(cirq.parameter_names(part)).union(*map(_missing_names, operations))


def _missing_names(operation: cirq.Operation) -> set[str]:
    operation = operation.untagged
    if isinstance(operation, cirq.CircuitOperation):
        inner = set[str]().union(*map(_missing_names, operation.circuit.all_operations()))
        values = (operation.param_resolver.value_of(sympy.Symbol(name)) for name in inner)
        return set[str]().union(*map(cirq.parameter_names, values))
    if isinstance(operation, cirq.ControlledOperation):
        return _missing_names(operation.sub_operation)
    gate = operation.gate
    while isinstance(gate, cirq.ControlledGate | cirq.ParallelGate):
        gate = gate.sub_gate
    fields = _MISSING.get(type(gate), ())
    return set(cirq.parameter_names([getattr(gate, field) for field in fields]))
