"""Compilation of batches of different circuits: `qfleet.compile_batch`.

Circuits that differ in the numbers of their gates only become one compiled circuit, whose examples
differ in these numbers.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import cirq
import numpy as np
import sympy
from numpy.typing import DTypeLike

from qfleet.argument_checks import checked
from qfleet.circuit_checks import CIRCUITS
from qfleet.compiler.choose_method import Method
from qfleet.compiler.circuit.lifted_numbers import OperationShapes, ShapedOperation, lift
from qfleet.compiler.circuit.symbols import check_symbols, parameter_names
from qfleet.engine import arguments
from qfleet.engine.arguments import Observables
from qfleet.engine.circuit_batch import CircuitBatch, CircuitGroup
from qfleet.engine.compiled_circuit import compile_circuit
from qfleet.errors import CircuitError, MemoryLimitError

_MAX_NAMED = 5  # qubits in a message


class CircuitStructure(NamedTuple):
    """Circuits of a batch that differ in the numbers of their gates only.

    Attributes:
        rows: [b] int64, the rows of the batch, in order.
        numbers: [b, n] float64, the numbers that differ, in the unit of their gates.
        circuit: The circuit of all rows, with symbols for the numbers.
        inputs: Names of the inputs of the batch, and then of the n numbers.
    """

    rows: np.ndarray
    numbers: np.ndarray
    circuit: cirq.Circuit
    inputs: tuple[str, ...]


class CircuitStructures(NamedTuple):
    """The structures of a batch of circuits.

    Attributes:
        groups: The structures, in the order of their first rows.
        inputs: Names of the symbols with one value per circuit.
        parameters: Names of the symbols that all circuits share.
    """

    groups: tuple[CircuitStructure, ...]
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]


@checked(circuits=CIRCUITS)
def compile_batch(
    circuits: Sequence[cirq.AbstractCircuit],
    inputs: Iterable[str | sympy.Symbol] = (),
    parameters: Iterable[str | sympy.Symbol] | None = None,
    observables: Observables = (),
    *,
    dtype: DTypeLike = "complex128",
    initial_states: bool = False,
    method: Method = "auto",
    trajectories: int | None = None,
    shots: int | None = None,
    seed: int = 0,
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
        initial_states: True for a state per circuit, as for `qfleet.compile`.
        method: As for `qfleet.compile`; "auto" chooses for each group.
        trajectories: As for `qfleet.compile`, of each circuit.
        shots: As for `qfleet.compile`, of each circuit.
        seed: As for `qfleet.compile`. Equal circuits with equal inputs draw equal numbers.
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
    sums = arguments.checked_observables(observables)
    structures = group_circuits(circuits, inputs, parameters, sums)
    found = []
    for one in structures.groups:
        with errors_of_circuit(int(one.rows[0])):
            compiled = compile_circuit(
                one.circuit,
                one.inputs,
                structures.parameters,
                sums,
                dtype=dtype,
                initial_states=initial_states,
                method=method,
                trajectories=trajectories,
                shots=shots,
                seed=seed,
                device=device,
            )
        found.append(CircuitGroup(one.rows, one.numbers, compiled))
    return CircuitBatch(found, structures.inputs, structures.parameters)


def group_circuits(
    circuits: Sequence[cirq.AbstractCircuit],
    inputs: Iterable[str | sympy.Symbol],
    parameters: Iterable[str | sympy.Symbol] | None,
    observables: Sequence[cirq.PauliSum],
) -> CircuitStructures:
    """Find the circuits that differ in numbers only, and make them one circuit with symbols.

    Args:
        circuits: As for `compile_batch`.
        inputs: As for `compile_batch`.
        parameters: As for `compile_batch`.
        observables: As for `compile_batch`.

    Raises:
        CircuitError: As for `compile_batch`.
    """
    if not circuits:
        raise CircuitError("circuits is empty: pass at least one circuit")
    _check_qubits(circuits, observables)
    groups = _group(circuits)
    names = sorted({name for first in groups for name in parameter_names(circuits[first])})
    columns, shared = arguments.checked_symbols(inputs, parameters, names)
    for first in groups:
        with errors_of_circuit(first):
            check_symbols(circuits[first], columns, shared)
    taken = frozenset((*columns, *shared))
    found = []
    for first, members in groups.items():
        lifted = lift(list(members.values()), len(circuits[first]), taken)
        rows = np.array(list(members))
        found.append(
            CircuitStructure(rows, lifted.numbers, lifted.circuit, (*columns, *lifted.names))
        )
    return CircuitStructures(tuple(found), columns, shared)


def _group(
    circuits: Sequence[cirq.AbstractCircuit],
) -> dict[int, dict[int, list[ShapedOperation]]]:
    """Return the rows and the operations of circuits of one shape, by the first row."""
    shapes = OperationShapes()
    numbers: dict[object, int] = {}  # of keys, which are slow to compare
    firsts: dict[tuple[int, ...], int] = {}
    groups: dict[int, dict[int, list[ShapedOperation]]] = {}
    for row, circuit in enumerate(circuits):
        with errors_of_circuit(row):
            parts = shapes.of_circuit(circuit)
        key = tuple(numbers.setdefault(part.key, len(numbers)) for part in parts)
        groups.setdefault(firsts.setdefault(key, row), {})[row] = parts
    return groups


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
def errors_of_circuit(row: int) -> Iterator[None]:
    """Put the row of a circuit before an error about it."""
    try:
        yield
    except MemoryLimitError:
        raise
    except CircuitError as error:
        raise CircuitError(f"circuit {row}: {error}") from error
