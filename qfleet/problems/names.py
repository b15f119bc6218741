"""Hamiltonians by name: spin chains and molecules, alone or as a family."""

from collections.abc import Callable

import numpy as np

from qfleet.argument_checks import TEXT, checked
from qfleet.errors import ProblemError
from qfleet.problems.hamiltonian import HamiltonianFamily
from qfleet.problems.molecules import MOLECULES, molecule, require_bonds

HAMILTONIANS = ("tfim:N:g", "heisenberg:N", "h2:R", "lih:R", "lih-frozen:R", "h2o:R")
"""Forms of names. A value may be a list 0.5,1,2 or a range 0.2..1.8/9 of that many values."""

MAX_QUBITS, MAX_MEMBERS = 1024, 10_000


@checked(name=TEXT)
def named(name: str) -> HamiltonianFamily:
    """Return the Hamiltonian or the family with a name.

    - `tfim:N:g`: transverse-field Ising model on an open chain of N qubits,
      H = - sum Z_i Z_i+1 - g sum X_i.
    - `heisenberg:N`: H = sum X_i X_i+1 + Y_i Y_i+1 + Z_i Z_i+1 on an open chain.
    - `h2:R`, `lih:R`: molecules with a bond of R angstrom in the STO-3G basis, encoded by
      Jordan-Wigner on 4 and 12 qubits; `lih-frozen:R` keeps the two core electrons fixed (10
      qubits).
    - `h2o:R`: water with bonds of R angstrom and an angle of 104.5 degrees, 4 electrons in 4
      orbitals above fixed ones (8 qubits).

    Raises:
        ArgumentError: `name` is not a text.
        ProblemError: The name has another form, or a package is missing.
    """
    return _find(name, None)


def first_member(name: str) -> HamiltonianFamily:
    """Return what `named` does, of a molecule the first member only, which takes a second.

    All values are checked.

    Raises:
        ProblemError: As `named`.
    """
    return _find(name, 1)


def _find(name: str, most_molecules: int | None) -> HamiltonianFamily:
    kind, _, rest = name.partition(":")
    parts = rest.split(":") if rest else []
    if kind == "tfim" and len(parts) == 2:
        return _tfim(name, _width(name, parts[0]), _values(name, parts[1]))
    if kind == "heisenberg" and len(parts) == 1:
        return _heisenberg(name, _width(name, parts[0]))
    if kind in MOLECULES and len(parts) == 1:
        bonds = _values(name, parts[0])
        require_bonds(name, bonds)
        return molecule(name, kind, bonds[:most_molecules])
    raise ProblemError(
        f"{name} is not a Hamiltonian: allowed are {', '.join(HAMILTONIANS)}, with a value, a list"
        " such as 0.5,0.74,1.2 or a range such as 0.2..1.8/9 for g and R"
    )


def width_of(name: str) -> int | None:
    """Return the number of qubits of a named Hamiltonian, which is not computed.

    Args:
        name: See `named`.

    Returns:
        None if the name has another form.
    """
    kind, _, rest = name.partition(":")
    if kind in MOLECULES:
        return MOLECULES[kind].qubits
    text = rest.partition(":")[0] if kind in ("tfim", "heisenberg") else ""
    try:
        return _width(name, text)
    except ProblemError:
        return None


def _width(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 2 <= int(text[:9]) <= MAX_QUBITS:
        raise ProblemError(
            f"{name} has N={text[:40]}: allowed are whole numbers of qubits from 2 to {MAX_QUBITS}"
        )
    return int(text)


def _values(name: str, text: str) -> np.ndarray:
    """Return the values of a number, a list or a range."""
    try:
        bounds, _, count = text.partition("/")
        first, dots, last = bounds.partition("..")
        if dots:
            number = int(count)
            if not 2 <= number <= MAX_MEMBERS:
                raise ValueError
            values = np.linspace(float(first), float(last), number)
        else:
            values = np.array([float(one) for one in text.split(",")])
    except ValueError:
        values = np.array([np.nan])
    if not np.isfinite(values).all() or len(values) > MAX_MEMBERS:
        raise ProblemError(
            f"{name} has the values {text[:40]}: give a number, a list such as 0.5,0.74,1.2, or a"
            f" range such as 0.2..1.8/9 of 2 to {MAX_MEMBERS} values"
        )
    return values


def _word(qubits: int, letters: dict[int, str]) -> str:
    return "".join(letters.get(i, "I") for i in range(qubits))


def _tfim(name: str, qubits: int, fields: np.ndarray) -> HamiltonianFamily:
    bonds = [_word(qubits, {i: "Z", i + 1: "Z"}) for i in range(qubits - 1)]
    sites = [_word(qubits, {i: "X"}) for i in range(qubits)]
    sums = [dict.fromkeys(bonds, -1.0) | dict.fromkeys(sites, -float(field)) for field in fields]
    exact = [_tfim_energy(qubits, float(field)) for field in fields]
    return HamiltonianFamily.of(name, sums, ("g",), fields[:, None], exact_energies=exact)


def _tfim_energy(qubits: int, field: float) -> Callable[[], float]:
    """Return a function of the ground state energy, from free fermions.

    Pfeuty, "The one-dimensional Ising model with a transverse field" (Annals of Physics 57, 1970):
    minus the sum of the singular values of the bidiagonal matrix of fields and couplings.
    """

    def energy() -> float:
        matrix = np.diag(np.full(qubits, field)) + np.diag(np.ones(qubits - 1), 1)
        return -float(np.linalg.svd(matrix, compute_uv=False).sum())

    return energy


def _heisenberg(name: str, qubits: int) -> HamiltonianFamily:
    words = [
        _word(qubits, {i: letter, i + 1: letter}) for i in range(qubits - 1) for letter in "XYZ"
    ]
    return HamiltonianFamily.of(name, [dict.fromkeys(words, 1.0)])
