"""Decompositions by Cirq, of gates and of unitaries."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import cirq
import numpy as np

from qfleet.compiler.circuit import shannon

# Methods of gates by which Cirq finds their matrices, and their parts.
_MATRICES = frozenset({"_eigen_components", "_unitary_", "_apply_unitary_"})
_DECOMPOSITIONS = frozenset({"_decompose_", "_decompose_with_context_"})


@contextmanager
def _suppress_cirq_warnings() -> Iterator[None]:
    """Suppress warnings about deprecated functions that Cirq's synthesis calls itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def decompose(operation: cirq.Operation) -> list[cirq.Operation] | None:
    """Return the parts of `decompose_once`; None also if it fails."""
    try:
        return decompose_once(operation)
    except Exception:  # of the class of a gate, whose decomposition may support numbers only
        return None


def decompose_once(operation: cirq.Operation) -> list[cirq.Operation] | None:
    """Decompose an operation by one step; errors of its class pass.

    Args:
        operation: Any operation.

    Returns:
        The parts, first applied first; None if Cirq has no decomposition on the same qubits, or
        one of another matrix.
    """
    if _has_other_matrix(operation.gate):
        return None
    # On neighbors of a line: elsewhere Cirq 1.5 decomposes ThreeQubitDiagonalGate incorrectly.
    line = cirq.LineQubit.range(len(operation.qubits))
    there = dict(zip(operation.qubits, line, strict=True))
    back = dict(zip(line, operation.qubits, strict=True))
    with _suppress_cirq_warnings():
        parts = cirq.decompose_once(operation.transform_qubits(there), default=None)
    if parts is None or any(not set(part.qubits) <= set(line) for part in parts):
        return None
    return [part.transform_qubits(back) for part in parts]


def _has_other_matrix(gate: cirq.Gate | None) -> bool:
    """Return True if a user's class defines a matrix, and inherits the decomposition of another."""
    if isinstance(gate, cirq.ControlledGate):
        while isinstance(gate, cirq.ControlledGate | cirq.ParallelGate):
            gate = gate.sub_gate
    kind = type(gate)
    own = {
        name for one in kind.__mro__ if not one.__module__.startswith("cirq.") for name in vars(one)
    }
    inherits = not own & _DECOMPOSITIONS and any(hasattr(kind, one) for one in _DECOMPOSITIONS)
    is_special = getattr(kind, "controlled", None) is not cirq.Gate.controlled
    return bool(own & _MATRICES) and (inherits or (is_special and "controlled" not in own))


def synthesize(qubits: Sequence[cirq.Qid], matrix: np.ndarray) -> list[cirq.Operation]:
    """Decompose a unitary into gates on one and two qubits, global phase included.

    Args:
        qubits: One to four qubits; the first is the most significant bit.
        matrix: The unitary matrix.

    Returns:
        Operations, first applied first: named gates for up to two qubits, matrix gates, CNOTs and
        rotations for more (see shannon.py).
    """
    if len(qubits) > 2:
        return shannon.shannon_factors(qubits, matrix)
    if len(qubits) == 1:
        parts = [gate.on(*qubits) for gate in cirq.single_qubit_matrix_to_gates(matrix)]
    else:
        with _suppress_cirq_warnings():
            parts = cirq.two_qubit_matrix_to_cz_operations(*qubits, matrix, False)
    actual = cirq.Circuit(parts).unitary(qubits, qubits_that_should_be_present=qubits)
    overlap = np.vdot(actual, matrix)
    return [*parts, cirq.global_phase_operation(overlap / abs(overlap))]
