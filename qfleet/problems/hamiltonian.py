"""Hamiltonians as sums of Pauli words, and families of them with the same words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cirq
import numpy as np

from qfleet.errors import ProblemError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_EXACT_QUBITS = 20
"""Widest Hamiltonian that is diagonalised."""

MAX_EXACT_ENTRIES = 1 << 25
"""Most entries of its matrix, which take 400 MB if they are real."""

MAX_DENSE = 256
"""Largest matrix of which all eigenvalues are computed."""

MAX_TERMS = 100_000
MAX_COEFFICIENTS = 1 << 25
"""Most coefficients of all members of a family."""

MAX_ABSOLUTE_COEFFICIENT = 1e30
"""Energies are computed in float32."""


@dataclass(frozen=True)
class Hamiltonian:
    """A sum of Pauli words with real coefficients.

    Attributes:
        name: Its name.
        terms: Pauli words, one letter (I, X, Y or Z) per qubit, the first qubit first.
        coefficients: float64 [terms].
        electrons: Electrons of a molecule in the Jordan-Wigner encoding; 0 for others.
        exact_energy: Returns the energy of the ground state, where it is known in closed form.
    """

    name: str
    terms: tuple[str, ...]
    coefficients: np.ndarray
    electrons: int = 0
    exact_energy: Callable[[], float] | None = None

    @property
    def qubits(self) -> int:
        """Number of qubits."""
        return len(self.terms[0])

    def pauli_sum(self) -> cirq.PauliSum:
        """Return the Hamiltonian on cirq.LineQubit.range(qubits)."""
        line = cirq.LineQubit.range(self.qubits)
        pairs = zip(self.terms, self.coefficients, strict=True)
        return cirq.PauliSum.from_pauli_strings(
            cirq.DensePauliString(word, coefficient=float(c)).on(*line) for word, c in pairs
        )

    @property
    def has_reference(self) -> bool:
        """If `reference_energy` is known."""
        if self.exact_energy is not None:
            return True
        flips = {_mask(word, "XY") for word in self.terms}
        return self.qubits <= MAX_EXACT_QUBITS and len(flips) << self.qubits <= MAX_EXACT_ENTRIES

    def reference_energy(self) -> float | None:
        """Return the exact energy of the ground state.

        For a molecule, of the states with its number of electrons. None for more than
        MAX_EXACT_QUBITS qubits or MAX_EXACT_ENTRIES entries of the matrix without a closed form.
        """
        if self.exact_energy is not None:
            return self.exact_energy()
        if not self.has_reference:
            return None
        return lowest_eigenvalue(self.terms, self.coefficients, self.electrons)


@dataclass(frozen=True)
class HamiltonianFamily:
    """Hamiltonians with the same Pauli words.

    Attributes:
        name: Name of the family.
        terms: Pauli words; see `Hamiltonian`.
        coefficients: float64 [members, terms].
        field_names: Names of the numbers that distinguish the members.
        fields: float64 [members, field names].
        electrons: As in `Hamiltonian`.
        exact_energies: Closed form of each member's ground state energy, if there is one.
    """

    name: str
    terms: tuple[str, ...]
    coefficients: np.ndarray
    field_names: tuple[str, ...]
    fields: np.ndarray
    electrons: int = 0
    exact_energies: tuple[Callable[[], float], ...] = ()

    @property
    def qubits(self) -> int:
        """Number of qubits."""
        return len(self.terms[0])

    def members(self) -> Iterator[Hamiltonian]:
        """Yield the Hamiltonians."""
        for number, coefficients in enumerate(self.coefficients):
            exact = self.exact_energies[number] if self.exact_energies else None
            yield Hamiltonian(self.name, self.terms, coefficients, self.electrons, exact)

    def is_constant(self) -> bool:
        """Return True if no member has a term besides the identity."""
        others = [number for number, word in enumerate(self.terms) if word.strip("I")]
        return not self.coefficients[:, others].any()

    @classmethod
    def of(
        cls,
        name: str,
        sums: Sequence[Mapping[str, float]],
        field_names: tuple[str, ...] = (),
        fields: np.ndarray | None = None,
        electrons: int = 0,
        exact_energies: Sequence[Callable[[], float]] = (),
    ) -> "HamiltonianFamily":
        """Return the family of Hamiltonians, which are coefficients by Pauli word.

        Raises:
            ProblemError: They have different numbers of qubits, no words or too many, or huge
                coefficients.
        """
        found: dict[str, None] = {}
        for one in sums:
            found |= dict.fromkeys(one)
            if len(found) > MAX_TERMS or len(found) * len(sums) > MAX_COEFFICIENTS:
                raise ProblemError(
                    f"{name} has {len(sums):,} Hamiltonians of at least {len(found):,} different"
                    f" Pauli words: allowed are {MAX_TERMS:,} words, and {MAX_COEFFICIENTS:,}"
                    " coefficients in all"
                )
        words = tuple(found)
        if not words:
            raise ProblemError(f"{name} has no terms: a Hamiltonian needs at least one")
        if len({len(word) for word in words}) > 1:
            raise ProblemError(
                f"{name} has members of different widths: give Hamiltonians on the same qubits"
            )
        coefficients = np.array([[one.get(word, 0.0) for word in words] for one in sums])
        if not (largest := np.abs(coefficients).max()) <= MAX_ABSOLUTE_COEFFICIENT:
            raise ProblemError(
                f"{name} has a coefficient of size {float(largest)}: allowed are numbers up to"
                f" {MAX_ABSOLUTE_COEFFICIENT:g}, so use another unit"
            )
        if fields is None:
            fields = np.zeros((len(sums), 0))
        exact = tuple(exact_energies)
        return cls(name, words, coefficients, field_names, fields, electrons, exact)


def lowest_eigenvalue(terms: Sequence[str], coefficients: np.ndarray, electrons: int = 0) -> float:
    """Return the lowest eigenvalue of a sum of Pauli words.

    Args:
        terms: Pauli words.
        coefficients: float64 [terms].
        electrons: Only states with this many ones count, if it is not 0.
    """
    from scipy.sparse.linalg import eigsh

    matrix = _sparse_matrix(terms, coefficients)
    if electrons:
        kept = np.flatnonzero(np.bitwise_count(np.arange(matrix.shape[0])) == electrons)
        matrix = matrix[kept][:, kept]
    if matrix.shape[0] <= MAX_DENSE:
        return float(np.linalg.eigvalsh(matrix.toarray())[0])
    start = np.random.default_rng(0).normal(size=matrix.shape[0])
    return float(eigsh(matrix, k=1, which="SA", v0=start, return_eigenvectors=False)[0])


def _sparse_matrix(terms: Sequence[str], coefficients: np.ndarray) -> "csr_array":
    """Return the scipy.sparse.csr_array of a sum of Pauli words.

    The first qubit is the most significant bit. It is real if all words have an even number of Y.
    """
    from scipy.sparse import csr_array

    flips = sorted({_mask(word, "XY") for word in terms})
    size = 1 << len(terms[0])
    index = np.arange(size, dtype=np.int32)
    is_real = not any(word.count("Y") % 2 for word in terms)
    values = np.zeros((size, len(flips)), np.float64 if is_real else np.complex128)
    for word, coefficient in zip(terms, coefficients, strict=True):
        flip, sign = _mask(word, "XY"), _mask(word, "YZ")
        # P[i, i ^ flip] = phase * (-1)^popcount((i ^ flip) & sign)
        parity = np.bitwise_count((index ^ flip) & sign) & 1
        phase = (1, 1j, -1, -1j)[word.count("Y") % 4]
        values[:, flips.index(flip)] += coefficient * phase * (1.0 - 2.0 * parity)
    columns = index[:, None] ^ np.array(flips, np.int32)
    starts = np.arange(size + 1, dtype=np.int64) * len(flips)
    return csr_array((values.ravel(), columns.ravel(), starts), shape=(size, size))


def _mask(word: str, letters: str) -> int:
    return int("".join("1" if letter in letters else "0" for letter in word), 2)
