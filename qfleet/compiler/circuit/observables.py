"""Observables as Pauli strings; those that are diagonal in one product basis are read together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import cirq
import numpy as np

from qfleet.compiler.circuit.factor import fixed_factor
from qfleet.compiler.circuit.fused_blocks import FusedBlock
from qfleet.errors import CircuitError

_TO_Z: Mapping[str, np.ndarray] = {
    "X": np.array([[1, 1], [1, -1]], np.complex128) / np.sqrt(2),
    "Y": np.array([[1, -1j], [1, 1j]], np.complex128) / np.sqrt(2),
}
_PAULI: Mapping[str, np.ndarray] = {
    "I": np.eye(2, dtype=np.complex128),
    "X": np.array([[0, 1], [1, 0]], np.complex128),
    "Y": np.array([[0, -1j], [1j, 0]], np.complex128),
    "Z": np.diag([1, -1]).astype(np.complex128),
}

PauliTerm = Mapping[int, str]  # position -> "X", "Y" or "Z"


@dataclass(frozen=True)
class PauliTerms:
    """The terms of all PauliSums.

    Attributes:
        strings: [T] Pauli strings, without the identity unless `with_identity` added it.
        weights: [T, K] real coefficients of each string in each observable.
        offsets: [K] coefficients of the identity.
    """

    strings: tuple[PauliTerm, ...]
    weights: np.ndarray
    offsets: np.ndarray

    @property
    def support(self) -> tuple[int, ...]:
        """All positions that any string acts on, sorted."""
        return tuple(sorted({position for string in self.strings for position in string}))

    def with_identity(self) -> "PauliTerms":
        """Return the terms with the identity as a string without letters, in place of offsets.

        Its value is the squared norm of the state, so that it has a gradient by the state.
        """
        if not self.offsets.any():
            return self
        weights = np.vstack([self.weights, self.offsets])
        return PauliTerms((*self.strings, {}), weights, np.zeros_like(self.offsets))


@dataclass(frozen=True)
class MeasurementBasis:
    """Strings that are diagonal after one-qubit rotations.

    Attributes:
        rotations: Blocks to apply before reading bits.
        strings: [T] positions whose parity is each string's value.
        weights: [T, K].
    """

    rotations: tuple[FusedBlock, ...]
    strings: tuple[tuple[int, ...], ...]
    weights: np.ndarray


def collect(observables: Sequence[cirq.PauliSum], position: Mapping[cirq.Qid, int]) -> PauliTerms:
    """Collect the terms of all observables.

    Args:
        observables: K observables.
        position: Position of each qubit.

    Raises:
        CircuitError: A coefficient is not real.
    """
    found: dict[tuple[tuple[int, str], ...], np.ndarray] = {}
    offsets = np.zeros(len(observables))
    for column, observable in enumerate(observables):
        for string in cirq.PauliSum.wrap(observable):
            if abs(complex(string.coefficient).imag) > 1e-9:
                raise CircuitError(
                    f"observable {column} has the coefficient {string.coefficient} at {string}:"
                    " use real coefficients"
                )
            weight = complex(string.coefficient).real
            key = tuple(sorted((position[q], str(pauli)) for q, pauli in string.items()))
            if not key:
                offsets[column] += weight
            else:
                found.setdefault(key, np.zeros(len(observables)))[column] += weight
    weights = np.array(list(found.values())).reshape(len(found), len(observables))
    return PauliTerms(tuple(dict(key) for key in found), weights, offsets)


def pauli_matrix(letters: Iterable[str]) -> np.ndarray:
    """Return the complex matrix [D, D] of a Pauli string of letters I, X, Y and Z."""
    matrix = np.ones((1, 1), np.complex128)
    for letter in letters:
        matrix = np.kron(matrix, _PAULI[letter])
    return matrix


def measurement_bases(terms: PauliTerms) -> tuple[MeasurementBasis, ...]:
    """Return the bases of `string_groups`."""
    return tuple(
        MeasurementBasis(
            _rotations(basis),
            tuple(tuple(sorted(terms.strings[index])) for index in members),
            terms.weights[members],
        )
        for basis, members in string_groups(terms)
    )


def string_groups(terms: PauliTerms) -> list[tuple[dict[int, str], list[int]]]:
    """Group strings that agree on every qubit they share (greedily, in order).

    Returns:
        The letters of each group by position, and the indices of its strings.
    """
    groups: list[tuple[dict[int, str], list[int]]] = []
    for index, string in enumerate(terms.strings):
        for basis, members in groups:
            if all(basis.get(position, pauli) == pauli for position, pauli in string.items()):
                basis.update(string)
                members.append(index)
                break
        else:
            groups.append((dict(string), [index]))
    return groups


def _rotations(basis: PauliTerm) -> tuple[FusedBlock, ...]:
    """Return the rotations of a basis to Z, two qubits per block."""
    rotated = [position for position, pauli in sorted(basis.items()) if pauli != "Z"]
    blocks = []
    for at in range(0, len(rotated), 2):
        qubits = tuple(rotated[at : at + 2])
        matrix = np.ones((1, 1), np.complex128)
        for position in qubits:
            matrix = np.kron(matrix, _TO_Z[basis[position]])
        blocks.append(FusedBlock(qubits, (fixed_factor(tuple(range(len(qubits))), matrix),)))
    return tuple(blocks)
