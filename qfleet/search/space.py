"""Spaces that are searched: the gates of a space, and the circuit that they are added to."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import cirq
import numpy as np
import sympy

from qfleet.argument_checks import TEXT, checked, instance, items
from qfleet.circuit_checks import QUBITS
from qfleet.compiler.circuit.symbols import parameter_names
from qfleet.errors import ArgumentError, CircuitError
from qfleet.search.known_controls import without_known_controls
from qfleet.search.records import Candidate

MAX_GATES = 1 << 16
"""Most gates of a space, which candidates number."""

_TOLERANCE = 1e-9
_AXES = {"x": cirq.rx, "y": cirq.ry, "z": cirq.rz}
_OPERATIONS = items(instance(cirq.Operation, "a cirq.Operation"), "a sequence of operations")


@dataclass(frozen=True)
class SpaceGate:
    """Operations with angles of their own, which a candidate has or lacks. Make one with `of`.

    Attributes:
        name: Its name, for tables and messages.
        operations: Operations whose symbols are `angles`.
        angles: Names of its angles, in the unit that the operations give them.
        switched: If it is not the identity where all angles are 0.
        feature: Name of the data symbol x of a gate that encodes data. Its one angle `a` is then
            (1 + w) * x, with the trained number w of a candidate; it is empty for other gates.
    """

    name: str
    operations: tuple[cirq.Operation, ...]
    angles: tuple[str, ...]
    switched: bool
    feature: str = ""

    @classmethod
    def of(
        cls, operations: cirq.Operation | Iterable[cirq.Operation], name: str = ""
    ) -> "SpaceGate":
        """Return the gate of some operations.

        Args:
            operations: Unitary operations; an operation with symbols is the identity, up to a
                global phase, where all of them are 0.
            name: Its name; the names of the operations unless given.

        Raises:
            ArgumentError: An operation with symbols does something at 0, or has no unitary.
        """
        if isinstance(operations, cirq.Operation):
            operations = (operations,)
        found: tuple[cirq.Operation, ...] = _OPERATIONS(operations, "operations")
        if not found:
            raise ArgumentError("operations is empty: a gate of a space has at least one")
        name = name or ", ".join(str(one) for one in found)[:80]
        angles: dict[str, None] = {}
        for one in found:
            own = sorted(parameter_names(one))
            angles |= dict.fromkeys(own)
            if own and not _is_identity([_at_zero(one)]):
                raise ArgumentError(
                    f"{str(one)[:80]} is not the identity where {own[0]} is 0, so that it can't be"
                    " left out: use powers and rotations by the symbol itself"
                )
        fixed = [one for one in found if not parameter_names(one)]
        return cls(name, found, tuple(angles), bool(fixed) and not _is_identity(fixed))

    @cached_property
    def qubits(self) -> frozenset[cirq.Qid]:
        """The qubits that it acts on."""
        return frozenset(qubit for one in self.operations for qubit in one.qubits)

    @property
    def entangles(self) -> bool:
        """If it has an operation on two qubits or more."""
        return any(len(one.qubits) > 1 for one in self.operations)

    def with_angles(self, values: Sequence[float | sympy.Expr]) -> list[cirq.Operation]:
        """Return its operations for values of its angles.

        Args:
            values: The values; of a gate that encodes data, the number w.
        """
        if self.feature:
            values = [(1 + values[0]) * sympy.Symbol(self.feature)]
        return self.with_rotations(values)

    def with_rotations(self, values: Sequence[float | sympy.Expr]) -> list[cirq.Operation]:
        """Return its operations for values of the angles themselves, also where it encodes data."""
        resolver = dict(zip(self.angles, values, strict=True))
        return [cirq.resolve_parameters(one, resolver) for one in self.operations]

    def switchable(
        self, values: Sequence[sympy.Expr], switch: sympy.Symbol
    ) -> list[cirq.Operation]:
        """Return its operations for symbols, and those without an angle as powers of a switch."""
        found = []
        for one in self.with_rotations(values):
            if self.switched and not cirq.is_parameterized(one):
                one = one**switch
            found.append(one)
        return found


@dataclass(frozen=True)
class Space:
    """Gates that candidates are made of, on the state of a first circuit.

    Attributes:
        gates: The gates, by number.
        qubits: The qubits, in order.
        start: Operations before all gates of a candidate, such as those of a Hartree-Fock state.
        ordered: True if candidates have each gate at most once, in the order of `gates`: they are
            masks over one circuit. False if gates come in any order and number.
    """

    gates: tuple[SpaceGate, ...]
    qubits: tuple[cirq.Qid, ...]
    start: tuple[cirq.Operation, ...] = ()
    ordered: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if not self.gates:
            raise ArgumentError("gates is empty: a space needs at least one gate")
        require_gates(len(self.gates))
        QUBITS(self.qubits, "qubits")
        known = frozenset(self.qubits)
        for gate in (*self.gates, *map(SpaceGate.of, self.start)):
            if other := sorted(gate.qubits - known):
                raise ArgumentError(
                    f"{gate.name[:80]} acts on {other[0]}, which is not among the qubits of the"
                    " space: add it to qubits"
                )

    @classmethod
    def of_operations(
        cls,
        operations: Iterable[cirq.Operation | Sequence[cirq.Operation]],
        start: Iterable[cirq.Operation] = (),
        qubits: Iterable[cirq.Qid] = (),
        *,
        ordered: bool = False,
    ) -> "Space":
        """Return the space of some Cirq operations.

        Args:
            operations: Each is a gate: an operation, or a sequence of operations. The symbols of a
                gate are its own, also where another gate has symbols of equal names.
            start: As the attribute.
            qubits: As the attribute; those of all operations, sorted, unless given.
            ordered: As the attribute.

        Raises:
            ArgumentError: An operation can't be left out, or acts on another qubit.
        """
        listed = tuple(operations)
        require_gates(len(listed))
        gates = tuple(SpaceGate.of(one) for one in listed)
        first = tuple(start)
        used = frozenset[cirq.Qid]().union(*(one.qubits for one in gates))
        used |= {qubit for one in first for qubit in one.qubits}
        return cls(gates, tuple(qubits) or tuple(sorted(used)), first, ordered=ordered)

    def circuit(self, gates: Sequence[int], angles: Sequence[float | sympy.Expr]) -> cirq.Circuit:
        """Return the circuit of a candidate, in the state |0...0>.

        A CNOT or CZ is left out, or is a gate on one qubit, where its control has a known value.

        Args:
            gates: Numbers of its gates, in order.
            angles: The angles of all its gates, one gate after another, or symbols.
        """
        circuit = cirq.Circuit(self.start, self.operations(gates, angles))
        idle = sorted(frozenset(self.qubits) - circuit.all_qubits())
        return circuit + cirq.Circuit(cirq.I.on_each(*idle)) if idle else circuit

    def operations(
        self, gates: Sequence[int], angles: Sequence[float | sympy.Expr]
    ) -> list[cirq.Operation]:
        """Return the operations of a candidate after `start`; see `circuit`."""
        found: list[cirq.Operation] = []
        left = iter(angles)
        for number in gates:
            gate = self.gates[number]
            found += gate.with_angles([next(left) for _ in gate.angles])
        return without_known_controls(found, self.start)

    def __add__(self, other: "Space") -> "Space":
        """Return the space of the gates of both, with the start of the first."""
        if not isinstance(other, Space):
            return NotImplemented
        gates, ordered = self.gates + other.gates, self.ordered and other.ordered
        return Space(gates, self.qubits, self.start, ordered=ordered)

    def angle_count(self, gates: Iterable[int]) -> int:
        """Return the number of angles of some gates."""
        return sum(len(self.gates[number].angles) for number in gates)

    def __repr__(self) -> str:
        kind = "ordered " if self.ordered else ""
        return f"<Space of {len(self.gates)} {kind}gates on {len(self.qubits)} qubits>"


def require_gates(count: int) -> None:
    """Check the number of gates of a space, before they are made.

    Raises:
        ArgumentError: There are more than MAX_GATES.
    """
    if count > MAX_GATES:
        raise ArgumentError(
            f"the space has {count:,} gates: allowed are up to {MAX_GATES:,}, so choose fewer"
            " layers, pairs or operators"
        )


@checked(rotations=TEXT)
def super_circuit_of(
    operations: cirq.AbstractCircuit | Iterable[cirq.Operation],
    start: Iterable[cirq.Operation] = (),
    *,
    rotations: str = "",
) -> tuple[Space, Candidate]:
    """Return the ordered space of the gates of a circuit, and the candidate that has all of them.

    Rotations become gates with an angle, which is trained; every gate can be left out.

    Args:
        operations: A circuit or operations without symbols.
        start: Operations before them that all candidates have.
        rotations: Axes of further rotations after each gate on two qubits, such as "y", whose
            angles are 0 at first.

    Raises:
        ArgumentError: An axis is none of x, y and z.
        CircuitError: A gate has symbols, or is not unitary.
    """
    if isinstance(operations, cirq.AbstractCircuit):
        operations = operations.all_operations()
    if unknown := set(rotations) - set(_AXES):
        raise ArgumentError(f"rotations has {min(unknown)!r}: use the letters x, y and z")
    first, gates, values = tuple(start), [], []
    for one in operations:
        if not cirq.has_unitary(one):
            raise CircuitError(f"{str(one)[:80]} has symbols or is not unitary: use fixed gates")
        found, angle = free_angle(one, "a")
        gates.append(SpaceGate.of(found))
        values += angle
        for axis, qubit in itertools.product(rotations, one.qubits if len(one.qubits) > 1 else ()):
            gates.append(SpaceGate.of(_AXES[axis](sympy.Symbol("a")).on(qubit)))
            values.append(0.0)
    used = {qubit for gate in gates for qubit in gate.qubits}
    qubits = sorted(used | {qubit for one in first for qubit in one.qubits})
    space = Space(tuple(gates), tuple(qubits), first, ordered=True)
    return space, Candidate(tuple(range(len(gates))), tuple(values), origin="start")


def free_angle(operation: cirq.Operation, name: str) -> tuple[cirq.Operation, list[float]]:
    """Return a rotation with a symbol in the place of its angle, and the angle in radians.

    Args:
        operation: Any operation; others than rotations about X, Y and Z are returned as they are.
        name: Name of the symbol.
    """
    gate = operation.gate
    for kind, make in ((cirq.Rx, cirq.rx), (cirq.Ry, cirq.ry), (cirq.Rz, cirq.rz)):
        if isinstance(gate, kind):
            turned = make(sympy.Symbol(name)).on(*operation.qubits)
            return turned, [float(gate._rads)]
    return operation, []


def _at_zero(operation: cirq.Operation) -> cirq.Operation:
    names = parameter_names(operation)
    return cirq.resolve_parameters(operation, dict.fromkeys(names, 0.0)) if names else operation


def _is_identity(operations: Sequence[cirq.Operation]) -> bool:
    """Return True if operations change no random state, up to a global phase."""
    qubits = sorted({qubit for one in operations for qubit in one.qubits})
    parts = np.random.default_rng(0).normal(size=(2, 1 << len(qubits)))
    state = (parts[0] + 1j * parts[1]) / np.linalg.norm(parts)
    tensor = state.reshape((2,) * len(qubits))
    args = cirq.ApplyUnitaryArgs(tensor.copy(), np.empty_like(tensor), range(len(qubits)))
    found = cirq.apply_unitaries(operations, qubits, args, None)
    if found is None:
        raise ArgumentError(f"{str(operations[0])[:80]} is not unitary: use unitary operations")
    phase = np.vdot(state, found.reshape(-1))
    return bool(np.linalg.norm(found.reshape(-1) - phase * state) < _TOLERANCE)
