"""Times of the parts of a step, measured inside TensorFlow's graph."""

import time
from collections.abc import Callable

import numpy as np

from qfleet.tensorflow.runtime import tf
from training.step.constants import STEP_PARTS


class StepTimes:
    """Times since the beginning of an epoch.

    Args:
        variable: Creates a variable of which each replica has its own copy: (initial value, name).
    """

    def __init__(self, variable: Callable[[tf.Tensor, str], tf.Variable]) -> None:
        self._times = variable(tf.zeros([len(STEP_PARTS) - 1], tf.float64), "times")
        # Seconds of the last all-reduce, and of all of them without the wait.
        self._all_reduce = variable(tf.zeros([2], tf.float64), "all_reduce")
        self._start_time = time.perf_counter()

    def reset(self) -> None:
        """Begin an epoch."""
        self._times.assign(np.zeros(len(STEP_PARTS) - 1))
        self._all_reduce.assign(np.zeros(2))
        self._start_time = time.perf_counter()

    @property
    def seconds(self) -> np.ndarray:
        """float64 [4]: seconds per entry of STEP_PARTS. Their sum is the elapsed time."""
        measured = self._times.numpy()
        return np.append(measured, time.perf_counter() - self._start_time - measured.sum())

    @property
    def straggler_wait_seconds(self) -> float:
        """Seconds of all-reduce in which this worker waited for a slower one.

        The last worker to arrive does not wait, so the excess over the shortest all-reduce of all
        workers is a wait. Workers share these times one step later; the last step's is unknown.
        """
        last, without_wait = self._all_reduce.numpy()
        return max(0.0, float(self._times.numpy()[1] - last - without_wait))

    @property
    def last_all_reduce(self) -> tf.Tensor:
        """float64 []: seconds of the last all-reduce, in a graph."""
        return self._all_reduce.read_value()[0]

    def add(
        self,
        requested: tf.Tensor,
        received: tf.Tensor,
        simulated: tf.Tensor,
        reduced: tf.Tensor,
        durations: tf.Tensor,
    ) -> None:
        """Add a step, in a graph.

        Args:
            requested: Time in seconds at which the batch was requested.
            received: Time at which it was there.
            simulated: Time at which this worker's gradient was computed.
            reduced: Time at which all gradients were summed.
            durations: float64 [workers], durations of the all-reduce before.
        """
        self._times.assign_add([simulated - received, reduced - simulated, received - requested])
        without_wait = self._all_reduce.read_value()[1] + tf.reduce_min(durations)
        self._all_reduce.assign([reduced - simulated, without_wait])
