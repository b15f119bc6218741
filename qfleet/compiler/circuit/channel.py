"""Noise channels as real matrices on Pauli coefficients."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cirq
import numpy as np

from qfleet.compiler.circuit.observables import pauli_matrix

MAX_CHANNEL_QUBITS = 2
_TOLERANCE = 1e-6  # of the trace, for Kraus operators that were given in complex64
_EXACT = 1e-9
_LETTERS = "IXYZ"


@dataclass(frozen=True)
class RecordCondition:
    """The records of a trajectory on which a channel acts.

    Attributes:
        records: Numbers of R records, whose lowest bits make a number: the first is bit 0.
        acts: [2**R] if the channel acts at this number.
    """

    records: tuple[int, ...] = ()
    acts: tuple[bool, ...] = ()


ALWAYS = RecordCondition()
"""No condition."""


@dataclass(frozen=True)
class NoiseChannel:
    """A noise channel on one or two qubits, or what trajectories have in the same form.

    A measurement is a channel whose operators are projectors, and that records which one is drawn.
    A gate that depends on a measurement is a channel of one operator, with a condition.

    Attributes:
        qubits: The qubits it acts on.
        matrix: float64 [4**n, 4**n] map of the coefficients tr(P rho) for Pauli words P: I, X, Y, Z
            are the digits 0 to 3, and the first qubit's is the most significant.
        kraus: complex128 [K, D, D] Kraus operators.
        probabilities: float64 [K] of the operators, if each is a unitary times the root of its
            probability; None if probabilities depend on the state.
        record: Number of the record of a trajectory that gets the number of the drawn operator; -1
            for none.
        condition: When it acts, in trajectories.
    """

    qubits: tuple[cirq.Qid, ...]
    matrix: np.ndarray
    kraus: np.ndarray
    probabilities: np.ndarray | None
    record: int = -1
    condition: RecordCondition = ALWAYS

    @property
    def symbols(self) -> frozenset[str]:
        """No names: a channel has no symbols."""
        return frozenset()

    @property
    def key(self) -> tuple[bytes, bytes]:
        """Hashable content without the qubits."""
        return self.matrix.tobytes(), self.kraus.tobytes()

    def on(self, qubits: tuple[cirq.Qid, ...]) -> "NoiseChannel":
        """Return the same channel on other qubits."""
        return replace(self, qubits=qubits)


def channel_of(qubits: tuple[cirq.Qid, ...], kraus: Sequence[np.ndarray]) -> NoiseChannel:
    """Make a channel of Kraus operators.

    Args:
        qubits: One or two qubits.
        kraus: Operators [D, D].

    Raises:
        ValueError: The squares of the operators do not sum to the identity.
    """
    operators = np.asarray(kraus, np.complex128)
    total = np.einsum("kji,kjl->il", operators.conj(), operators)
    if not np.allclose(total, np.eye(len(total)), rtol=0, atol=_TOLERANCE):
        raise ValueError(
            "its Kraus operators K have a sum of K^dagger K that is not the identity:"
            " normalize them"
        )
    words = pauli_words(len(qubits))
    images = np.einsum("kab,qbc,kdc->qad", operators, words, operators.conj())
    matrix = np.einsum("pab,qba->pq", words, images).real / len(total)
    return NoiseChannel(qubits, matrix, *_operators(operators, words, matrix))


def _operators(
    kraus: np.ndarray, words: np.ndarray, matrix: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return Kraus operators and their probabilities, those of a mixture of unitaries if it is one.

    Args:
        kraus: The given operators.
        words: All Pauli words.
        matrix: The matrix of the channel on Pauli coefficients.
    """
    shrinks = np.diag(matrix)
    if np.allclose(matrix, np.diag(shrinks), atol=_EXACT):  # a mixture of Pauli words
        # Two words commute if the product of both with themselves has the trace D.
        dim = len(words[0])
        signs = np.einsum("pab,qbc,pcd,qda->pq", words, words, words, words).real / dim
        probabilities = signs @ shrinks / dim**2
        kept = probabilities > _EXACT
        # The phase has no effect, and real matrices are multiplied faster: -iY instead of Y.
        real = np.where(words.imag.any(axis=(1, 2), keepdims=True), -1j, 1) * words
        return real[kept], probabilities[kept] / probabilities[kept].sum()
    squares = np.einsum("kji,kjl->kil", kraus.conj(), kraus)
    weights = np.einsum("kii->k", squares).real / kraus.shape[-1]
    if np.allclose(squares, weights[:, None, None] * np.eye(kraus.shape[-1]), atol=_EXACT):
        kept = weights > _EXACT
        units = kraus[kept] / np.sqrt(weights[kept])[:, None, None]
        return units, weights[kept] / weights[kept].sum()
    return kraus[weights > _EXACT], None


def measurement_of(qubit: cirq.Qid, record: int) -> NoiseChannel:
    """Make the measurement of a qubit in the middle of a circuit.

    Args:
        qubit: The qubit.
        record: Number of the record that gets the outcome.
    """
    projectors = np.zeros((2, 2, 2), np.complex128)
    projectors[0, 0, 0] = projectors[1, 1, 1] = 1
    found = channel_of((qubit,), list(projectors))
    return replace(found, kraus=projectors, probabilities=None, record=record)


def kraus_on_block(channel: NoiseChannel, block: tuple[cirq.Qid, ...]) -> np.ndarray:
    """Return the Kraus operators with qubits in the order of a block of as many qubits, or more."""
    if len(channel.qubits) < 2 or channel.qubits == block:
        return channel.kraus
    swapped = channel.kraus.reshape(-1, 2, 2, 2, 2).transpose(0, 2, 1, 4, 3)
    return swapped.reshape(-1, 4, 4)


def pauli_words(qubits: int) -> np.ndarray:
    """Return all Pauli words, complex128 [4**qubits, D, D], in the order of their digits."""
    words = [""]
    for _ in range(qubits):
        words = [word + letter for word in words for letter in _LETTERS]
    return np.stack([pauli_matrix(word) for word in words])


def on_block(channel: NoiseChannel, block: tuple[cirq.Qid, ...]) -> np.ndarray:
    """Return the matrix of a channel on all qubits of a block."""
    if len(channel.qubits) < len(block):
        sides = (channel.matrix, np.eye(4))
        return np.kron(*(sides if channel.qubits[0] == block[0] else sides[::-1]))
    if channel.qubits == block:
        return channel.matrix
    return channel.matrix.reshape(4, 4, 4, 4).transpose(1, 0, 3, 2).reshape(16, 16)
