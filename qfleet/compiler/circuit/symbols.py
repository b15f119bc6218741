"""Symbols of circuits: their names, also where Cirq leaves them out, and whether all are listed."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

import cirq
import sympy

from qfleet.compiler.circuit import lowering
from qfleet.compiler.circuit.channel import NoiseChannel
from qfleet.compiler.circuit.factor import Factor
from qfleet.compiler.circuit.location import describe_location
from qfleet.errors import CircuitError

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


def check_symbols(
    circuit: cirq.AbstractCircuit, inputs: Sequence[str], parameters: Sequence[str]
) -> None:
    """Check that every symbol is listed exactly once.

    Args:
        circuit: The circuit.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.

    Raises:
        CircuitError: The message names the symbol; for an unknown symbol also the gate, the moment
            and the qubits.
    """
    names = (*inputs, *parameters)
    duplicates = sorted(name for name, count in Counter(names).items() if count > 1)
    if duplicates:
        raise CircuitError(
            f"the symbol {duplicates[0]} is listed more than once among inputs and parameters:"
            " list each symbol once"
        )
    known = frozenset(names)
    checked: set[Hashable] = set()
    for index, moment in enumerate(circuit):
        for operation in moment:
            key = lowering.gate_key(operation.gate)
            if key is not None and key in checked:
                continue
            checked.add(key)
            unknown = sorted(parameter_names(operation) - known)
            if unknown:
                raise CircuitError(
                    f"{describe_location(operation, index)} uses the symbol"
                    f" {unknown[0]}, which is neither an input nor a parameter: add it to one of"
                    " them"
                )


def check_factor_symbols(
    factors: Iterable[Factor | NoiseChannel], inputs: Sequence[str], parameters: Sequence[str]
) -> None:
    """Check that every symbol of factors is listed: gates of users may not report theirs.

    Args:
        factors: The factors.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.

    Raises:
        CircuitError: The message names the symbol.
    """
    names = frozenset[str]().union(*(factor.symbols for factor in factors))
    if unlisted := sorted(names.difference(inputs, parameters)):
        raise CircuitError(
            f"the factors use the symbol {unlisted[0]}, which is neither an input nor a parameter:"
            " add it to one of them"
        )
