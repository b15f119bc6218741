"""Evolution of states through blocks and layers, in TensorFlow operations.

A state has real and imaginary parts. The order of its axes is tracked at compile time, slowest
first: PART (real, imaginary), one axis per qubit, and BATCH last, so that transposes move long
runs. A block multiplies the leading axes, `y[8, M] = U x[8, M]`, with the matrices of matrices.py.
There is no batch axis before the first layer of data phases.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from qfleet.compiler.dense_fusion import FusedBlock, PhaseLayer
from qfleet.tensorflow.exponents import GateExponents
from qfleet.tensorflow.runtime import tf

BATCH, PART = -1, -2  # axes that are not qubits
MAX_AXES = 8  # TensorFlow transposes more axes element by element

AxisOrder = tuple[int, ...]


@dataclass(frozen=True)
class ProductState:
    """The step of a block: it multiplies the leading axes.

    Attributes:
        order: Order of the axes before and after the step.
        block: The index of its matrix.
    """

    order: AxisOrder
    block: int


class Phases:
    """The step of a layer of data phases: the state times exp(i angle), per example.

    The sign of a parity is the product of the signs of both halves of the bit pattern, so no
    constant is larger than the square root of the state.

    Args:
        layer: The phases.
        order: Order of the axes before the step; afterwards BATCH is the last axis.
        names: Names of the inputs and parameters.
        real: tf.float32 or tf.float64.
    """

    def __init__(
        self, layer: PhaseLayer, order: AxisOrder, names: Sequence[str], real: tf.DType
    ) -> None:
        self.batched = BATCH in order
        self.order = order if self.batched else (*order, BATCH)
        qubits = self.order[1:-1]
        half = len(qubits) // 2
        strings = [phase.qubits for phase in layer.phases]
        scale = np.array([[np.pi * phase.half_turns] for phase in layer.phases])
        high = (signs(qubits[:half], strings) * scale).T  # [H, T] radians per unit
        self._high = high.astype(real.as_numpy_dtype)
        self._low = signs(qubits[half:], strings).astype(real.as_numpy_dtype)  # [T, L]
        self._exponents = GateExponents([phase.exponent for phase in layer.phases], names, real)

    def __call__(self, state: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """Return the state after the layer, for [B, V] values of inputs and parameters."""
        exponents = permute(self._exponents(values), [1, 0])  # [T, B]
        spread = exponents[:, tf.newaxis] * self._low[:, :, np.newaxis]  # [T, L, B]
        size = len(self._high) * self._low.shape[1]
        angles = tf.matmul(self._high, tf.reshape(spread, [len(self._low), -1]))
        angles = tf.reshape(angles, [size, -1])  # [2**N, B]
        cos, sin = tf.cos(angles), tf.sin(angles)
        shape = [2, size, -1] if self.batched else [2, size, 1]
        real, imaginary = tf.unstack(tf.reshape(state, shape), num=2)
        return tf.stack(
            [real * cos - imaginary * sin, real * sin + imaginary * cos]
        )  # [2, 2**N, B]


def signs(qubits: Sequence[int], strings: Sequence[tuple[int, ...]]) -> np.ndarray:
    """Return [T, 2**len(qubits)] signs: the parity of each string's bits among these qubits."""
    result = np.ones((len(strings), 1))
    for qubit in qubits:
        bit = np.array([[1, -1] if qubit in string else [1, 1] for string in strings])
        result = (result[:, :, None] * bit[:, None, :]).reshape(len(strings), -1)
    return result


def schedule(
    steps: Sequence[FusedBlock | PhaseLayer],
    order: AxisOrder,
    *,
    first: int = 0,
    names: Sequence[str] = (),
    real: tf.DType = tf.float32,
) -> list[ProductState | Phases]:
    """Plan the evolution through a program.

    Args:
        steps: Steps of the program.
        order: Order of the axes before the first step.
        first: Index of the first block's matrix.
        names: Names of the inputs and parameters; needed for layers.
        real: tf.float32 or tf.float64.

    Returns:
        A plan per step; the `order` of the last one is the final order of the axes.
    """
    plans: list[ProductState | Phases] = []
    for step in steps:
        if isinstance(step, PhaseLayer):
            plans.append(Phases(step, order, names, real))
        else:
            front = (PART, *step.qubits)
            rest = tuple(axis for axis in order if axis not in front)
            plans.append(ProductState((*front, *rest), first))
            first += 1
        order = plans[-1].order
    return plans


def evolve(
    state: tf.Tensor,
    order: AxisOrder,
    plans: Sequence[ProductState | Phases],
    matrices: dict[int, tf.Tensor],
    values: tf.Tensor | None = None,
) -> tuple[tf.Tensor, AxisOrder]:
    """Evolve a state through a program.

    Args:
        state: Real tensor with the elements of all axes of `order`.
        order: Order of its axes.
        plans: Result of `schedule` with the same order.
        matrices: Matrix of each block by its index, from BlockMatrices.
        values: [B, V] values of inputs and parameters; needed for layers.

    Returns:
        The state in any shape, and the order of its axes.
    """
    for plan in plans:
        if isinstance(plan, Phases):
            state = plan(state, values)
        else:
            matrix = matrices[plan.block]
            state = transpose(state, order, plan.order)
            state = tf.matmul(matrix, tf.reshape(state, [matrix.shape[-1], -1]))
        order = plan.order
    return state, order


def transpose(state: tf.Tensor, order: AxisOrder, wanted: AxisOrder) -> tf.Tensor:
    """Bring a state's axes into another order, by transposes of as few axes as possible."""
    while order != wanted:
        target = wanted
        if len(_runs(order, target)) > MAX_AXES:
            target = _halfway(order, wanted)
        runs = _runs(order, target)
        shape = [-1 if BATCH in run else 2 ** len(run) for run in runs]
        permutation = sorted(range(len(runs)), key=lambda run: target.index(runs[run][0]))
        state = permute(tf.reshape(state, shape), permutation)
        order = target
    return state


def _runs(order: AxisOrder, wanted: AxisOrder) -> list[list[int]]:
    """Divide an order into runs of axes that are adjacent in the wanted order too."""
    runs: list[list[int]] = []
    for axis in order:
        if runs and wanted.index(axis) == wanted.index(runs[-1][-1]) + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


def _halfway(order: AxisOrder, wanted: AxisOrder) -> AxisOrder:
    """Return an order that one transpose reaches, with as many wanted leading axes as possible."""
    best = order
    for count in range(1, len(wanted)):
        target = (*wanted[:count], *(axis for axis in order if axis not in wanted[:count]))
        if len(_runs(order, target)) > MAX_AXES:
            break
        best = target
    return best


def permute(tensor: tf.Tensor, permutation: Sequence[int]) -> tf.Tensor:
    """Transpose a tensor, ten times faster than tf.transpose on small float32 tensors.

    TensorFlow transposes float32 with oneDNN, whose setup takes 0.15 ms, but integers without.
    """
    if tensor.dtype != tf.float32:
        return tf.transpose(tensor, permutation)
    inverse = sorted(range(len(permutation)), key=lambda axis: permutation[axis])

    @tf.custom_gradient
    def moved(source: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        bits = tf.transpose(tf.bitcast(source, tf.int32), permutation)
        return tf.bitcast(bits, tf.float32), lambda upstream: permute(upstream, inverse)

    return moved(tensor)
