"""Circuits that differ in the numbers of their gates only become one circuit with symbols."""

import functools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from numbers import Real
from typing import NamedTuple

import cirq
import numpy as np
import sympy

from qfleet.compiler.circuit import lowering
from qfleet.compiler.circuit.identity import identity
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
_OPERATIONS = (cirq.GateOperation, cirq.SingleQubitPauliStringGateOperation)


class _GateShape(NamedTuple):
    """A gate without its numbers.

    Attributes:
        kind: Its class, to make it again; None for a gate that is used as it is.
        fields: Names and values of its fields: _NUMBER for a number, a _GateShape for a gate.
    """

    kind: type[cirq.Gate] | None
    fields: tuple[tuple[str, object], ...]


_NUMBER = object()
_FIXED = _GateShape(None, ())
_PLACEHOLDERS = tuple(sympy.Dummy() for _ in range(3))  # equal to no symbol of a circuit


class ShapedOperation(NamedTuple):
    """An operation as shape and numbers.

    Attributes:
        moment: Index of its moment.
        operation: The operation.
        numbers: Its numbers that may become symbols.
        key: What operations share only if they are equal for equal numbers; see `identity`.
        shape: The gate without its numbers.
    """

    moment: int
    operation: cirq.Operation
    numbers: list[float]
    key: Hashable
    shape: _GateShape

    @property
    def is_fixed(self) -> bool:
        """If no number of it becomes a symbol."""
        return self.shape.kind is None


class LiftedCircuit(NamedTuple):
    """Circuits of one shape as one circuit with symbols.

    Attributes:
        circuit: The circuit.
        names: Names of the n new symbols, in the circuit's order.
        numbers: [B, n] float64: their values in each circuit.
    """

    circuit: cirq.Circuit
    names: tuple[str, ...]
    numbers: np.ndarray


class OperationShapes:
    """Finds shapes and numbers of operations, and caches the keys of the shapes."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Hashable] = {}

    def of_circuit(self, circuit: cirq.AbstractCircuit) -> list[ShapedOperation]:
        """Return the operations of a circuit, those of a moment sorted by qubits.

        Args:
            circuit: Any circuit.

        Raises:
            CircuitError: An operation is not supported.
        """
        return [
            self._of_operation(operation, index)
            for index, moment in enumerate(circuit)
            for operation in sorted(moment.operations, key=lambda one: one.qubits)
        ]

    def _of_operation(self, operation: cirq.Operation, moment: int) -> ShapedOperation:
        numbers: list[float] = []
        shape = _shape(operation.gate, numbers) if _is_gate(operation) else _FIXED
        if shape.kind is not None:
            part = ShapedOperation(moment, operation, numbers, None, shape)
            key = self._symbolic_key(part)
            if key is not None:
                return part._replace(key=key)
        return ShapedOperation(moment, operation, [], identity(operation, moment), _FIXED)

    def _symbolic_key(self, part: ShapedOperation) -> Hashable:
        """Return the key of an operation with symbols; None if the engine needs its numbers."""
        fields = _hashable_fields(part.shape)
        if fields is None:
            return _symbolic_key(part)
        known = fields, part.operation.qubits
        if known not in self._known:
            self._known[known] = _symbolic_key(part)
        return self._known[known]


def lift(
    rows: Sequence[Sequence[ShapedOperation]], moments: int, taken: frozenset[str]
) -> LiftedCircuit:
    """Return one circuit with a symbol for each number that differs between circuits.

    Args:
        rows: The operations of B circuits, of equal keys in order.
        moments: Number of moments of the first one.
        taken: Names that no new symbol may have.

    Returns:
        The circuit, in the moments and with the tags of the first one; symbols are x0, x1 and so
        on. Numbers that are equal in all circuits stay numbers.
    """
    numbers = np.array([[n for part in row for n in part.numbers] for row in rows], np.float64)
    varies = (numbers != numbers[0]).any(axis=0)
    names = _names(int(varies.sum()), taken)
    symbols = iter(map(sympy.Symbol, names))
    values = iter([next(symbols) if v else n for v, n in zip(varies, numbers[0], strict=True)])
    operations: list[list[cirq.Operation]] = [[] for _ in range(moments)]
    for part in rows[0]:
        operations[part.moment].append(_with_numbers(part, [next(values) for _ in part.numbers]))
    return LiftedCircuit(cirq.Circuit(map(cirq.Moment, operations)), names, numbers[:, varies])


def _is_gate(operation: cirq.Operation) -> bool:
    """Return True if an operation is one of Cirq's that its gate and its qubits define."""
    operation = operation.untagged
    while type(operation) is cirq.ControlledOperation:
        operation = operation.sub_operation
    return type(operation) in _OPERATIONS


def _symbolic_key(part: ShapedOperation) -> Hashable:
    """Return the key of an operation with symbols; None if the engine needs its numbers."""
    changed = _with_numbers(part, _PLACEHOLDERS[: len(part.numbers)])
    try:
        lowering.lower_operation(changed, part.moment)
    except CircuitError:
        return None
    return len(part.numbers), identity(changed, part.moment)


def _shape(gate: cirq.Gate | None, numbers: list[float]) -> _GateShape:
    """Return a gate's shape and append its numbers to `numbers`."""
    # mypy takes classes of ABCMeta for unhashable.
    kind = None if gate is None else _kind(type(gate))  # type: ignore[arg-type]
    if kind is None:
        return _GateShape(None, (("gate", gate),))
    fields: list[tuple[str, object]] = []
    for name, value in kind._json_dict_(gate).items():
        if name in _NUMBERS[kind] and _is_number(value):
            numbers.append(float(value))
            fields.append((name, _NUMBER))
        elif name == "sub_gate":
            fields.append((name, _shape(value, numbers)))
        else:
            fields.append((name, value))
    return _GateShape(kind, tuple(fields))


@functools.lru_cache(maxsize=256)
def _kind(of_gate: type) -> type[cirq.Gate] | None:
    """Return the class that defines the fields of one of Cirq's gates; None for other gates."""
    if not of_gate.__module__.startswith("cirq."):
        return None
    return next((kind for kind in _NUMBERS if issubclass(of_gate, kind)), None)


def _hashable_fields(shape: _GateShape) -> Hashable:
    """Return a shape as types, numbers and symbols; None if it has anything else.

    Cirq's comparison of gates is slow, and another one than the compiler's.
    """
    if shape.kind is None:
        return None
    found: list[object] = [shape.kind]
    for _, value in shape.fields:
        if isinstance(value, _GateShape):  # also a tuple
            part = _hashable_fields(value)
            if part is None:
                return None
            found.append(part)
        elif value is _NUMBER or isinstance(value, int | float | tuple | sympy.Basic):
            found.append(value)
        elif isinstance(value, cirq.ops.control_values.AbstractControlValues):
            found.append(tuple(map(tuple, value.expand())))
        else:
            return None
    return tuple(found)


def _is_number(value: object) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    if isinstance(value, sympy.Expr):
        return bool(value.is_real) and not value.free_symbols  # a symbol may be declared real
    return isinstance(value, Real) and math.isfinite(value)


def _with_numbers(part: ShapedOperation, numbers: Sequence[float | sympy.Symbol]) -> cirq.Operation:
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


def _names(count: int, taken: frozenset[str]) -> tuple[str, ...]:
    """Return x0, x1 and so on without the names in `taken`."""

    def free() -> Iterator[str]:
        number = 0
        while True:
            if f"x{number}" not in taken:
                yield f"x{number}"
            number += 1

    return tuple(name for name, _ in zip(free(), range(count), strict=False))
