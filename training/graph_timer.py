"""A clock inside TensorFlow's graph, so that the parts of a step are timed where they happen."""

import time
from collections.abc import Sequence

from qfleet import native
from qfleet.tensorflow.runtime import tf


def read_clock_after(tensors: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], tf.Tensor]:
    """The tensors, and the time in seconds when all of them were there: nothing goes on before.

    TensorFlow runs what it finds ready in any order, so both sides must be bound to the clock.
    """
    with tf.control_dependencies(tensors):
        now = read_clock()
    with tf.control_dependencies([now]):
        return [tf.identity(tensor) for tensor in tensors], now


def read_clock() -> tf.Tensor:
    """float64 []: seconds of `time.perf_counter`'s clock, in a graph at each run anew.

    tf.timestamp is refused where operations must be deterministic. The kernel's clock takes about
    1 us; where there is no kernel simulating is so slow that a call into Python does no harm.
    """
    if native.unavailable_reason() is None:
        return native.ops().qfleet_clock()
    return tf.ensure_shape(tf.numpy_function(time.perf_counter, [], tf.float64), [])
