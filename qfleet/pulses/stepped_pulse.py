"""The steps of a pulse one by one, for states that are evolved step by step."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qfleet.pulses import native
from qfleet.pulses.magnus import MagnusSteps


@dataclass(frozen=True)
class SteppedPulse:
    """The steps of one pulse on one device. Exponentials are computed for a range of steps.

    Attributes:
        magnus: The exponents of steps.
        matrices: Their matrices, [1, K, D, D].
        amplitudes: [T, C] of each step, in rad/ns.
        unitary: All matrices are anti-Hermitian.
    """

    magnus: MagnusSteps
    matrices: np.ndarray
    amplitudes: np.ndarray
    unitary: bool

    def exponentials(self, part: slice) -> np.ndarray:
        """Return the exponentials of a range of n steps, [n, D, D]."""
        each = self._coefficients[part, np.newaxis]
        return native.joined(native.products(self.matrices, each, unitary=self.unitary))

    def coefficient_gradient(self, part: slice, seeds: np.ndarray) -> np.ndarray:
        """Return the gradient of a loss by the coefficients of a range of n steps, [n, K].

        Args:
            part: The range.
            seeds: [n, D, D], W U^dagger of the exponentials U, with W the derivative by them.
        """
        each = self._coefficients[part, np.newaxis]
        return native.gradient(self.matrices, each, seeds[:, np.newaxis], unitary=self.unitary)[
            :, 0
        ]

    def amplitude_gradient(self, by_coefficients: np.ndarray) -> np.ndarray:
        """Return the gradient by the amplitudes, [T, C].

        Args:
            by_coefficients: [T, K].
        """
        rows = self.amplitudes[np.newaxis], by_coefficients[np.newaxis]
        found: np.ndarray = self.magnus.amplitude_gradient(*rows)[0]
        return found

    @cached_property
    def _coefficients(self) -> np.ndarray:
        """[T, K]."""
        found: np.ndarray = self.magnus.coefficients(self.amplitudes[np.newaxis])[0]
        return found
