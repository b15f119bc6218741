"""Conversion of a data set of circuits, as TensorFlow Quantum takes it, to one circuit and angles.

In TensorFlow Quantum every example is a circuit (`tfq.convert_to_tensor(circuits)`). These circuits
usually differ in a few numbers only. Here an example is a row of angles of one shared circuit.
"""

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import NamedTuple

import cirq
import numpy as np
import sympy

from qfleet.argument_checks import checked
from qfleet.circuit_checks import CIRCUITS
from qfleet.compiler.circuit.identity import identity
from qfleet.compiler.circuit.symbols import parameter_names
from qfleet.errors import CircuitError

# Fields of a gate that may differ between circuits, by the class that defines them.
_ROTATIONS = dict.fromkeys((cirq.Rx, cirq.Ry, cirq.Rz), ("rads",))
_POWERS = dict.fromkeys(
    (
        cirq.XPowGate,
        cirq.YPowGate,
        cirq.ZPowGate,
        cirq.HPowGate,
        cirq.CZPowGate,
        cirq.CXPowGate,
        cirq.XXPowGate,
        cirq.YYPowGate,
        cirq.ZZPowGate,
        cirq.SwapPowGate,
        cirq.ISwapPowGate,
        cirq.CCXPowGate,
        cirq.CCZPowGate,
    ),
    ("exponent",),
)
_NUMBERS: Mapping[type[cirq.Gate], tuple[str, ...]] = {
    **_ROTATIONS,  # before the powers: rotations are subclasses of them
    **_POWERS,
    cirq.PhasedXPowGate: ("exponent", "phase_exponent"),
    cirq.PhasedXZGate: ("x_exponent", "z_exponent", "axis_phase_exponent"),
    cirq.PhasedISwapPowGate: ("exponent", "phase_exponent"),
    cirq.FSimGate: ("theta", "phi"),
    cirq.ControlledGate: (),
}


class _GateShape(NamedTuple):
    """A gate without its numbers.

    Attributes:
        kind: Its class, to make it again; None for a gate that is used as it is.
        fields: Names and values of its fields: _NUMBER for a number, a _GateShape for a gate.
    """

    kind: type[cirq.Gate] | None
    fields: tuple[tuple[str, object], ...]


_NUMBER = object()
_PLACEHOLDERS = tuple(sympy.Dummy() for _ in range(3))  # equal to no symbol of a circuit


class _ShapedOperation(NamedTuple):
    """An operation as shape and numbers."""

    moment: int
    operation: cirq.Operation
    shape: _GateShape
    numbers: list[float]

    @property
    def comparison_key(self) -> tuple[object, ...]:
        """The content that must be equal in all circuits."""
        without_numbers = _with_numbers(self, _PLACEHOLDERS[: len(self.numbers)])
        return self.moment, self.operation.qubits, identity(without_numbers, self.moment)


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
    rows = [_operations(circuit) for circuit in circuits]
    for number, row in enumerate(rows):
        _compare(rows[0], row, number)
    first = rows[0]
    numbers = np.array([[n for part in row for n in part.numbers] for row in rows], np.float64)
    varies = (numbers != numbers[0]).any(axis=0)
    names = _names(int(varies.sum()), parameter_names(circuits[0]))
    symbols = iter(map(sympy.Symbol, names))
    values = iter([next(symbols) if v else n for v, n in zip(varies, numbers[0], strict=True)])
    moments: list[list[cirq.Operation]] = [[] for _ in circuits[0]]
    for part in first:
        replaced = [next(values) for _ in part.numbers]
        moments[part.moment].append(_with_numbers(part, replaced))
    return cirq.Circuit(map(cirq.Moment, moments)), names, numbers[:, varies]


def _operations(circuit: cirq.AbstractCircuit) -> list[_ShapedOperation]:
    parts = []
    for index, moment in enumerate(circuit):
        for operation in sorted(moment.operations, key=lambda op: op.qubits):
            numbers: list[float] = []
            shape = _shape(operation.gate, numbers)
            parts.append(_ShapedOperation(index, operation, shape, numbers))
    return parts


