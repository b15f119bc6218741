"""The state's way through blocks and layers, in TensorFlow operations.

The state is real and imaginary parts side by side. At compile time we keep the order of its axes,
slowest first: PART (real, imaginary), a qubit each, and BATCH last, so that transposes move whole
runs. A block multiplies the leading axes, `y[8, M] = U x[8, M]` with the matrices of matrices.py.
There is no batch axis until the first layer of data turns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from qfleet.compiler.dense_fusion import FusedBlock, PhaseLayer
from qfleet.tensorflow.exponents import GateExponents
from qfleet.tensorflow.runtime import tf

BATCH, PART = -1, -2  # axes that are no qubit
MAX_AXES = 8  # TensorFlow transposes more than these element by element

AxisOrder = tuple[int, ...]


@dataclass(frozen=True)
class ProductState:
    """A block to apply: to the leading axes of `order`, which it keeps.

    Attributes:
        order: Of the axes it wants.
        block: The index of its matrix.
    """

    order: AxisOrder
    block: int


class Phases:
    """A layer of data turns: the state times exp(i angle), per example.

    The sign of a parity in a bit pattern is that in its first half of bits times that in the
    second; so no constant here is larger than the square root of the state.

    Args:
        layer: The turns.
        order: Of the axes before it; afterwards BATCH is the last.
        names: Of the inputs and parameters.
        real: tf.float32 or tf.float64.
    """

    def __init__(
        self, layer: PhaseLayer, order: AxisOrder, names: Sequence[str], real: tf.DType
    ) -> None:
        self.batched = BATCH in order
        self.order = order if self.batched else (*order, BATCH)
        qubits = self.order[1:-1]
        half = len(qubits) // 2
        strings = [turn.qubits for turn in layer.turns]
        scale = np.array([[np.pi * turn.turn] for turn in layer.turns])
        high = (signs(qubits[:half], strings) * scale).T  # [H, T] radians per unit
        self._high = high.astype(real.as_numpy_dtype)
        self._low = signs(qubits[half:], strings).astype(real.as_numpy_dtype)  # [T, L]
        self._exponents = GateExponents([turn.exponent for turn in layer.turns], names, real)

    def __call__(self, state: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """The state in `order` after the layer, from [B, V] values of inputs and parameters."""
        exponents = permuted(self._exponents(values), [1, 0])  # [T, B]
        spread = exponents[:, tf.newaxis] * self._low[:, :, np.newaxis]  # [T, L, B]
        size = len(self._high) * self._low.shape[1]
        angles = tf.matmul(self._high, tf.reshape(spread, [len(self._low), -1]))
        angles = tf.reshape(angles, [size, -1])  # [2**N, B]
        wave, swing = tf.cos(angles), tf.sin(angles)
        shape = [2, size, -1] if self.batched else [2, size, 1]
        real, imaginary = tf.unstack(tf.reshape(state, shape), num=2)
        return tf.stack(
            [real * wave - imaginary * swing, real * swing + imaginary * wave]
        )  # [2, 2**N, B]


def signs(qubits: Sequence[int], strings: Sequence[tuple[int, ...]]) -> np.ndarray:
    """[T, 2**len(qubits)] of +-1: the parity of each string's bits among these qubits."""
    found = np.ones((len(strings), 1))
    for qubit in qubits:
        bit = np.array([[1, -1] if qubit in string else [1, 1] for string in strings])
        found = (found[:, :, None] * bit[:, None, :]).reshape(len(strings), -1)
    return found


def schedule(
    steps: Sequence[FusedBlock | PhaseLayer],
    order: AxisOrder,
    *,
    first: int = 0,
    names: Sequence[str] = (),
    real: tf.DType = tf.float32,
) -> list[ProductState | Phases]:
    """Plan the way through a program.

    Args:
        steps: Of the program.
        order: Of the axes at the start.
        first: The index of the first block's matrix.
        names: Of the inputs and parameters; layers need them.
        real: tf.float32 or tf.float64.

    Returns:
        A plan for each step; the last one's `order` is the order at the end.
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
    """Go through a program.

    Args:
        state: Real, of as many elements as the order's axes hold.
        order: Of its axes.
        plans: From `schedule` with the same order.
        matrices: By the block's index, from Matrices.
        values: [B, V] of inputs and parameters; layers need them.

    Returns:
        The state, in any shape, and the order of its axes.
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
    """Bring a state's axes into another order, as transposes of as few axes as possible."""
    while order != wanted:
        target = wanted
        if len(_runs(order, target)) > MAX_AXES:
            target = _halfway(order, wanted)
        runs = _runs(order, target)
        shape = [-1 if BATCH in run else 2 ** len(run) for run in runs]
        permutation = sorted(range(len(runs)), key=lambda run: target.index(runs[run][0]))
        state = permuted(tf.reshape(state, shape), permutation)
        order = target
    return state


def _runs(order: AxisOrder, wanted: AxisOrder) -> list[list[int]]:
    """An order cut into runs of axes that stay side by side in the wanted one."""
    runs: list[list[int]] = []
    for axis in order:
        if runs and wanted.index(axis) == wanted.index(runs[-1][-1]) + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


def _halfway(order: AxisOrder, wanted: AxisOrder) -> AxisOrder:
    """An order with as many of the wanted leading axes in front as one transpose can bring."""
    best = order
    for count in range(1, len(wanted)):
        target = (*wanted[:count], *(axis for axis in order if axis not in wanted[:count]))
        if len(_runs(order, target)) > MAX_AXES:
            break
        best = target
    return best


def permuted(tensor: tf.Tensor, permutation: Sequence[int]) -> tf.Tensor:
    """tf.transpose, ten times faster on small float32 tensors.

    TensorFlow hands a float32 transpose to oneDNN, which takes 0.15 ms to set out; not so integers
    of the same size.
    """
    if tensor.dtype != tf.float32:
        return tf.transpose(tensor, permutation)
    inverse = sorted(range(len(permutation)), key=lambda axis: permutation[axis])

    @tf.custom_gradient
    def moved(source: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        bits = tf.transpose(tf.bitcast(source, tf.int32), permutation)
        return tf.bitcast(bits, tf.float32), lambda upstream: permuted(upstream, inverse)

    return moved(tensor)
