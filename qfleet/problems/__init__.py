"""Problems for variational circuits: Hamiltonians whose ground state is wanted, and target states.

    from qfleet.problems import named

    family = named("h2:0.5,0.74,1.2")     # three Hamiltonians with the same Pauli words

Molecules need openfermion and pyscf (the extra `chemistry`).
"""

from qfleet.problems.hamiltonian import Hamiltonian, HamiltonianFamily
from qfleet.problems.hamiltonian_files import parse
from qfleet.problems.molecules import active_space
from qfleet.problems.names import HAMILTONIANS, named
from qfleet.problems.states import STATES, target_states
from qfleet.problems.tomography import (
    fidelity,
    infidelity,
    pauli_words,
    purity,
    scaled_infidelity_gradient,
    word_values,
)

__all__ = [
    "HAMILTONIANS",
    "STATES",
    "Hamiltonian",
    "HamiltonianFamily",
    "active_space",
    "fidelity",
    "infidelity",
    "named",
    "parse",
    "pauli_words",
    "purity",
    "scaled_infidelity_gradient",
    "target_states",
    "word_values",
]
