"""Micro-batches: parts of a batch whose results have the same bits wherever they are computed.

Inside `use_micro_batch(...)`, layers compute results that depend on nothing but the examples and
the weights: not on the number of threads, the free memory, or the process that computes them. The
engine then uses the threads of its own pool (`qfleet.engine.library.set_num_threads`), so that
TensorFlow can be given one thread: the bits of its own operations depend on their number.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass, field

from qfleet.tensorflow.framework import tf

MEMORY_LIMIT = 256 << 20
"""Bytes of states that a micro-batch keeps for the gradient, or evolves in a subspace."""

MAX_SAMPLING_LAYERS = 1 << 10
"""Calls of sampling layers in one micro-batch that have random numbers of their own."""


@dataclass
class MicroBatch:
    """A micro-batch that is computed now.

    Attributes:
        number: int64 [], different for every micro-batch of every training step; None outside of
            training.
        calls: Calls of sampling layers so far.
    """

    number: tf.Tensor | None = None
    calls: int = field(default=0, init=False)

    def sampling_call(self) -> tf.Tensor:
        """Return int64 []: the number of a sampling layer's call; 0 outside of training."""
        if self.number is None:
            return tf.constant(0, tf.int64)
        self.calls += 1
        return self.number * MAX_SAMPLING_LAYERS + self.calls


_CURRENT: contextvars.ContextVar[MicroBatch | None] = contextvars.ContextVar(
    "micro_batch", default=None
)


@contextlib.contextmanager
def use_micro_batch(number: tf.Tensor | None = None) -> Iterator[None]:
    """Compute the results of layers, and their gradients, as those of a micro-batch.

    Args:
        number: See `MicroBatch`.
    """
    token = _CURRENT.set(MicroBatch(number))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_micro_batch() -> MicroBatch | None:
    """Return the micro-batch that is computed now; None if results may depend on threads."""
    return _CURRENT.get()
