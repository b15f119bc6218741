"""The state's way through the blocks, in TensorFlow operations.

The state is one flat vector; at compile time we keep the order of its axes, a qubit or the batch
each, slowest first. A shared block multiplies the two leading axes and leaves them at the end,
`y[M, 4] = x[4, M]^T U^T`, so that a layer of blocks on neighbouring pairs goes round the qubits
without a transpose. There is no batch axis until the first block that is per example.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from common.simulator.fusion import Block
from common.tensorflow import tf

BATCH = -1  # the batch's place in an order of axes
WINDOW_QUBITS = 4  # qubits that disjoint blocks per example are applied to in one product

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


def schedule(blocks: Sequence[Block], order: Order) -> list[Step]:
    """Plan the steps.

    Args:
        blocks: In an order that may be applied.
        order: Of the axes at the start.

    Returns:
        The steps; the last one's `after` is the order at the end.
    """
    steps: list[Step] = []
    sequence = _sequence(blocks)
    for at, group in enumerate(sequence):
        front = tuple(qubit for index in group for qubit in blocks[index].qubits)
        if blocks[group[0]].per_example:
            rest = tuple(axis for axis in order if axis not in (BATCH, *front))
            # Without a batch axis the product makes it, so only the window must be in front.
            before = (*front, *rest) if BATCH not in order else (BATCH, *front, *rest)
            after = (BATCH, *front, *rest)
            steps.append(Step(before, after, group, True))
        else:
            before = order if order[: len(front)] == front else _ahead(blocks, sequence[at:], order)
            after = (*before[len(front) :], *front)
            steps.append(Step(before, after, group, False))
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
            block = blocks[index]
            if held.intersection(block.qubits):
                held.update(block.qubits)
                later.append(index)
            elif block.per_example:
                held.update(block.qubits)
                ready.append(index)
            else:
                groups.append((index,))
        waiting = sorted(ready + later) if len(ready) + len(later) < len(waiting) else later
        if waiting is later:
            groups.extend(_windows(blocks, ready))
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


def _ahead(blocks: Sequence[Block], sequence: Sequence[tuple[int, ...]], order: Order) -> Order:
    """An order that serves the next block and as many after it as do not meet its qubits again."""
    front: list[int] = []
    for group in sequence:
        qubits = blocks[group[0]].qubits
        if blocks[group[0]].per_example or set(qubits) & set(front):
            break
        front.extend(qubits)
    rest = [axis for axis in order if axis not in front and axis != BATCH]
    return (*front, *rest, *([BATCH] if BATCH in order else []))


def evolve(
    state: tf.Tensor, order: Order, steps: Sequence[Step], matrices: dict[int, tf.Tensor]
) -> tuple[tf.Tensor, Order]:
    """Apply steps to a state.

    Args:
        state: Complex, of as many elements as the order's axes hold.
        order: Of its axes.
        steps: From `schedule` with the same order.
        matrices: By the block's index, from Matrices.

    Returns:
        The state, flat or not, and the order of its axes.
    """
    for step in steps:
        state = transpose(state, order, step.before)
        if step.per_example:
            state = _apply_window(state, step, [matrices[index] for index in step.blocks])
        else:
            (index,) = step.blocks
            matrix = matrices[index]
            state = tf.reshape(state, [matrix.shape[-1], -1])
            state = tf.matmul(state, matrix, transpose_a=True, transpose_b=True)
        order = step.after
    return state, order


def _apply_window(state: tf.Tensor, step: Step, matrices: Sequence[tf.Tensor]) -> tf.Tensor:
    window = matrices[0]  # [B, D, D]
    for matrix in matrices[1:]:
        size = window.shape[-1] * matrix.shape[-1]
        window = window[:, :, tf.newaxis, :, tf.newaxis] * matrix[:, tf.newaxis, :, tf.newaxis]
        window = tf.reshape(window, [-1, size, size])
    size = window.shape[-1]
    if BATCH in step.before:
        rest = 2 ** (len(step.before) - 1) // size
        return tf.matmul(window, tf.reshape(state, [-1, size, rest]))
    return tf.matmul(tf.reshape(window, [-1, size]), tf.reshape(state, [size, -1]))


def transpose(state: tf.Tensor, order: Order, wanted: Order) -> tf.Tensor:
    """Bring a state's axes into another order, as a transpose of as few axes as possible."""
    if order == wanted:
        return state
    runs: list[list[int]] = []
    place = {axis: at for at, axis in enumerate(wanted)}
    for axis in order:
        if runs and place[axis] == place[runs[-1][-1]] + 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    shape = [-1 if BATCH in run else 2 ** len(run) for run in runs]
    permutation = sorted(range(len(runs)), key=lambda run: place[runs[run][0]])
    return tf.transpose(tf.reshape(state, shape), permutation)
