"""Cirq's decompositions, from gates and from unitaries."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import cirq
import numpy as np

from qfleet.compiler import shannon


@contextmanager
def _without_its_own_warnings() -> Iterator[None]:
    """Cirq's synthesis uses calls of its own that Cirq deprecates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def decompose(operation: cirq.Operation) -> list[cirq.Operation] | None:
    """One step of Cirq's decomposition; None if there is none, or none on the same qubits."""
    # On neighbours on a line: where qubits are none, ThreeQubitDiagonalGate's is wrong (Cirq 1.5).
    line = cirq.LineQubit.range(len(operation.qubits))
    there = dict(zip(operation.qubits, line, strict=True))
    back = dict(zip(line, operation.qubits, strict=True))
    try:
        with _without_its_own_warnings():
            parts = cirq.decompose_once(operation.transform_qubits(there), default=None)
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        return None  # a decomposition that only works on numbers
    if parts is None or any(not set(part.qubits) <= set(line) for part in parts):
        return None
    return [part.transform_qubits(back) for part in parts]


def synthesise(qubits: Sequence[cirq.Qid], matrix: np.ndarray) -> list[cirq.Operation]:
    """A unitary on one to four qubits as gates on one and two, phase included.

    From three on they are matrices and CNOTs, below that gates that have names: see shannon.py.
    """
    if len(qubits) > 2:
        return shannon.shannon_factors(qubits, matrix)
    if len(qubits) == 1:
        parts = [gate.on(*qubits) for gate in cirq.single_qubit_matrix_to_gates(matrix)]
    else:
        with _without_its_own_warnings():
            parts = cirq.two_qubit_matrix_to_cz_operations(*qubits, matrix, False)
    found = cirq.Circuit(parts).unitary(qubits, qubits_that_should_be_present=qubits)
    overlap = np.vdot(found, matrix)
    return [*parts, cirq.global_phase_operation(overlap / abs(overlap))]
