"""From a data set of circuits, as TensorFlow Quantum takes it, to one circuit and its angles.

TensorFlow Quantum's examples are circuits of their own (`tfq.convert_to_tensor(circuits)`) which
usually differ in a few numbers only. Here an example is a row of angles, and the circuit is one.
"""

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import cirq
import numpy as np
import sympy

from common.errors import CircuitError

# Which of a gate's fields may differ from circuit to circuit, by the class that holds them.
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
    **_ROTATIONS,  # before the powers, which rotations are, too
    **_POWERS,
    cirq.PhasedXPowGate: ("exponent", "phase_exponent"),
    cirq.PhasedXZGate: ("x_exponent", "z_exponent", "axis_phase_exponent"),
    cirq.PhasedISwapPowGate: ("exponent", "phase_exponent"),
    cirq.FSimGate: ("theta", "phi"),
    cirq.ControlledGate: (),
}


class _Shape(NamedTuple):
    """A gate without its numbers.

    Attributes:
        kind: Its class, with which it is made again; None for one that is taken as it is.
        fields: A field's name and its value; _NUMBER where a number stands, a _Shape for a gate.
    """

    kind: type[cirq.Gate] | None
    fields: tuple[tuple[str, Any], ...]


_NUMBER = object()


class _Part(NamedTuple):
    """An operation, taken apart."""

    moment: int
    operation: cirq.Operation
    shape: _Shape
    numbers: list[float]

    @property
    def likeness(self) -> tuple:
        """What must be the same in all circuits."""
        return self.moment, self.operation.qubits, self.shape


def circuits_to_angles(
    circuits: Sequence[cirq.AbstractCircuit],
) -> tuple[cirq.Circuit, tuple[str, ...], np.ndarray]:
    """One circuit of which each of the given ones is a special case.

    Numbers in gates (exponents, angles, phases) that differ from circuit to circuit become symbols
    x0, x1 and so on, in the circuit's order; what is the same in all, symbols too, stays as it is.
    Convert training and test examples together: a number is a symbol if it differs among them.

    Args:
        circuits: B circuits of one shape: the same gates on the same qubits in the same moments.

    Returns:
        The circuit, the names of its n new symbols, and their values float64 [B, n]: with those of
        row b it is circuit b. A value is in its gate's own unit: radians of rx, ry and rz,
        half-turns of powers.

    Raises:
        CircuitError: There is no circuit, or one has another shape; it names the first that has,
            with moment and qubits.
    """
    if not circuits:
        raise CircuitError("there is no circuit to take angles from: give at least one")
    rows = [_taken_apart(circuit) for circuit in circuits]
    for number, row in enumerate(rows):
        _compare(rows[0], row, number)
    first = rows[0]
    numbers = np.array([[n for part in row for n in part.numbers] for row in rows], np.float64)
    varies = (numbers != numbers[0]).any(axis=0)
    names = _names(int(varies.sum()), cirq.parameter_names(circuits[0]))
    symbols = iter(map(sympy.Symbol, names))
    values = iter([next(symbols) if v else n for v, n in zip(varies, numbers[0], strict=True)])
    moments: list[list[cirq.Operation]] = [[] for _ in circuits[0]]
    for part in first:
        filled = [next(values) for _ in part.numbers]
        moments[part.moment].append(_filled(part, filled))
    return cirq.Circuit(map(cirq.Moment, moments)), names, numbers[:, varies]


def _taken_apart(circuit: cirq.AbstractCircuit) -> list[_Part]:
    parts = []
    for index, moment in enumerate(circuit):
        for operation in sorted(moment.operations, key=lambda op: op.qubits):
            numbers: list[float] = []
            shape = _shape(operation.gate, numbers)
            if operation.gate is None:
                shape = _Shape(None, (("operation", operation.untagged),))
            parts.append(_Part(index, operation, shape, numbers))
    return parts


def _shape(gate: Any, numbers: list[float]) -> _Shape:
    """A gate's shape; its numbers are appended."""
    kind = next((kind for kind in _NUMBERS if isinstance(gate, kind)), None)
    if kind is None:
        return _Shape(None, (("gate", gate),))
    fields: list[tuple[str, Any]] = []
    for name, value in kind._json_dict_(gate).items():
        if isinstance(value, cirq.Gate):
            fields.append((name, _shape(value, numbers)))
        elif name in _NUMBERS[kind] and _is_number(value):
            numbers.append(float(value))
            fields.append((name, _NUMBER))
        else:
            fields.append((name, value))
    return _Shape(kind, tuple(fields))


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) or (isinstance(value, sympy.Expr) and bool(value.is_real))


def _filled(part: _Part, numbers: Sequence[Any]) -> cirq.Operation:
    """The operation with other numbers, or as it was where none is a symbol."""
    if not any(isinstance(number, sympy.Symbol) for number in numbers):
        return part.operation
    ahead = iter(numbers)

    def made(shape: _Shape) -> cirq.Gate:
        def value(field: Any) -> Any:
            if isinstance(field, _Shape):
                return made(field)
            return next(ahead) if field is _NUMBER else field

        fields = {name: value(field) for name, field in shape.fields}
        return shape.kind(**fields) if shape.kind else fields["gate"]

    operation = made(part.shape).on(*part.operation.qubits)
    return operation.with_tags(*part.operation.tags) if part.operation.tags else operation


def _names(count: int, taken: frozenset[str] | set[str]) -> tuple[str, ...]:
    """x0, x1 and so on, but those that are taken."""

    def free() -> Iterator[str]:
        number = 0
        while True:
            if f"x{number}" not in taken:
                yield f"x{number}"
            number += 1

    return tuple(name for name, _ in zip(free(), range(count), strict=False))


def _compare(first: Sequence[_Part], row: Sequence[_Part], number: int) -> None:
    """Raise where a circuit's shape is not the first one's."""
    for at in range(max(len(first), len(row))):
        mine, theirs = first[at : at + 1], row[at : at + 1]
        if [part.likeness for part in mine] != [part.likeness for part in theirs]:
            raise CircuitError(
                f"circuit {number} has {_said(theirs)} where circuit 0 has {_said(mine)}: circuits"
                " of one shape differ in numbers alone; write a gate that an example lacks as its"
                " power 0"
            )


def _said(parts: Sequence[_Part]) -> str:
    if not parts:
        return "no more gates"
    gate = parts[0].operation.gate or parts[0].operation.untagged
    name = str(gate) if "\n" not in str(gate) else type(gate).__name__
    qubits = ", ".join(map(str, parts[0].operation.qubits))
    return f"{name} in moment {parts[0].moment} on {qubits}"
