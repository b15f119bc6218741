"""Batches of different circuits: one circuit per row.

    batch = qfleet.compile_batch(circuits, observables=[cirq.Z(qubit)])
    values, gradients = batch.value_and_gradient(parameters=parameters)

Circuits that differ in the numbers of their gates only become one compiled circuit, whose examples
differ in these numbers.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import cirq
import numpy as np
import sympy
from numpy.typing import ArrayLike, DTypeLike

from qfleet.argument_checks import checked, flag
from qfleet.circuit_checks import CIRCUITS
from qfleet.compiler.choose_method import Method
from qfleet.compiler.circuit.lifted_numbers import OperationShapes, ShapedOperation, lift
from qfleet.compiler.circuit.symbols import check_symbols, parameter_names
from qfleet.engine import arguments, memory
from qfleet.engine.arguments import Observables
from qfleet.engine.compiled_circuit import CompiledCircuit, compile_circuit
from qfleet.engine.gradients import Gradients
from qfleet.engine.point import Point, checked_point
from qfleet.errors import ArgumentError, CircuitError, MemoryLimitError

_MAX_NAMED = 5  # qubits in a message
_MAX_DESCRIBED = 20  # groups in a description


@dataclass(frozen=True)
class CircuitGroup:
    """Circuits of a batch that differ in the numbers of their gates only.

    Attributes:
        rows: [b] int64, the rows of the batch, in order.
        numbers: [b, n] float64, the numbers that differ, in the unit of their gates.
        compiled: The circuit of all rows. Its inputs are those of the batch and then the n numbers.
    """

    rows: np.ndarray
    numbers: np.ndarray
    compiled: CompiledCircuit


@final
class CircuitBatch:
    """Different circuits that are computed in one call. Make one with `qfleet.compile_batch`.

    Groups are computed one after another, each with all threads of the engine. Values and
    gradients are those that `qfleet.compile` gives for each circuit, up to rounding.

    All methods raise ArgumentError and MemoryLimitError as those of `CompiledCircuit` do.

    Args:
        groups: The groups, in the order of their first rows.
        inputs: Names of the inputs.
        parameters: Names of the parameters.

    Attributes:
        groups: The groups.
        size: B, the number of circuits.
        inputs: Names of the I inputs, in the order of the columns.
        parameters: Names of the P parameters, in order.
        readouts: K, the number of observables; 0 if the result is the state.
        dtype: NumPy dtype of states.
        real_dtype: NumPy dtype of expectation values.
    """

    def __init__(
        self,
        groups: Sequence[CircuitGroup],
        inputs: Sequence[str],
        parameters: Sequence[str],
    ) -> None:
        first = groups[0].compiled
        self.groups = tuple(groups)
        self.size = sum(len(group.rows) for group in groups)
        self.inputs, self.parameters = tuple(inputs), tuple(parameters)
        self.readouts = first.readouts
        self.dtype, self.real_dtype = first.dtype, first.real_dtype

    def expectation(
        self, inputs: ArrayLike | None = None, parameters: ArrayLike | None = None
    ) -> np.ndarray:
        """Compute the expectation values of the observables.

        Args:
            inputs: [B, I], a row for each circuit; None if there are no inputs.
            parameters: [P], shared by all circuits; None if there are no parameters.

        Returns:
            [B, K] of `real_dtype`, in the order of the circuits.
        """
        point = self._point(inputs, parameters)
        values = np.empty((self.size, self.readouts), self.real_dtype)
        for group in self.groups:
            values[group.rows] = group.compiled.expectation(*_arguments(group, point))
        return values

    def value_and_gradient(
        self,
        inputs: ArrayLike | None = None,
        parameters: ArrayLike | None = None,
        upstream: ArrayLike | None = None,
        *,
        input_gradients: bool = True,
    ) -> tuple[np.ndarray, Gradients]:
        """Compute expectation values, and the gradient of sum(upstream * values).

        Args:
            inputs: As for `expectation`.
            parameters: As for `expectation`.
            upstream: [B, K]; all 1 unless given.
            input_gradients: False if gradients by inputs are not wanted, which may be faster.

        Returns:
            The values as of `expectation`, and the gradients: by the inputs [B, I], and by the
            parameters [P], summed over the circuits.
        """
        by_inputs = flag(input_gradients, "input_gradients")
        point = self._point(inputs, parameters)
        weights = point.weights(upstream, self.readouts)
        values = np.empty((self.size, self.readouts), self.real_dtype)
        rows = np.zeros((self.size, len(self.inputs))) if by_inputs else None
        shared = np.zeros(len(self.parameters))
        for group in self.groups:
            values[group.rows], found = group.compiled.value_and_gradient(
                *_arguments(group, point),
                weights[group.rows],
                input_gradients=by_inputs and bool(self.inputs),
            )
            shared += found.parameters
            if rows is not None and found.inputs is not None:
                rows[group.rows] = found.inputs[:, : len(self.inputs)]
        return values, Gradients(rows, shared)

    def state(
        self, inputs: ArrayLike | None = None, parameters: ArrayLike | None = None
    ) -> np.ndarray:
        """Compute the state vectors, global phase included.

        Args:
            inputs: As for `expectation`.
            parameters: As for `expectation`.

        Returns:
            `[B, 2**N]` of `dtype`; the first of the N sorted qubits is the most significant bit.
        """
        point = self._point(inputs, parameters)
        states = None
        for group in self.groups:
            part = group.compiled.state(*_arguments(group, point))
            if states is None:
                needed = self.size * part[0].nbytes
                memory.require_bytes(needed, f"the states of {self.size} circuits")
                states = np.empty((self.size, part.shape[1]), self.dtype)
            states[group.rows] = part
        assert states is not None
        return states

    def describe(self) -> str:
        """Describe the groups, the largest first, without those beyond 20."""
        lines = [
            f"{self.size} circuits in {len(self.groups)} groups: {len(self.inputs)} inputs,"
            f" {len(self.parameters)} parameters, {self.readouts} observables, {self.dtype}"
        ]
        largest = sorted(self.groups, key=lambda one: -len(one.rows))
        for group in largest[:_MAX_DESCRIBED]:
            count, first = len(group.rows), group.rows[0]
            lines.append(
                f"  {count} like circuit {first}: {group.numbers.shape[1]} numbers differ,"
                f" {len(group.compiled.qubits)} qubits, {group.compiled.method}"
            )
        if len(largest) > _MAX_DESCRIBED:
            lines.append(f"  and {len(largest) - _MAX_DESCRIBED} groups")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<CircuitBatch of {self.size} circuits in {len(self.groups)} groups>"

    def _point(self, inputs: ArrayLike | None, parameters: ArrayLike | None) -> Point:
        if inputs is None and not self.inputs:
            inputs = np.empty((self.size, 0))
        count = len(self.inputs)
        point = checked_point(inputs, parameters, count, len(self.parameters))
        if not point.batched or len(point.inputs) != self.size:
            shape = point.inputs.shape if point.batched else point.inputs.shape[1:]
            raise ArgumentError(
                f"inputs has shape {list(shape)}: pass an array [{self.size}, {count}],"
                f" because the batch has {self.size} circuits"
            )
        return point


@checked(circuits=CIRCUITS)
def compile_batch(
    circuits: Sequence[cirq.AbstractCircuit],
    inputs: Iterable[str | sympy.Symbol] = (),
    parameters: Iterable[str | sympy.Symbol] | None = None,
    observables: Observables = (),
    *,
    dtype: DTypeLike = "complex128",
    method: Method = "auto",
    device: str | None = None,
) -> CircuitBatch:
    """Compile different circuits for one call: `qfleet.compile_batch`.

    Circuits with the same gates on the same qubits, which differ in numbers only (exponents,
    angles, phases), are compiled once. Each other circuit is compiled by itself.

    Args:
        circuits: B circuits over the same N qubits, as `qfleet.compile` takes them.
        inputs: Names of the symbols with one value per circuit, in the order of the columns. A
            circuit may lack some of them.
        parameters: Names of the symbols that all circuits share, in order; all other symbols of
            the circuits, sorted by name, unless given.
        observables: As for `qfleet.compile`; they are read from every circuit. Without any, the
            batch computes states.
        dtype: As for `qfleet.compile`.
        method: As for `qfleet.compile`; "auto" chooses for each group.
        device: As for `qfleet.compile`.

    Returns:
        The batch.

    Raises:
        ArgumentError: An argument has the wrong type; the message names it.
        CircuitError: There are no circuits, they have different qubits, an observable acts on
            another qubit, or a circuit is not supported; the message names the circuit.
        MemoryLimitError: As for `qfleet.compile`.
        LibraryError: As for `qfleet.compile`.
        DeviceError: As for `qfleet.compile`.

    Examples:
        >>> import cirq, qfleet
        >>> a, b = cirq.LineQubit.range(2)
        >>> circuits = [cirq.Circuit(cirq.X(a) ** power, cirq.I(b)) for power in (0, 0.5, 1)]
        >>> circuits.append(cirq.Circuit(cirq.X(a), cirq.CX(a, b)))
        >>> batch = qfleet.compile_batch(circuits, observables=[cirq.Z(a), cirq.Z(b)])
        >>> batch
        <CircuitBatch of 4 circuits in 2 groups>
        >>> batch.expectation().round(3).tolist()
        [[1.0, 1.0], [0.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]]
    """
    if not circuits:
        raise CircuitError("circuits is empty: pass at least one circuit")
    sums = arguments.checked_observables(observables)
    _check_qubits(circuits, sums)
    groups = _group(circuits)
    names = sorted({name for first in groups for name in parameter_names(circuits[first])})
    columns, shared = arguments.checked_symbols(inputs, parameters, names)
    for first in groups:
        with _errors_of_circuit(first):
            check_symbols(circuits[first], columns, shared)
    taken = frozenset((*columns, *shared))
    found = []
    for first, members in groups.items():
        lifted = lift(list(members.values()), len(circuits[first]), taken)
        with _errors_of_circuit(first):
            compiled = compile_circuit(
                lifted.circuit,
                (*columns, *lifted.names),
                shared,
                sums,
                dtype=dtype,
                method=method,
                device=device,
            )
        found.append(CircuitGroup(np.array(list(members)), lifted.numbers, compiled))
    return CircuitBatch(found, columns, shared)


def _group(
    circuits: Sequence[cirq.AbstractCircuit],
) -> dict[int, dict[int, list[ShapedOperation]]]:
    """Return the rows and the operations of circuits of one shape, by the first row."""
    shapes = OperationShapes()
    numbers: dict[object, int] = {}  # of keys, which are slow to compare
    firsts: dict[tuple[int, ...], int] = {}
    groups: dict[int, dict[int, list[ShapedOperation]]] = {}
    for row, circuit in enumerate(circuits):
        with _errors_of_circuit(row):
            parts = shapes.of_circuit(circuit)
        key = tuple(numbers.setdefault(part.key, len(numbers)) for part in parts)
        groups.setdefault(firsts.setdefault(key, row), {})[row] = parts
    return groups


def _arguments(group: CircuitGroup, point: Point) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and parameters of a group's circuit."""
    return np.concatenate([point.inputs[group.rows], group.numbers], axis=1), point.parameters


def _check_qubits(
    circuits: Sequence[cirq.AbstractCircuit], observables: Sequence[cirq.PauliSum]
) -> None:
    qubits = circuits[0].all_qubits()
    for row, circuit in enumerate(circuits):
        if different := sorted(qubits ^ circuit.all_qubits()):
            names = ", ".join(map(str, different[:_MAX_NAMED]))
            more = ", ..." if len(different) > _MAX_NAMED else ""
            raise CircuitError(
                f"circuit {row} and circuit 0 have different qubits, since only one of them acts on"
                f" {names}{more}: use the same qubits in all circuits; cirq.I adds one"
            )
    for at, observable in enumerate(observables):
        if unknown := sorted(set(observable.qubits) - qubits):
            raise CircuitError(
                f"observables[{at}] acts on {unknown[0]}, which no circuit has: use qubits of the"
                " circuits"
            )


@contextmanager
def _errors_of_circuit(row: int) -> Iterator[None]:
    """Put the row of a circuit before an error about it."""
    try:
        yield
    except MemoryLimitError:
        raise
    except CircuitError as error:
        raise CircuitError(f"circuit {row}: {error}") from error
