"""Molecular Hamiltonians in the STO-3G basis, by pyscf and openfermion."""

from dataclasses import dataclass

import numpy as np

from qfleet.errors import ProblemError
from qfleet.problems.hamiltonian import HamiltonianFamily

MIN_BOND, MAX_BOND = 0.1, 10.0
"""Limits of a bond length in angstrom."""

NEGLIGIBLE = 1e-10
"""Largest coefficient, in hartree, that is left out."""


@dataclass(frozen=True)
class Molecule:
    """A molecule of two atoms.

    Attributes:
        atoms: Symbols of the atoms.
        electrons: Electrons that are simulated.
        qubits: Spin orbitals that are simulated.
        frozen: Core orbitals whose electrons stay fixed.
    """

    atoms: tuple[str, str]
    electrons: int
    qubits: int
    frozen: int = 0


MOLECULES = {
    "h2": Molecule(("H", "H"), 2, 4),
    "lih": Molecule(("Li", "H"), 4, 12),
    "lih-frozen": Molecule(("Li", "H"), 2, 10, frozen=1),
}


def require_bonds(name: str, bonds: np.ndarray) -> None:
    """Raise a ProblemError if a bond length, in angstrom, is not allowed."""
    if not ((bonds >= MIN_BOND) & (bonds <= MAX_BOND)).all():
        raise ProblemError(
            f"{name} has a bond length that is not between {MIN_BOND:g} and {MAX_BOND:g} angstrom:"
            " give R in this range"
        )


def molecule(name: str, kind: str, bonds: np.ndarray) -> HamiltonianFamily:
    """Return the Hamiltonians of a molecule by bond length, in hartree.

    Args:
        name: Name of the family.
        kind: One of MOLECULES.
        bonds: float64 [members], bond lengths in angstrom.

    Raises:
        ProblemError: openfermion or pyscf is not installed.
    """
    found = MOLECULES[kind]
    try:
        sums = [_hamiltonian(found, float(bond)) for bond in bonds]
    except ImportError as error:
        raise ProblemError(
            f"{name} needs the package {error.name}, which is not installed: run `pip install"
            " openfermion pyscf`"
        ) from None
    return HamiltonianFamily.of(name, sums, ("R",), bonds[:, None], found.electrons)


def _hamiltonian(kind: Molecule, bond: float) -> dict[str, float]:
    """Return coefficients by Pauli word; spin orbitals alternate between spin up and down."""
    from openfermion import InteractionOperator, jordan_wigner
    from pyscf import ao2mo, gto, scf

    first, second = kind.atoms
    atoms = [(first, (0.0, 0.0, 0.0)), (second, (0.0, 0.0, bond))]
    built = gto.M(atom=atoms, basis="sto-3g", verbose=0)
    solved = scf.RHF(built).run()
    orbitals = solved.mo_coeff
    count = orbitals.shape[1]
    one_body = orbitals.T @ solved.get_hcore() @ orbitals
    two_body = ao2mo.restore(1, ao2mo.kernel(built, orbitals), count)  # (pq|rs)
    constant = float(built.energy_nuc())
    constant, one_body, two_body = _freeze(kind.frozen, constant, one_body, two_body)
    one, two = _spin_orbitals(one_body, two_body)
    # OpenFermion has no types.
    built_operator = InteractionOperator(constant, one, two)  # type: ignore[no-untyped-call]
    operator = jordan_wigner(built_operator)  # type: ignore[no-untyped-call]
    width = 2 * len(one_body)
    coefficients = {}
    for factors, coefficient in operator.terms.items():
        letters = dict(factors)
        word = "".join(letters.get(i, "I") for i in range(width))
        if abs(coefficient) > NEGLIGIBLE:
            coefficients[word] = float(coefficient.real)
    return coefficients


def _freeze(
    frozen: int, constant: float, one_body: np.ndarray, two_body: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the Hamiltonian of the other orbitals in the field of doubly occupied ones."""
    core = range(frozen)
    for i in core:
        constant += 2 * one_body[i, i]
        constant += sum(2 * two_body[i, i, j, j] - two_body[i, j, j, i] for j in core)
    effective = one_body.copy()
    for i in core:
        effective += 2 * two_body[i, i] - two_body[i, :, :, i]
    kept = slice(frozen, None)
    return float(constant), effective[kept, kept], two_body[kept, kept, kept, kept]


def _spin_orbitals(one_body: np.ndarray, two_body: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the tensors of openfermion's InteractionOperator, with spin.

    Its two-body tensor is h[p, q, r, s] of p^ q^ r s, half of (ps|qr).
    """
    count = 2 * len(one_body)
    one, two = np.zeros((count, count)), np.zeros((count,) * 4)
    physicist = 0.5 * two_body.transpose(0, 2, 3, 1)
    for spin in (0, 1):
        one[spin::2, spin::2] = one_body
        for other in (0, 1):
            two[spin::2, other::2, other::2, spin::2] = physicist
    return one, two
