"""The price of a circuit: CNOTs, their depth, and the predicted fidelity on a device."""

from collections.abc import Iterator
from typing import NamedTuple

import cirq
import numpy as np

from qfleet.argument_checks import checked
from qfleet.circuit_checks import CIRCUIT
from qfleet.compiler.circuit.symbols import parameter_names
from qfleet.devices.native_gates import to_two_qubit_gates
from qfleet.errors import ArgumentError

_TOLERANCE = 1e-6
_ONE_CNOT = (cirq.CXPowGate, cirq.CZPowGate)


class Cost(NamedTuple):
    """The price of a circuit.

    Attributes:
        two_qubit_gates: CNOTs.
        depth: The most CNOTs one after another.
    """

    two_qubit_gates: int
    depth: int


@checked(circuit=CIRCUIT)
def circuit_cost(circuit: cirq.AbstractCircuit) -> Cost:
    """Count the CNOTs of a circuit, without regard to connectivity.

    Operations on three qubits and more are decomposed by Cirq. Neighbouring operations of a pair
    are one unitary, which counts the CNOTs that it needs, 0 to 3 (arXiv:quant-ph/0308033); so
    angles of 0 cost nothing. A CZ counts as a CNOT.

    Args:
        circuit: Unitary gates without symbols.

    Raises:
        ArgumentError: The circuit has symbols.
        NoiseError: An operation can't be decomposed.
    """
    if names := parameter_names(circuit):
        raise ArgumentError(f"the circuit has the free symbol {min(names)}: resolve its parameters")
    total = 0
    level: dict[cirq.Qid, int] = {}
    for run in _runs(circuit):
        count = _cnots(run)
        total += count
        if count:
            first, second = run[0].qubits
            level[first] = level[second] = max(level.get(first, 0), level.get(second, 0)) + count
    return Cost(total, max(level.values(), default=0))


def _runs(circuit: cirq.AbstractCircuit) -> Iterator[list[cirq.Operation]]:
    """Yield the operations of a pair of qubits that nothing of another pair is between."""
    runs: dict[cirq.Qid, list[cirq.Operation]] = {}
    wide = any(len(one.qubits) > 2 for one in circuit.all_operations())
    for one in (to_two_qubit_gates(circuit) if wide else circuit).all_operations():
        if len(one.qubits) == 1:
            if one.qubits[0] in runs:
                runs[one.qubits[0]].append(one)
            continue
        if len(one.qubits) != 2:
            continue  # a global phase
        first, second = one.qubits
        run = runs.get(first)
        if run is not None and run is runs.get(second):
            run.append(one)
            continue
        for qubit in one.qubits:
            if (old := runs.get(qubit)) is not None:
                for other in old[0].qubits:
                    del runs[other]
                yield old
        runs[first] = runs[second] = [one]
    seen: list[list[cirq.Operation]] = []
    for run in runs.values():
        if not any(run is other for other in seen):
            seen.append(run)
            yield run


def _cnots(run: list[cirq.Operation]) -> int:
    wide = [one for one in run if len(one.qubits) == 2]
    if len(wide) == 1 and isinstance(wide[0].gate, _ONE_CNOT) and wide[0].gate.exponent == 1:
        return 1
    qubits = wide[0].qubits
    matrix = cirq.Circuit(run).unitary(qubit_order=qubits, qubits_that_should_be_present=qubits)
    return int(cirq.num_cnots_required(np.asarray(matrix, np.complex128), atol=_TOLERANCE))
