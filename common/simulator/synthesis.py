"""Cirq's decompositions, from gates and from unitaries."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import cirq
import numpy as np


@contextmanager
def _without_its_own_warnings() -> Iterator[None]:
    """Cirq's synthesis uses calls of its own that Cirq deprecates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def decomposed(operation: cirq.Operation) -> list[cirq.Operation] | None:
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


def synthesised(qubits: Sequence[cirq.Qid], matrix: np.ndarray) -> list[cirq.Operation]:
    """A unitary on one to four qubits as gates on one and two, and a global phase where needed.

    Shende, Bullock and Markov, https://arxiv.org/abs/quant-ph/0406176, for more than two.
    """
    try:
        parts = _parts(qubits, matrix)
    except IndexError:
        # Cirq 1.5 fails where a qubit is left alone; after a turn of each, none is.
        turns = [cirq.ry(1 + at / 3).on(qubit) for at, qubit in enumerate(qubits)]
        before = cirq.Circuit(turns).unitary(qubits)
        parts = [*turns, *_parts(qubits, matrix @ before.conj().T)]
    found = cirq.Circuit(parts).unitary(qubits, qubits_that_should_be_present=qubits)
    overlap = np.vdot(found, matrix)
    return [*parts, cirq.global_phase_operation(overlap / abs(overlap))]


def _parts(qubits: Sequence[cirq.Qid], matrix: np.ndarray) -> list[cirq.Operation]:
    """Gates without their phase, since Cirq's own is that of sorted qubits only."""
    if len(qubits) == 1:
        return [gate.on(*qubits) for gate in cirq.single_qubit_matrix_to_gates(matrix)]
    with _without_its_own_warnings():
        if len(qubits) == 2:
            return cirq.two_qubit_matrix_to_cz_operations(*qubits, matrix, False)
        parts = list(cirq.quantum_shannon_decomposition(list(qubits), matrix))
    return [part for part in parts if part.qubits]
