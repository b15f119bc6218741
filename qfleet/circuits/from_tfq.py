"""Conversion of a data set of circuits, as TensorFlow Quantum takes it, to one circuit and angles.

In TensorFlow Quantum every example is a circuit (`tfq.convert_to_tensor(circuits)`). These circuits
usually differ in a few numbers only. Here an example is a row of angles of one shared circuit.
"""

from collections.abc import Sequence

import cirq
import numpy as np

from qfleet.argument_checks import checked
from qfleet.circuit_checks import CIRCUITS
from qfleet.compiler.circuit.lifted_numbers import OperationShapes, ShapedOperation, lift
from qfleet.compiler.circuit.symbols import parameter_names
from qfleet.errors import CircuitError


@checked(circuits=CIRCUITS)
def circuits_to_angles(
    circuits: Sequence[cirq.AbstractCircuit],
) -> tuple[cirq.Circuit, tuple[str, ...], np.ndarray]:
    """Convert circuits to one circuit with symbols, and the values of the symbols.

    Numbers in gates (exponents, angles, phases) that differ between circuits become symbols x0, x1
    and so on, in the circuit's order. Numbers and symbols that are equal in all circuits stay.
    Convert training and test examples together, because both decide which numbers become symbols.

    Args:
        circuits: B circuits of one shape: the same gates on the same qubits in the same moments.

    Returns:
        The circuit, the names of its n new symbols, and their values float64 [B, n]; row b gives
        circuit b. Values have the unit of their gate: radians for rx, ry and rz, half-turns for
        powers.

    Raises:
        ArgumentError: `circuits` has the wrong type.
        CircuitError: There are no circuits, or one has another shape; the message names the first
            difference with moment and qubits.

    Examples:
        >>> import cirq
        >>> qubit = cirq.LineQubit(0)
        >>> circuits = [cirq.Circuit(cirq.X(qubit) ** power) for power in (0.25, 0.5)]
        >>> circuit, names, angles = circuits_to_angles(circuits)
        >>> names, angles.tolist()
        (('x0',), [[0.25], [0.5]])
    """
    if not circuits:
        raise CircuitError("there are no circuits to convert: give at least one")
    shapes = OperationShapes()
    rows = [shapes.of_circuit(circuit) for circuit in circuits]
    for number, row in enumerate(rows):
        _compare(rows[0], row, number)
    lifted = lift(rows, len(circuits[0]), frozenset(parameter_names(circuits[0])))
    return lifted.circuit, lifted.names, lifted.numbers


def _compare(first: Sequence[ShapedOperation], row: Sequence[ShapedOperation], number: int) -> None:
    """Raise CircuitError if a circuit's shape differs from the first one's."""
    for at in range(max(len(first), len(row))):
        expected, actual = first[at : at + 1], row[at : at + 1]
        if list(map(_comparison_key, expected)) != list(map(_comparison_key, actual)):
            raise CircuitError(
                f"circuit {number} has {_describe(actual)} where circuit 0 has"
                f" {_describe(expected)}: {_advice(expected, actual)}"
            )


def _comparison_key(part: ShapedOperation) -> tuple[object, ...]:
    """Return the content that must be equal in all circuits."""
    return part.moment, part.operation.qubits, part.key


def _advice(expected: Sequence[ShapedOperation], actual: Sequence[ShapedOperation]) -> str:
    """Return what to do about different operations."""
    parts = [*expected, *actual]
    kinds = {type(part.operation.gate or part.operation.untagged) for part in parts}
    places = {(part.moment, part.operation.qubits) for part in parts}
    if len(parts) == 2 and len(kinds) == len(places) == 1 and parts[0].is_fixed:
        return (
            f"numbers of a {kinds.pop().__name__} do not become symbols; use equal ones in all"
            " circuits, or rotations and powers"
        )
    return "circuits may differ in numbers only; write a missing gate as its power 0"


def _describe(parts: Sequence[ShapedOperation]) -> str:
    if not parts:
        return "no more gates"
    gate = parts[0].operation.gate or parts[0].operation.untagged
    name = str(gate) if "\n" not in str(gate) else type(gate).__name__
    qubits = ", ".join(map(str, parts[0].operation.qubits))
    return f"{name} in moment {parts[0].moment} on {qubits}"
