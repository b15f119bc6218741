"""Unitaries on many qubits as unitaries on two, CNOTs and rotations, exact in the phase.

Quantum Shannon decomposition: Shende, Bullock and Markov, https://arxiv.org/abs/quant-ph/0406176,
theorems 12 and 13. Cirq's own ends in CZs and named gates, which are to be fused again here; it is
a hundred times slower, drops what is below 1e-8 and fails where a qubit is left alone (Cirq 1.5).
"""

from collections.abc import Callable, Iterator, Sequence

import cirq
import numpy as np
import scipy.linalg

_NOTHING = 1e-14  # radians that are left out


def shannon_factors(qubits: Sequence[cirq.Qid], matrix: np.ndarray) -> list[cirq.Operation]:
    """The operations whose product is a [2**N, 2**N] unitary on N qubits, two or more."""
    return list(_unitary(tuple(qubits), np.asarray(matrix, np.complex128)))


def _unitary(qubits: tuple[cirq.Qid, ...], matrix: np.ndarray) -> Iterator[cirq.Operation]:
    if len(qubits) <= 2:
        if np.abs(matrix - np.eye(len(matrix))).max() > _NOTHING:
            yield cirq.MatrixGate(matrix, unitary_check=False).on(*qubits)
        return
    half = len(matrix) // 2
    left, angles, right = scipy.linalg.cossin(matrix, p=half, q=half, separate=True)
    if np.abs(angles).max() < _NOTHING:  # the first qubit only controls
        yield from _chosen(qubits, left[0] @ right[0], left[1] @ right[1])
        return
    yield from _chosen(qubits, *right)
    yield from _rotation(cirq.ry, qubits[0], qubits[1:], 2 * angles)
    yield from _chosen(qubits, *left)


def _chosen(
    qubits: tuple[cirq.Qid, ...], zero: np.ndarray, one: np.ndarray
) -> Iterator[cirq.Operation]:
    """One of two unitaries on all qubits but the first, chosen by the first."""
    # zero = V D W and one = V D^* W, so zero one^dagger = V D^2 V^dagger.
    squares, vectors = scipy.linalg.schur(zero @ one.conj().T, output="complex")
    angles = np.angle(np.diag(squares)) / 2
    if np.abs(angles).max() < _NOTHING:
        yield from _unitary(qubits[1:], zero)
        return
    turned = np.exp(1j * angles)[:, None] * vectors.conj().T @ one
    yield from _unitary(qubits[1:], turned)
    yield from _rotation(cirq.rz, qubits[0], qubits[1:], -2 * angles)
    yield from _unitary(qubits[1:], vectors)


def _rotation(
    gate: Callable[[float], cirq.Gate],
    target: cirq.Qid,
    controls: Sequence[cirq.Qid],
    angles: np.ndarray,
) -> Iterator[cirq.Operation]:
    """A rotation about y or z by one of 2**len(controls) angles, chosen by the controls."""
    count = len(angles)
    if np.abs(angles).max() < _NOTHING:
        return
    for step in range(count):
        mask = step ^ step >> 1  # Gray's code: one control is added or taken away a step
        signs = [1 - 2 * ((pattern & mask).bit_count() % 2) for pattern in range(count)]
        yield gate(float(np.mean(angles * signs))).on(target)
        changed = min((step + 1 & -(step + 1)).bit_length(), len(controls))
        yield cirq.CNOT(controls[-changed], target)
