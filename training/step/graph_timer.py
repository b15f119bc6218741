"""A clock inside TensorFlow's graph, which times the parts of a step."""

import time
from collections.abc import Sequence

from qfleet import native
from qfleet.tensorflow.runtime import tf


@tf.autograph.experimental.do_not_convert
def read_clock_after(tensors: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Return the tensors, and the time in seconds at which all of them were computed.

    TensorFlow runs operations in any order that their inputs allow. So the clock waits for the
    inputs, and the returned tensors wait for the clock.
    """
    with tf.control_dependencies(tensors):
        now = read_clock()
    with tf.control_dependencies([now]):
        return [tf.identity(tensor) for tensor in tensors], now


@tf.autograph.experimental.do_not_convert  # AutoGraph takes a second, for nothing
def read_clock() -> tf.Tensor:
    """Return float64 []: seconds of the clock of `time.perf_counter`, read in each run of a graph.

    TensorFlow rejects tf.timestamp where operations must be deterministic. The kernel's clock takes
    about 1 us. Without the kernel, simulation is slow, so that a call into Python does not matter.
    """
    if native.unavailable_reason() is None:
        return native.ops().qfleet_clock()
    return tf.ensure_shape(tf.numpy_function(time.perf_counter, [], tf.float64), [])
