"""Gates at a circuit's end, moved into the observables: the Heisenberg picture where it is free.

A gate that commutes with every observable has no effect. A Clifford gate maps a Pauli string to
another Pauli string: measuring that one costs the same, and the gate need not be simulated.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from qfleet.compiler.circuit.factor import Factor
from qfleet.compiler.circuit.observables import PauliTerm, PauliTerms, pauli_matrix

_LETTERS = "IXYZ"
_TOLERANCE = 1e-12


def absorb_gates(factors: Sequence[Factor], terms: PauliTerms) -> tuple[list[Factor], PauliTerms]:
    """Move the last factors into Pauli strings, as far as all of these stay Pauli strings.

    A factor stays if it would make strings flip more sets of qubits, because these are measured
    one after the other.

    Args:
        factors: First applied first, with positions as qubits.
        terms: The strings that are measured after them.

    Returns:
        The other factors, and the strings that are measured after these.
    """
    found = [dict(string) for string in terms.strings]
    signs = np.ones(len(found))
    blocked: set[int] = set()  # qubits of factors that stay
    kept = []
    for factor in reversed(factors):
        images = None
        if blocked.isdisjoint(factor.qubits):
            local = {tuple(one.get(qubit, "I") for qubit in factor.qubits) for one in found}
            images = {letters: _image(factor, letters) for letters in local}
        if images is not None and all(images.values()):
            moved = [_replaced(one, factor.qubits, images) for one in found]
            if _flip_count(string for string, _ in moved) <= _flip_count(found):
                found = [string for string, _ in moved]
                signs *= [sign for _, sign in moved]
                continue
        kept.append(factor)
        blocked.update(factor.qubits)
    moved_terms = replace(terms, strings=tuple(found), weights=terms.weights * signs[:, None])
    return kept[::-1], moved_terms


def _image(factor: Factor, letters: tuple[str, ...]) -> tuple[tuple[str, ...], int] | None:
    """Return the Pauli string U^dagger P U and its sign; None if it is not a Pauli string."""
    pauli = pauli_matrix(letters)
    if all(np.abs(p @ pauli - pauli @ p).max() < _TOLERANCE for p in factor.projectors):
        return letters, 1
    if not factor.fixed:
        return None
    image = factor.matrix.conj().T @ pauli @ factor.matrix
    for other in itertools.product(_LETTERS, repeat=len(letters)):
        overlap = np.trace(pauli_matrix(other) @ image).real / len(image)
        if abs(abs(overlap) - 1) < _TOLERANCE:
            return other, 1 if overlap > 0 else -1
    return None


def _replaced(
    string: PauliTerm,
    qubits: Sequence[int],
    images: Mapping[tuple[str, ...], tuple[tuple[str, ...], int] | None],
) -> tuple[dict[int, str], int]:
    """Return a string after a factor on some qubits, and its sign."""
    image = images[tuple(string.get(qubit, "I") for qubit in qubits)]
    assert image is not None
    letters, sign = image
    others = {qubit: letter for qubit, letter in string.items() if qubit not in qubits}
    new = zip(qubits, letters, strict=True)
    return others | {qubit: letter for qubit, letter in new if letter != "I"}, sign


def _flip_count(strings: Iterable[PauliTerm]) -> int:
    """Return the number of different sets of qubits that the strings flip."""
    return len({frozenset(q for q, letter in one.items() if letter != "Z") for one in strings})
