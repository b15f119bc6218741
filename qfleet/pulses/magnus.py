"""Steps of a Magnus expansion: the exponents of each step, and their derivative."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qfleet.pulses.grid import Grid
from qfleet.pulses.hamiltonian import ControlHamiltonian


@dataclass(frozen=True)
class MagnusSteps:
    """Steps of equal length, with exponents sum_k c_k G_k.

    Order 2 takes H in the middle of a step. Order 4 takes it at the two Gauss-Legendre nodes, and
    the exponent is h/2 (A1 + A2) - sqrt(3)/12 h^2 [A1, A2] (Blanes et al. 2009, arXiv:0810.5488).
    Commutators of the matrices are further matrices.

    Attributes:
        hamiltonian: The matrices' coefficients.
        grid: The samples.
        order: 2 or 4.
        steps_per_sample: Steps of each sample.
    """

    hamiltonian: ControlHamiltonian
    grid: Grid
    order: int
    steps_per_sample: int

    @property
    def length(self) -> float:
        """Length of a step in ns."""
        return self.grid.dt / self.steps_per_sample

    @cached_property
    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Matrices whose commutators are needed: none if the Hamiltonian is static in a step."""
        if self.order == 2 or self.hamiltonian.is_static:
            return np.zeros(0, int), np.zeros(0, int)
        return np.triu_indices(len(self.hamiltonian.matrices), 1)

    def matrices(self, generators: np.ndarray) -> np.ndarray:
        """Return the matrices of exponents, [B, K', D, D]: G_k, and [G_j, G_k] for order 4.

        Args:
            generators: [B, K, D, D].
        """
        left, right = (generators[:, at] for at in self._pairs)
        return np.concatenate([generators, left @ right - right @ left], axis=1)

    def coefficients(self, amplitudes: np.ndarray) -> np.ndarray:
        """Return the coefficients of exponents, [B, T, K'].

        Args:
            amplitudes: [B, T, C] of each step.
        """
        nodes = [self.hamiltonian.coefficients(times, amplitudes) for times in self._times]
        if len(nodes) == 1:
            return self.length * nodes[0]
        first, second = nodes
        j, k = self._pairs
        crossed = first[..., j] * second[..., k] - first[..., k] * second[..., j]
        return np.concatenate([self.length / 2 * (first + second), self._factor * crossed], axis=-1)

    def amplitude_gradient(self, amplitudes: np.ndarray, upstream: np.ndarray) -> np.ndarray:
        """Return the gradient by the amplitudes, [B, T, C].

        Args:
            amplitudes: [B, T, C] of each step.
            upstream: [B, T, K'] by the coefficients.
        """
        count = len(self.hamiltonian.matrices)
        linear = upstream[..., :count]
        if len(self._times) == 1:
            (times,) = self._times
            return self.length * self.hamiltonian.amplitude_gradient(times, linear)
        nodes = [self.hamiltonian.coefficients(times, amplitudes) for times in self._times]
        crossed = self._factor * upstream[..., count:]
        j, k = self._pairs
        total = np.zeros_like(amplitudes)
        for times, other, sign in zip(self._times, reversed(nodes), (1, -1), strict=True):
            by_node = self.length / 2 * linear
            for at in range(count):
                by_node[..., at] += sign * (crossed[..., j == at] * other[..., k[j == at]]).sum(-1)
                by_node[..., at] -= sign * (crossed[..., k == at] * other[..., j[k == at]]).sum(-1)
            total += self.hamiltonian.amplitude_gradient(times, by_node)
        return total

    @property
    def _factor(self) -> float:
        return -math.sqrt(3) / 12 * self.length**2

    @cached_property
    def _times(self) -> tuple[np.ndarray, ...]:
        """Times of the nodes, each [T] in ns."""
        starts = np.arange(self.grid.samples * self.steps_per_sample) * self.length
        if not len(self._pairs[0]):
            return (starts + self.length / 2,)
        shift = math.sqrt(3) / 6
        return tuple(starts + (0.5 + sign * shift) * self.length for sign in (-1, 1))
