"""The state's way through the blocks, in TensorFlow operations.

The state is real and imaginary parts side by side. At compile time we keep the order of its axes,
slowest first: PART (real, imaginary), a qubit each, and BATCH, which is last where it can be, so
that transposes move whole runs. A shared block multiplies the leading axes, `y[8, M] = U x[8, M]`
with the matrices of matrices.py. There is no batch axis until the first block per example.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.simulator.fusion import Block
from common.tensorflow import tf

BATCH, PART = -1, -2  # axes that are no qubit
WINDOW_QUBITS = 4  # qubits that disjoint blocks per example are applied to in one product
MOST_AXES = 8  # TensorFlow transposes more than these element by element

Order = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One product over the whole state.

    Attributes:
        before: The order of axes it wants.
        after: The order it leaves.
        blocks: Indices of the blocks it applies; only blocks per example come in numbers.
        per_example: Which kind they are.
    """

    before: Order
    after: Order
    blocks: tuple[int, ...]
    per_example: bool


def schedule(blocks: Sequence[Block], order: Order, *, first: int = 0) -> list[Step]:
    """Plan the steps.

    Args:
        blocks: In an order that may be applied.
        order: Of the axes at the start.
        first: The index of the first block, where they are a part of a longer list.

    Returns:
        The steps; the last one's `after` is the order at the end.
    """
    steps: list[Step] = []
    for group in _sequence(blocks):
        front = tuple(qubit for index in group for qubit in blocks[index].qubits)
        rest = tuple(axis for axis in order if axis not in (PART, BATCH, *front))
        per_example = blocks[group[0]].per_example
        batched = BATCH in order
        if per_example and batched:
            before = after = (BATCH, PART, *front, *rest)
        elif per_example:
            before, after = (PART, *front, *rest), (*rest, PART, *front, BATCH)
        else:
            before = after = (PART, *front, *rest, *([BATCH] if batched else []))
        steps.append(Step(before, after, tuple(first + index for index in group), per_example))
        order = after
    return steps


def _sequence(blocks: Sequence[Block]) -> list[tuple[int, ...]]:
    """Groups of blocks in the order of their application.

    Shared blocks come as early as they can, so that the blocks per example that wait meanwhile
    fill whole windows, and the first ones meet a state that has no batch yet.
    """
    waiting = list(range(len(blocks)))
    groups: list[tuple[int, ...]] = []
    while waiting:
        held: set[int] = set()
        ready: list[int] = []
        later: list[int] = []
        for index in waiting:
            qubits = blocks[index].qubits
            if held.intersection(qubits):
                later.append(index)
                held.update(qubits)
            elif blocks[index].per_example:
                ready.append(index)
                held.update(qubits)
            else:
                groups.append((index,))
        groups.extend(_windows(blocks, ready))
        waiting = later
    return groups


def _windows(blocks: Sequence[Block], ready: Sequence[int]) -> list[tuple[int, ...]]:
    windows: list[list[int]] = []
    width = WINDOW_QUBITS
    for index in ready:
        size = len(blocks[index].qubits)
        if width + size > WINDOW_QUBITS:
            windows.append([])
            width = 0
        windows[-1].append(index)
        width += size
    return [tuple(window) for window in windows]


def evolve(
    state: tf.Tensor, order: Order, steps: Sequence[Step], matrices: dict[int, tf.Tensor]
) -> tuple[tf.Tensor, Order]:
    """Apply steps to a state.

    Args:
        state: Real, of as many elements as the order's axes hold.
        order: Of its axes.
        steps: From `schedule` with the same order.
        matrices: By the block's index, from Matrices.

    Returns:
        The state, in any shape, and the order of its axes.
    """
    for step in steps:
        state = transpose(state, order, step.before)
        if step.per_example:
            state = _apply_window(state, step, [matrices[index] for index in step.blocks])
        else:
            matrix = matrices[step.blocks[0]]
            state = tf.matmul(matrix, tf.reshape(state, [matrix.shape[-1], -1]))
        order = step.after
    return state, order


def _apply_window(state: tf.Tensor, step: Step, matrices: Sequence[tf.Tensor]) -> tf.Tensor:
    window = matrices[0]  # [B, 2 D, 2 D]
    for matrix in matrices[1:]:
        window = _kronecker(window, matrix)
    size = window.shape[-1]
    if BATCH not in step.before:
        state = tf.reshape(state, [size, -1])
        # From [B, out, in] to [in, out * B]: the batch comes out last.
        window = tf.reshape(permuted(window, [2, 1, 0]), [size, -1])
        return tf.matmul(state, window, transpose_a=True)
    rest = 2 ** (len(step.before) - 1) // size
    return tf.matmul(window, tf.reshape(state, [-1, size, rest]))


def _kronecker(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """The Kronecker product of two batches of complex matrices in their real form."""
    a, b = first.shape[-1] // 2, second.shape[-1] // 2
    first = tf.reshape(first, [-1, 2, a, 1, 2, a, 1])
    second = tf.reshape(second, [-1, 2, 1, b, 2, 1, b])
    # Complex numbers multiply as their 2x2 real forms do, hence the sum over the inner part.
    real = first[:, :, :, :, :1] * second[:, :1]
    imaginary = first[:, :, :, :, 1:] * second[:, 1:]
    product = real + imaginary
    return tf.reshape(product, [-1, 2 * a * b, 2 * a * b])


def transpose(state: tf.Tensor, order: Order, wanted: Order) -> tf.Tensor:
    """Bring a state's axes into another order, as transposes of as few axes as possible."""
    while order != wanted:
        target = wanted
        if len(_runs(order, target)) > MOST_AXES:
            target = _halfway(order, wanted)
        runs = _runs(order, target)
        shape = [-1 if BATCH in run else 2 ** len(run) for run in runs]
        permutation = sorted(range(len(runs)), key=lambda run: target.index(runs[run][0]))
        state = permuted(tf.reshape(state, shape), permutation)
        order = target
    return state


def _runs(order: Order, wanted: Order) -> list[list[int]]:
    """An order cut into runs of axes that stay side by side in the wanted one."""
    runs: list[list[int]] = []
    for axis in order:
        if runs and wanted.index(axis) == wanted.index(runs[-1][-1]) + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


def _halfway(order: Order, wanted: Order) -> Order:
    """An order with as many of the wanted leading axes in front as one transpose can bring."""
    best = order
    for count in range(1, len(wanted)):
        target = (*wanted[:count], *(axis for axis in order if axis not in wanted[:count]))
        if len(_runs(order, target)) > MOST_AXES:
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
