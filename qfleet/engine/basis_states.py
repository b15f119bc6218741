"""Indices of basis states as bits of qubits."""

import numpy as np


def bits_of(indices: np.ndarray, width: int) -> np.ndarray:
    """Return the bits of basis states.

    Args:
        indices: [...] integers, the first qubit the most significant bit.
        width: N, the number of qubits.

    Returns:
        [..., N] uint8, the columns in the order of the qubits.
    """
    bits = np.empty((*indices.shape, width), np.uint8)
    for at in range(width):
        bits[..., at] = indices >> (width - 1 - at) & 1
    return bits
