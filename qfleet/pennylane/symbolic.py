"""Decomposition of exponentials and constant matrices, which PennyLane does not decompose.

PennyLane decomposes `qml.exp` of Pauli words only, and not for PyTorch's tensors.
"""

from collections.abc import Sequence

import numpy as np
import pennylane as qml
from pennylane.exceptions import DecompositionUndefinedError, DeviceError
from pennylane.operation import Operator
from pennylane.ops import op_math
from pennylane.typing import TensorLike

from qfleet.pennylane import gates, interfaces

TOLERANCE = 1e-9
"""Real part of a coefficient, and deviation from a unitary or Hermitian matrix, by rounding."""


def decomposition(op: Operator) -> Sequence[Operator]:
    """Return the parts of an operation, first applied first.

    Raises:
        DecompositionUndefinedError: There is none.
        DeviceError: The operation is an exponential that is not unitary.
    """
    with qml.QueuingManager.stop_recording():
        if isinstance(op, op_math.Exp) and not _is_hidden(op.coeff):
            return _exponential(op)
        if _is_of_exponential(op):
            parts = decomposition(op.base)
            if isinstance(op, op_math.Adjoint):
                return [qml.adjoint(part) for part in reversed(parts)]
            return [
                qml.ctrl(part, op.control_wires, control_values=op.control_values) for part in parts
            ]
        if op.has_decomposition:
            return list(op.decomposition())
        return [_constant(op)]


def _is_hidden(value: TensorLike) -> bool:
    """Return True if jax.jit hides a value."""
    return bool(qml.math.is_abstract(value))


def _is_of_exponential(op: Operator) -> bool:
    is_symbolic = isinstance(op, op_math.Adjoint | op_math.Controlled)
    return is_symbolic and (isinstance(op.base, op_math.Exp) or _is_of_exponential(op.base))


def _exponential(op: op_math.Exp) -> list[Operator]:
    """Return exp(i t G) as rotations in the eigenbasis of G, linear in t."""
    generator, coefficient = op.base, op.coeff
    title = f"{op.name} of {str(generator)[:60]}"
    if not all(map(interfaces.is_constant, generator.data)):
        raise DeviceError(f"{title} has a trained generator: use qml.TrotterProduct")
    real = np.asarray(qml.math.unwrap([qml.math.real(coefficient)])[0])
    matrix = np.asarray(qml.math.to_numpy(_matrix(generator)), np.complex128)
    if np.abs(real).max(initial=0) > TOLERANCE or not np.allclose(
        matrix, matrix.conj().T, atol=TOLERANCE
    ):
        raise DeviceError(
            f"{title} is not unitary: use an imaginary coefficient and a Hermitian generator"
        )
    angle, wires = qml.math.imag(coefficient), generator.wires
    values, vectors = np.linalg.eigh(matrix)
    parts: list[Operator] = [qml.QubitUnitary(vectors.conj().T, wires)]
    for mask in range(len(values)):
        parities = [(1, -1)[(at & mask).bit_count() % 2] for at in range(len(values))]
        weight = float(np.mean(values * parities))
        members = [wire for at, wire in enumerate(reversed(wires)) if mask >> at & 1]
        if abs(weight) > TOLERANCE and members:
            parts.append(qml.MultiRZ(-2 * weight * angle, members))
        elif abs(weight) > TOLERANCE:
            parts.append(qml.GlobalPhase(-weight * angle, wires))
    return [*parts, qml.QubitUnitary(vectors, wires)]


def _matrix(op: Operator) -> TensorLike:
    if len(op.wires) > gates.MATRIX_WIRES or not op.has_matrix:
        raise DeviceError(
            f"the matrix of {str(op)[:60]} is too wide: use at most {gates.MATRIX_WIRES} wires, or"
            " qml.TrotterProduct"
        )
    return op.matrix(wire_order=op.wires)


def _constant(op: Operator) -> Operator:
    """Return an operation with constant parameters as its unitary matrix."""
    is_narrow = len(op.wires) <= gates.MATRIX_WIRES and op.has_matrix
    if not is_narrow or op.batch_size or not all(map(interfaces.is_constant, op.data)):
        raise DecompositionUndefinedError
    matrix = np.asarray(qml.math.to_numpy(_matrix(op)), np.complex128)
    if not np.allclose(matrix @ matrix.conj().T, np.eye(len(matrix)), atol=TOLERANCE):
        raise DecompositionUndefinedError
    return qml.QubitUnitary(matrix, op.wires)
