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
    try:
        with _without_its_own_warnings():
            parts = cirq.decompose_once(operation, default=None)
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        return None  # a decomposition that only works on numbers
    if parts is None or any(not set(part.qubits) <= set(operation.qubits) for part in parts):
        return None
    return parts


def synthesised(qubits: Sequence[cirq.Qid], matrix: np.ndarray) -> list[cirq.Operation]:
    """A unitary on one to four qubits as gates on one and two, up to a global phase.

    Shende, Bullock and Markov, https://arxiv.org/abs/quant-ph/0406176, for more than two.
    """
    if len(qubits) == 1:
        return [gate.on(*qubits) for gate in cirq.single_qubit_matrix_to_gates(matrix)]
    with _without_its_own_warnings():
        if len(qubits) == 2:
            return cirq.two_qubit_matrix_to_cz_operations(*qubits, matrix, allow_partial_czs=False)
        parts = list(cirq.quantum_shannon_decomposition(list(qubits), matrix))
    return [part for part in parts if part.qubits]
