"""The nearest positive semidefinite matrix, for kernels that shots or noise made indefinite."""

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import checked, flag
from qfleet.engine import arguments
from qfleet.errors import ArgumentError

_ASYMMETRY = 1e-6  # of the largest entry: rounding of float32


@checked(unit_diagonal=flag)
def nearest_psd(K: ArrayLike, *, unit_diagonal: bool = False) -> np.ndarray:
    """Return the positive semidefinite matrix that is nearest in the Frobenius norm.

    Negative eigenvalues are replaced by 0: Higham, "Computing a nearest symmetric positive
    semidefinite matrix" (1988, doi:10.1016/0024-3795(88)90223-6).

    Args:
        K: [n, n] symmetric.
        unit_diagonal: True to divide row and column i by the root of diagonal entry i afterwards.
            The result stays positive semidefinite, but is not the nearest one any more.

    Returns:
        [n, n] float64, symmetric.

    Raises:
        ArgumentError: The matrix is not square, not symmetric or not finite, or it has no positive
            diagonal entry in some row after clipping.

    Examples:
        >>> nearest_psd([[1.0, 2.0], [2.0, 1.0]]).round(3).tolist()
        [[1.5, 1.5], [1.5, 1.5]]
    """
    array = arguments.checked_array(K, "K")
    count = len(array) if array.ndim else 0
    matrix: np.ndarray = arguments.checked_values(
        array, (count, count), "K", because="a kernel matrix is square"
    )
    if not count:
        return matrix
    most = np.abs(matrix - matrix.T).max()
    if most > _ASYMMETRY * np.abs(matrix).max():
        raise ArgumentError(
            f"K differs from its transpose by {most:g}: pass the matrix of rows with themselves"
        )
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] < 0:
        matrix = (vectors * np.maximum(values, 0)) @ vectors.T
    matrix = (matrix + matrix.T) / 2
    if unit_diagonal:
        diagonal = np.diagonal(matrix).copy()
        if diagonal.min() <= 0:
            at = int(diagonal.argmin())
            raise ArgumentError(f"K has {diagonal[at]:g} at [{at}, {at}]: leave unit_diagonal out")
        matrix /= np.sqrt(np.outer(diagonal, diagonal))
        np.fill_diagonal(matrix, 1)
    return matrix
