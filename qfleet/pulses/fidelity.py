"""Fidelity of gates in the computational subspace, leakage, and their gradients."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import shown
from qfleet.engine.arguments import checked_complex, require_finite
from qfleet.errors import ArgumentError


@dataclass(frozen=True)
class Fidelities:
    """Fidelities and leakage of propagators as a gate.

    Attributes:
        fidelity: [B] average gate fidelities over the computational subspace.
        leakage: [B] mean probabilities that a computational state leaves the subspace.
        by_propagator: d fidelity / dRe U + i d fidelity / dIm U, of the propagators' shape.
        by_virtual_z: [B, n], d fidelity / d angle.
    """

    fidelity: np.ndarray
    leakage: np.ndarray
    by_propagator: np.ndarray
    by_virtual_z: np.ndarray


def computational_places(levels: Sequence[int]) -> np.ndarray:
    """Return the places of the states of the levels 0 and 1 among all states, [2^n].

    Args:
        levels: Levels of each of the n qubits, the first qubit leftmost.
    """
    weights = [int(np.prod(levels[at + 1 :])) for at in range(len(levels))]
    found: np.ndarray = np.array(list(product(range(2), repeat=len(levels)))) @ np.array(weights)
    return found


class GateFidelity:
    """The average gate fidelity of propagators, after virtual rotations about Z.

    With M the propagator in the subspace of the levels 0 and 1, d its dimension, and V the gate:

        F = (tr(M M^dagger) + |tr(V^dagger M)|^2) / (d (d + 1))
        leakage = 1 - tr(M M^dagger) / d

    (Pedersen et al. 2007, arXiv:quant-ph/0701138; Wood and Gambetta 2018, arXiv:1704.03081.) A
    propagator of density matrices has the same means over states.

    Args:
        target: V, [2^n, 2^n], the first qubit leftmost.
        levels: Levels of each of the n qubits.

    Raises:
        ArgumentError: `target` is not a unitary matrix of this size.
    """

    def __init__(self, target: ArrayLike, levels: Sequence[int]) -> None:
        self.levels = tuple(levels)
        size = 2 ** len(self.levels)
        reason = f"the device has {len(self.levels)} qubits"
        matrix = checked_complex(target, (size, size), "target", because=reason)
        require_finite(matrix, "target")
        self.target = matrix.astype(np.complex128)
        if not np.allclose(self.target @ self.target.conj().T, np.eye(size), atol=1e-8):
            raise ArgumentError(f"target is {shown(target)}: pass a unitary matrix")
        self._bits = np.array(list(product(range(2), repeat=len(self.levels))))  # [d, n]
        self._places = computational_places(self.levels)

    def of_unitaries(self, unitaries: np.ndarray, virtual_z: np.ndarray) -> Fidelities:
        """Compute the fidelities of unitary matrices.

        Args:
            unitaries: [B, D, D].
            virtual_z: [n] angles in radians of the rotations diag(1, exp(i angle)) after the pulse.
        """
        d = len(self._places)
        rows, columns = np.ix_(self._places, self._places)
        block = unitaries[:, rows, columns]
        wanted = self._wanted(virtual_z)
        overlap = np.einsum("ij,bij->b", wanted.conj(), block)
        kept = (np.abs(block) ** 2).sum(axis=(1, 2))
        by_unitary = np.zeros_like(unitaries)
        by_block = block + overlap[:, np.newaxis, np.newaxis] * wanted
        by_unitary[:, rows, columns] = 2 * by_block / (d * (d + 1))
        each = np.einsum("ij,bij->bi", wanted.conj(), block)  # of the row's phase
        by_phase = 2 * (overlap.conj()[:, np.newaxis] * 1j * each).real / (d * (d + 1))
        fidelity = (kept + np.abs(overlap) ** 2) / (d * (d + 1))
        return Fidelities(fidelity, 1 - kept / d, by_unitary, by_phase @ self._bits)

    def of_channels(self, channels: np.ndarray, virtual_z: np.ndarray) -> Fidelities:
        """Compute the fidelities of channels.

        Args:
            channels: [B, D^2, D^2], on density matrices in row-major order.
            virtual_z: As for `of_unitaries`.
        """
        d, full = len(self._places), int(np.prod(self.levels))
        places = (self._places[:, np.newaxis] * full + self._places).ravel()
        rows, columns = np.ix_(places, places)
        block = channels[:, rows, columns]
        wanted = self._wanted(virtual_z)
        ideal = np.kron(wanted, wanted.conj())
        process = np.einsum("ij,bij->b", ideal.conj(), block).real / d**2
        diagonal = np.arange(d) * (d + 1)
        kept = block[:, diagonal[:, np.newaxis], diagonal].real.sum(axis=(1, 2)) / d
        by_block = ideal / d  # F = (d process + kept) / (d + 1)
        by_block[diagonal[:, np.newaxis], diagonal] += 1 / d
        by_channel = np.zeros_like(channels)
        by_channel[:, rows, columns] = by_block / (d + 1)
        each = np.einsum("ij,bij->bi", ideal.conj(), block)
        bits = (self._bits[:, np.newaxis] - self._bits).reshape(d**2, -1)
        by_phase = (1j * each).real / (d * (d + 1))
        return Fidelities((d * process + kept) / (d + 1), 1 - kept, by_channel, by_phase @ bits)

    def _wanted(self, virtual_z: np.ndarray) -> np.ndarray:
        """Return the gate before the virtual rotations: Z^dagger V."""
        phases: np.ndarray = np.exp(-1j * (self._bits @ virtual_z))
        return phases[:, np.newaxis] * self.target
