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
    if isinstance(part, cirq.AbstractCircuit):
        return set[str]().union(*map(parameter_names, part.all_operations()))
    names = set[str]().union(*map(cirq.parameter_names, part.tags))
    operation = part.untagged
    if isinstance(operation, cirq.ControlledOperation):
        return names | parameter_names(operation.sub_operation)
    if isinstance(operation, cirq.CircuitOperation):  # Cirq fails for expressions such as 2**x
        inner = map(sympy.Symbol, parameter_names(operation.circuit))
        values = (operation.param_resolver.value_of(name, recursive=False) for name in inner)
        return names.union(*map(cirq.parameter_names, (operation.repetitions, *values)))
    return names | set(cirq.parameter_names(operation)) | _missing_names(operation.gate)


def _missing_names(gate: cirq.Gate | None) -> set[str]:
    while isinstance(gate, cirq.ControlledGate | cirq.ParallelGate):
        gate = gate.sub_gate
    fields = _MISSING.get(type(gate), ())
    return set(cirq.parameter_names([getattr(gate, field) for field in fields]))
