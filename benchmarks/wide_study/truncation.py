"""Pauli propagation: a readout in the Heisenberg picture, without terms above a Pauli weight.

Bermejo et al. (arXiv:2408.12739) and Rudolph et al. (arXiv:2505.21606). The trained gates are
propagated with truncation; the remaining operator of low weight is evaluated exactly on the data.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import cirq
import numpy as np

MAX_QUBITS = 31  # two bits of an int64 each
_PAULIS = [cirq.unitary(gate) for gate in (cirq.I, cirq.X, cirq.Y, cirq.Z)]
_ODD = np.int64(0x5555555555555555)


@dataclass(frozen=True)
class PauliSumArrays:
    """A sum of Pauli strings.

    Attributes:
        codes: [T] int64: bits 2q and 2q + 1 are the Pauli on qubit q: 0 for I, 1 X, 2 Y, 3 Z.
        coefficients: [T] float64.
    """

    codes: np.ndarray
    coefficients: np.ndarray

    @classmethod
    def z(cls, qubit: int) -> "PauliSumArrays":
        """Return Z on a qubit."""
        return cls(np.array([3 << 2 * qubit], np.int64), np.ones(1))

    def through(
        self, unitary: np.ndarray, qubits: tuple[int, ...], weight: int
    ) -> "PauliSumArrays":
        """Return U^dagger O U without terms above a weight.

        Args:
            unitary: [D, D] matrix U on the qubits; the first is the most significant bit.
            qubits: One or two.
            weight: Largest number of Paulis of a term.
        """
        local = np.zeros_like(self.codes)
        for qubit in qubits:
            local = 4 * local + (self.codes >> 2 * qubit & 3)
        inside = local > 0
        if not inside.any():
            return self
        mask = np.int64(sum(3 << 2 * qubit for qubit in qubits))
        outside = self.codes[inside] & ~mask
        images = transfer_matrix(unitary)[:, local[inside]] * self.coefficients[inside]
        codes = outside + np.array([_placed(at, qubits) for at in range(len(images))])[:, None]
        kept = (np.abs(images) > 1e-14) & (_weights(codes) <= weight)
        return _merged(
            np.concatenate([self.codes[~inside], codes[kept]]),
            np.concatenate([self.coefficients[~inside], images[kept]]),
        )

    def zero_state_value(self) -> float:
        """Return the expectation value in |0...0>: the terms of I and Z only."""
        flips = (self.codes ^ self.codes >> 1) & _ODD  # X and Y have two different bits
        return float(self.coefficients[flips == 0].sum())


def transfer_matrix(unitary: np.ndarray) -> np.ndarray:
    """Return R [4**n, 4**n] with U^dagger P_in U = sum_out R[out, in] P_out."""
    strings = [np.eye(1)]
    for _ in range(len(unitary).bit_length() - 1):
        strings = [np.kron(left, right) for left in strings for right in _PAULIS]
    images = [unitary.conj().T @ string @ unitary for string in strings]
    return np.array([[np.vdot(p, image).real for image in images] for p in strings]) / len(unitary)


def _placed(local: int, qubits: tuple[int, ...]) -> np.int64:
    """Return the code of a local Pauli string, whose last qubit is the lowest digit."""
    code = 0
    for qubit in reversed(qubits):
        code |= (local & 3) << 2 * qubit
        local >>= 2
    return np.int64(code)


def _weights(codes: np.ndarray) -> np.ndarray:
    return np.bitwise_count((codes | codes >> 1) & _ODD)


def _merged(codes: np.ndarray, coefficients: np.ndarray) -> PauliSumArrays:
    unique, inverse = np.unique(codes, return_inverse=True)
    return PauliSumArrays(unique, np.bincount(inverse, coefficients, len(unique)))


def propagate(
    operator: PauliSumArrays, operations: Iterable[cirq.Operation], weight: int
) -> PauliSumArrays:
    """Propagate an operator backwards through gates on one or two qubits, all with numbers."""
    for operation in reversed(list(operations)):
        qubits = tuple(qubit.col for qubit in operation.qubits)
        operator = operator.through(cirq.unitary(operation), qubits, weight)
    return operator


def truncated_readouts(
    circuit: cirq.Circuit, readouts: Iterable[int], angles: np.ndarray, weight: int
) -> np.ndarray:
    """Return readouts [B, K] whose operators are truncated in the trained part.

    Args:
        circuit: On `GridQubit(0, q)`; its only symbols x are in `rx(x)`, one per qubit, before
            all trained gates on the qubit, which have numbers.
        readouts: The measured qubits.
        angles: [B, N], at most one of an example's is not 0.
        weight: Largest number of Paulis of a term.
    """
    data, trained = _divide(circuit)
    blocks = cirq.merge_k_qubit_unitaries(cirq.Circuit(trained), k=2)
    operators = [
        propagate(PauliSumArrays.z(qubit), blocks.all_operations(), weight) for qubit in readouts
    ]
    excited = np.abs(angles).argmax(axis=1)
    values = np.empty((len(angles), len(operators)))
    for column, operator in enumerate(operators):
        values[:, column] = propagate(operator, data, MAX_QUBITS).zero_state_value()
        for qubit in np.unique(excited):
            if not (operator.codes >> 2 * qubit & 3).any():
                continue  # the readout does not depend on it
            rows = excited == qubit
            values[rows, column] = _wave(operator, data, int(qubit), angles[rows, qubit])
    return values


def _divide(circuit: cirq.Circuit) -> tuple[list[cirq.Operation], list[cirq.Operation]]:
    """Return the fixed gates before the data's rotations, and the gates after them."""
    data: list[cirq.Operation] = []
    trained: list[cirq.Operation] = []
    rotated: set[cirq.Qid] = set()
    for operation in circuit.all_operations():
        if cirq.is_parameterized(operation):
            rotated.update(operation.qubits)
        else:
            (trained if rotated.issuperset(operation.qubits) else data).append(operation)
    return data, trained


def _wave(
    operator: PauliSumArrays, data: list[cirq.Operation], qubit: int, angles: np.ndarray
) -> np.ndarray:
    """Return the values with one qubit rotated, which are a + b cos x + c sin x exactly."""
    at = []
    for angle in (0.0, np.pi / 2, np.pi):
        rotated = operator.through(cirq.unitary(cirq.rx(angle)), (qubit,), MAX_QUBITS)
        at.append(propagate(rotated, data, MAX_QUBITS).zero_state_value())
    mean, cosine = (at[0] + at[2]) / 2, (at[0] - at[2]) / 2
    return mean + cosine * np.cos(angles) + (at[1] - mean) * np.sin(angles)
