"""Quantum Shannon decomposition: unitaries as two-qubit unitaries, CNOTs and rotations.

Global phases are exact. Source: Shende, Bullock and Markov, arXiv:quant-ph/0406176, theorems 12 and
13. Cirq 1.5's decomposition is not used: it ends in CZs and named gates that would be fused again,
takes 100 times longer, ignores values below 1e-8 and fails on unitaries with an idle qubit.
"""

from collections.abc import Callable, Iterator, Sequence

import cirq
import numpy as np
import scipy.linalg

NEGLIGIBLE_RADIANS = 1e-14


def shannon_factors(qubits: Sequence[cirq.Qid], matrix: np.ndarray) -> list[cirq.Operation]:
    """Decompose a unitary on two or more qubits.

    Args:
        qubits: N qubits; the first is the most significant bit.
        matrix: [2**N, 2**N] unitary matrix.

    Returns:
        Operations whose product is the unitary, first applied first.
    """
    return list(_unitary(tuple(qubits), np.asarray(matrix, np.complex128)))


def _unitary(qubits: tuple[cirq.Qid, ...], matrix: np.ndarray) -> Iterator[cirq.Operation]:
    if len(qubits) <= 2:
        if np.abs(matrix - np.eye(len(matrix))).max() > NEGLIGIBLE_RADIANS:
            yield cirq.MatrixGate(matrix, unitary_check=False).on(*qubits)
        return
    half = len(matrix) // 2
    left, angles, right = scipy.linalg.cossin(matrix, p=half, q=half, separate=True)
    if np.abs(angles).max() < NEGLIGIBLE_RADIANS:  # the first qubit is only a control
        yield from _multiplexed_unitary(qubits, left[0] @ right[0], left[1] @ right[1])
        return
    yield from _multiplexed_unitary(qubits, *right)
    yield from _multiplexed_rotation(cirq.ry, qubits[0], qubits[1:], 2 * angles)
    yield from _multiplexed_unitary(qubits, *left)


def _multiplexed_unitary(
    qubits: tuple[cirq.Qid, ...], zero: np.ndarray, one: np.ndarray
) -> Iterator[cirq.Operation]:
    """Apply one of two unitaries to all qubits but the first, selected by the first."""
    # zero = V D W and one = V D^* W, so zero one^dagger = V D^2 V^dagger.
    squares, vectors = scipy.linalg.schur(zero @ one.conj().T, output="complex")
    angles = np.angle(np.diag(squares)) / 2
    if np.abs(angles).max() < NEGLIGIBLE_RADIANS:
        yield from _unitary(qubits[1:], zero)
        return
    right = np.exp(1j * angles)[:, None] * vectors.conj().T @ one
    yield from _unitary(qubits[1:], right)
    yield from _multiplexed_rotation(cirq.rz, qubits[0], qubits[1:], -2 * angles)
    yield from _unitary(qubits[1:], vectors)


def _multiplexed_rotation(
    gate: Callable[[float], cirq.Gate],
    target: cirq.Qid,
    controls: Sequence[cirq.Qid],
    angles: np.ndarray,
) -> Iterator[cirq.Operation]:
    """Rotate about y or z by one of 2**len(controls) angles, selected by the controls."""
    count = len(angles)
    if np.abs(angles).max() < NEGLIGIBLE_RADIANS:
        return
    for step in range(count):
        mask = step ^ step >> 1  # Gray code: the mask changes in one bit per step
        signs = [1 - 2 * ((pattern & mask).bit_count() % 2) for pattern in range(count)]
        yield gate(float(np.mean(angles * signs))).on(target)
        changed = min((step + 1 & -(step + 1)).bit_length(), len(controls))
        yield cirq.CNOT(controls[-changed], target)
