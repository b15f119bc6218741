"""Kernel target alignment, by which the parameters of a kernel are trained."""

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import checked, instance
from qfleet.engine import arguments
from qfleet.errors import ArgumentError
from qfleet.kernels.quantum_kernel import QuantumKernel


@checked(kernel=instance(QuantumKernel, "a FidelityKernel or a ProjectedKernel"))
def alignment(
    kernel: QuantumKernel, X: ArrayLike, y: ArrayLike, parameters: ArrayLike | None = None
) -> tuple[float, np.ndarray]:
    """Compute the alignment of a kernel with labels, and its gradient.

    It is the cosine of the matrices K and y y^T: sum_ij y_i y_j K_ij / (n |K|), with the Frobenius
    norm. Cristianini et al., "On kernel-target alignment" (NeurIPS 2001); of quantum kernels,
    Hubregtsen et al. (arXiv:2105.02276). The gradient is exact: one pass of states, one adjoint
    pass.

    Args:
        kernel: The kernel, without shots if it is a FidelityKernel.
        X: [n, I] inputs.
        y: [n] labels, -1 or 1.
        parameters: [P] values of the circuit's parameters; those of the kernel unless given.

    Returns:
        The alignment, from -1 to 1, and its gradient by the parameters, [P] float64.

    Raises:
        ArgumentError: An array has the wrong shape, a value is not finite, a label is neither -1
            nor 1, or the kernel has shots.
        MemoryLimitError: The states of all rows do not fit into the memory.
    """
    array = arguments.checked_array(X, "X")
    count = len(array) if array.ndim else 0
    labels = arguments.checked_values(y, (count,), "y", because=f"X has {count} rows")
    wrong = np.abs(labels) != 1
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ArgumentError(f"y[{at}] is {labels[at]:g}: use the labels -1 and 1")
    if not count:
        raise ArgumentError("X has no rows: pass at least 1")
    matrix, pullback = kernel.matrix_and_pullback(array, parameters)
    matrix = matrix.astype(np.float64, copy=False)
    norm = float(np.linalg.norm(matrix))
    value = float(labels @ matrix @ labels) / (count * norm)
    by_matrix = np.outer(labels, labels) / (count * norm) - value / norm**2 * matrix
    return value, pullback(by_matrix)
