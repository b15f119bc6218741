"""Molecular Hamiltonians, by pyscf and openfermion."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from qfleet.argument_checks import TEXT, checked, choice, integer, items
from qfleet.errors import ProblemError
from qfleet.problems.hamiltonian import Hamiltonian, HamiltonianFamily

MIN_BOND, MAX_BOND = 0.1, 10.0
"""Limits of a bond length in angstrom."""

NEGLIGIBLE = 1e-10
"""Largest coefficient, in hartree, that is left out."""


@dataclass(frozen=True)
class Molecule:
    """A first atom with bonds of one length to others, in the STO-3G basis.

    Attributes:
        atoms: Symbols of the atoms.
        electrons: Electrons that are simulated.
        qubits: Spin orbitals that are simulated, the lowest above the electrons that are not.
        angle: Degrees between the bonds.
    """

    atoms: tuple[str, ...]
    electrons: int
    qubits: int
    angle: float = 0.0

    def places(self, bond: float) -> list[tuple[str, tuple[float, float, float]]]:
        """Return symbol and coordinates of each atom, for a bond in its unit."""
        turns = np.radians([0.0, self.angle])[: len(self.atoms) - 1]
        ends = [(bond * float(np.sin(turn)), 0.0, bond * float(np.cos(turn))) for turn in turns]
        return list(zip(self.atoms, [(0.0, 0.0, 0.0), *ends], strict=True))


MOLECULES = {
    "h2": Molecule(("H", "H"), 2, 4),
    "lih": Molecule(("Li", "H"), 4, 12),
    "lih-frozen": Molecule(("Li", "H"), 2, 10),
    "h2o": Molecule(("O", "H", "H"), 4, 8, angle=104.5),
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
        raise _missing(name, error) from None
    return HamiltonianFamily.of(name, sums, ("R",), bonds[:, None], found.electrons)


@checked(
    atoms=items(items(lambda value, _: value, "an atom"), "a sequence of atoms"),
    electrons=integer(1),
    orbitals=integer(1),
    basis=TEXT,
    unit=choice(("angstrom", "bohr")),
)
def active_space(
    atoms: Sequence[tuple[str, tuple[float, float, float]]],
    electrons: int,
    orbitals: int,
    *,
    basis: str = "sto-3g",
    unit: Literal["angstrom", "bohr"] = "angstrom",
) -> Hamiltonian:
    """Return the Hamiltonian of some orbitals of a neutral molecule, in hartree.

    The orbitals are those of restricted Hartree-Fock by energy. All electrons but the active ones
    stay in the lowest orbitals. Spin orbitals are encoded by Jordan-Wigner and alternate between
    spin up and down.

    Args:
        atoms: Symbol and coordinates of each atom.
        electrons: Active electrons.
        orbitals: Active orbitals, each of two qubits.
        basis: Name of a basis of pyscf.
        unit: Of the coordinates.

    Raises:
        ArgumentError: An argument has the wrong type.
        ProblemError: openfermion or pyscf is not installed, an atom or the basis is unknown, or the
            molecule has other electrons or fewer orbitals.
    """
    try:
        words = _active_space(atoms, electrons, orbitals, basis, unit)
    except ImportError as error:
        raise _missing("the molecule", error) from None
    named = "".join(symbol for symbol, _ in atoms)
    return Hamiltonian(named, tuple(words), np.array([*words.values()]), electrons)


def _missing(name: str, error: ImportError) -> ProblemError:
    return ProblemError(
        f"{name} needs the package {error.name}, which is not installed: run `pip install"
        " openfermion pyscf`"
    )


def _hamiltonian(kind: Molecule, bond: float) -> dict[str, float]:
    """Return coefficients by Pauli word."""
    return _active_space(kind.places(bond), kind.electrons, kind.qubits // 2, "sto-3g", "angstrom")


def _active_space(
    atoms: Sequence[tuple[str, tuple[float, float, float]]],
    electrons: int,
    orbitals: int,
    basis: str,
    unit: str,
) -> dict[str, float]:
    from openfermion import InteractionOperator, jordan_wigner
    from pyscf import ao2mo, gto, scf

    try:
        built = gto.M(atom=list(atoms), basis=basis, unit=unit, verbose=0)
    except Exception as error:  # pyscf raises anything for unknown names and wrong coordinates
        raise ProblemError(
            f"pyscf does not accept the atoms in the basis {basis[:40]!r}: {str(error)[:100]}"
        ) from None
    count = built.nao
    frozen, odd = divmod(built.nelectron - electrons, 2)
    if odd or frozen < 0 or frozen + orbitals > count or electrons > 2 * orbitals:
        raise ProblemError(
            f"{electrons} electrons in {orbitals} orbitals do not fit a molecule of"
            f" {built.nelectron} electrons in {count} orbitals: leave pairs of electrons out"
        )
    solved = scf.RHF(built).run()
    coefficients = solved.mo_coeff
    one_body = coefficients.T @ solved.get_hcore() @ coefficients
    two_body = ao2mo.restore(1, ao2mo.kernel(built, coefficients), len(one_body))  # (pq|rs)
    constant = float(built.energy_nuc())
    constant, one_body, two_body = _freeze(frozen, constant, one_body, two_body)
    kept = slice(orbitals)
    one, two = _spin_orbitals(one_body[kept, kept], two_body[kept, kept, kept, kept])
    # OpenFermion has no types.
    built_operator = InteractionOperator(constant, one, two)  # type: ignore[no-untyped-call]
    operator = jordan_wigner(built_operator)  # type: ignore[no-untyped-call]
    words = {}
    for factors, value in operator.terms.items():
        letters = dict(factors)
        word = "".join(letters.get(i, "I") for i in range(2 * orbitals))
        if abs(value) > NEGLIGIBLE:
            words[word] = float(value.real)
    return words


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
