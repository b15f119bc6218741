"""States as the values of all their Pauli words, which a noisy circuit or a device gives.

A density matrix of N qubits is (1 + sum of value * word) / 2**N over the 4**N - 1 words without the
identity.
"""

import itertools

import numpy as np

from qfleet.compiler.circuit.observables import pauli_matrix
from qfleet.errors import ProblemError
from qfleet.problems.hamiltonian import Hamiltonian

_LETTERS = "IXYZ"
_LEAST_VALUE = 1e-12

MAX_INFIDELITY_QUBITS = 8
"""Widest state of `infidelity`."""


def pauli_words(qubits: int) -> list[str]:
    """Return the 4**qubits - 1 words of the letters I, X, Y and Z, in order, without I...I."""
    words = map("".join, itertools.product(_LETTERS, repeat=qubits))
    return list(words)[1:]


def word_values(state: np.ndarray) -> np.ndarray:
    """Return float64 [4**N - 1], the expectation values of `pauli_words` in a state [2**N]."""
    qubits = len(state).bit_length() - 1
    rest = np.outer(state, state.conj()).reshape((2,) * (2 * qubits))
    letters = np.stack([pauli_matrix(letter) for letter in _LETTERS])
    for left in range(qubits, 0, -1):
        # tr(word rho), one qubit after the other: its row and its column become its letter.
        rest = np.tensordot(rest, letters, axes=([0, left], [2, 1]))
    return rest.real.reshape(-1)[1:]


def infidelity(state: np.ndarray, name: str = "infidelity") -> Hamiltonian:
    """Return the Hamiltonian 1 - |state><state|, whose energy is 1 minus the fidelity.

    Args:
        state: complex [2**N] amplitudes of norm 1, the first qubit most significant; N is at most
            MAX_INFIDELITY_QUBITS.
        name: Its name.

    Raises:
        ProblemError: The state is wider.
    """
    qubits = len(state).bit_length() - 1
    if qubits > MAX_INFIDELITY_QUBITS:
        raise ProblemError(
            f"a state of {qubits} qubits has up to {4**qubits:,} Pauli words: allowed are up to"
            f" {MAX_INFIDELITY_QUBITS} qubits"
        )
    values = word_values(state)
    kept = np.flatnonzero(np.abs(values) > _LEAST_VALUE)
    words = pauli_words(qubits)
    terms = ("I" * qubits, *(words[at] for at in kept))
    coefficients = np.concatenate([[1.0], np.zeros(len(kept))])
    coefficients -= np.concatenate([[1.0], values[kept]]) / len(state)
    return Hamiltonian(name, terms, coefficients, exact_energy=lambda: 0.0)


def fidelity(values: np.ndarray, target: np.ndarray) -> float:
    """Return <target| rho |target> for the word values of rho and of a target state."""
    return float((1 + values @ target) / (len(target) + 1) ** 0.5)


def purity(values: np.ndarray) -> float:
    """Return tr(rho**2) for the word values of rho."""
    return float((1 + values @ values) / (len(values) + 1) ** 0.5)


def scaled_infidelity_gradient(values: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the derivative of 1 - fidelity / sqrt(purity) by the word values of rho.

    Stochastic noise shrinks all values, which no angle can undo; the scaled infidelity is 0 where
    they are proportional to those of the target.
    """
    size = (len(target) + 1) ** 0.5
    overlap, square = fidelity(values, target), purity(values)
    gradient: np.ndarray = -(target / square**0.5 - overlap * values / square**1.5) / size
    return gradient