def _shape(gate: cirq.Gate | None, numbers: list[float]) -> _GateShape:
    """Return a gate's shape and append its numbers to `numbers`."""
    kind = next((kind for kind in _NUMBERS if isinstance(gate, kind)), None)
    if kind is None or not type(gate).__module__.startswith("cirq."):
        return _GateShape(None, (("gate", gate),))
    fields: list[tuple[str, object]] = []
    for name, value in kind._json_dict_(gate).items():
        if isinstance(value, cirq.Gate):
            fields.append((name, _shape(value, numbers)))
        elif name in _NUMBERS[kind] and _is_number(value):
            numbers.append(float(value))
            fields.append((name, _NUMBER))
        else:
            fields.append((name, value))
    return _GateShape(kind, tuple(fields))


def _is_number(value: object) -> bool:
    if isinstance(value, sympy.Expr):
        return bool(value.is_real) and not value.free_symbols  # a symbol may be declared real
    return isinstance(value, Real)


def _with_numbers(
    part: _ShapedOperation, numbers: Sequence[float | sympy.Symbol]
) -> cirq.Operation:
    """Return the operation with other numbers, or unchanged if none of them is a symbol."""
    if not any(isinstance(number, sympy.Symbol) for number in numbers):
        return part.operation
    remaining = iter(numbers)

    def make(shape: _GateShape) -> cirq.Gate:
        def value(field: object) -> object:
            if isinstance(field, _GateShape):
                return make(field)
            return next(remaining) if field is _NUMBER else field

        fields = {name: value(field) for name, field in shape.fields}
        return shape.kind(**fields) if shape.kind else fields["gate"]

    operation = make(part.shape).on(*part.operation.qubits)
    return operation.with_tags(*part.operation.tags) if part.operation.tags else operation


def _names(count: int, taken: frozenset[str] | set[str]) -> tuple[str, ...]:
    """Return x0, x1 and so on without the names in `taken`."""

    def free() -> Iterator[str]:
        number = 0
        while True:
            if f"x{number}" not in taken:
                yield f"x{number}"
            number += 1

    return tuple(name for name, _ in zip(free(), range(count), strict=False))


def _compare(
    first: Sequence[_ShapedOperation], row: Sequence[_ShapedOperation], number: int
) -> None:
    """Raise CircuitError if a circuit's shape differs from the first one's."""
    for at in range(max(len(first), len(row))):
        expected, actual = first[at : at + 1], row[at : at + 1]
        if [part.comparison_key for part in expected] != [part.comparison_key for part in actual]:
            raise CircuitError(
                f"circuit {number} has {_describe(actual)} where circuit 0 has"
                f" {_describe(expected)}: {_advice(expected, actual)}"
            )


def _advice(expected: Sequence[_ShapedOperation], actual: Sequence[_ShapedOperation]) -> str:
    """Return what to do about different operations."""
    parts = [*expected, *actual]
    kinds = {type(part.operation.gate or part.operation.untagged) for part in parts}
    places = {(part.moment, part.operation.qubits) for part in parts}
    if len(parts) == 2 and len(kinds) == len(places) == 1 and parts[0].shape.kind is None:
        return (
            f"numbers of a {kinds.pop().__name__} do not become symbols; use equal ones in all"
            " circuits, or rotations and powers"
        )
    return "circuits may differ in numbers only; write a missing gate as its power 0"


def _describe(parts: Sequence[_ShapedOperation]) -> str:
    if not parts:
        return "no more gates"
    gate = parts[0].operation.gate or parts[0].operation.untagged
    name = str(gate) if "\n" not in str(gate) else type(gate).__name__
    qubits = ", ".join(map(str, parts[0].operation.qubits))
    return f"{name} in moment {parts[0].moment} on {qubits}"
