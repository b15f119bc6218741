"""The unitary matrix of a pulse on qubits: its value, its leakage and its derivative."""

from functools import cached_property

import numpy as np

from qfleet.errors import ArgumentError

MAX_LEAKAGE = 0.1


class ClosestUnitary:
    """The unitary matrices W that are closest to blocks M of propagators: M = W H, with H >= 0.

    With the singular values M = L s R, W is L R (Fan and Hoffman 1955).

    Args:
        blocks: M, [B, d, d] complex128, the parts of propagators in the levels 0 and 1.

    Raises:
        ArgumentError: More than 10 % of the computational states leaks.
    """

    def __init__(self, blocks: np.ndarray) -> None:
        self._left, self._singular, self._right = np.linalg.svd(blocks)
        if (worst := self.leakage.max(initial=0)) > MAX_LEAKAGE:
            raise ArgumentError(
                f"the pulse leaks {worst:.2g} of the computational states: a gate needs less than"
                f" {MAX_LEAKAGE}"
            )

    @cached_property
    def matrices(self) -> np.ndarray:
        """W, [B, d, d]."""
        found: np.ndarray = self._left @ self._right
        return found

    @property
    def leakage(self) -> np.ndarray:
        """Mean probability that a computational state leaves the levels 0 and 1, [B]."""
        found: np.ndarray = np.clip(1 - (self._singular**2).mean(axis=-1), 0, None)
        return found

    def angle_gradients(self, generators: np.ndarray) -> np.ndarray:
        """Return the derivatives of angles delta of W(delta) = exp(i sum delta_k P_k) W, at 0.

        From dW = W X with H X + X H = W^dagger dM - dM^dagger W, d delta_k is
        -i/d tr(P_k dW W^dagger).

        Args:
            generators: P, [K, d, d] Hermitian, of squares 1 and orthogonal to each other.

        Returns:
            [B, K, d, d], d delta / dRe M + i d delta / dIm M.
        """
        adjoint = self._left.conj().swapaxes(-1, -2)
        rotated = adjoint[:, np.newaxis] @ generators @ self._left[:, np.newaxis]
        sums = self._singular[:, :, np.newaxis] + self._singular[:, np.newaxis, :]
        weighted = rotated / sums[:, np.newaxis]
        found: np.ndarray = (
            2j / generators.shape[-1] * self._left[:, np.newaxis] @ weighted
        ) @ self._right[:, np.newaxis]
        return found
