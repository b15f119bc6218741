"""Generators of decay: superoperators on density matrices in row-major order."""

from collections.abc import Sequence

import numpy as np


def superoperator(hamiltonian: np.ndarray) -> np.ndarray:
    """Return the matrix of rho -> -i [H, rho], [..., D^2, D^2].

    Args:
        hamiltonian: [..., D, D] in rad/ns.
    """
    size = hamiltonian.shape[-1]
    one = np.eye(size)
    left = np.einsum("...ij,kl->...ikjl", hamiltonian, one)
    right = np.einsum("ij,...lk->...ikjl", one, hamiltonian)
    found: np.ndarray = -1j * (left - right)
    return found.reshape(*hamiltonian.shape[:-2], size**2, size**2)


def dissipator(operators: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Return the matrix of rho -> sum (L rho L^dagger - {L^dagger L, rho} / 2), [D^2, D^2].

    Args:
        operators: L, each [D, D] in square roots of rates per ns (Lindblad 1976).
        size: D.
    """
    one = np.eye(size)
    total = np.zeros((size**2, size**2), np.complex128)
    for jump in operators:
        decay = jump.conj().T @ jump
        total += np.kron(jump, jump.conj()) - (np.kron(decay, one) + np.kron(one, decay.T)) / 2
    return total
