"""The number of training steps in one call into TensorFlow."""

import time

from qfleet.tensorflow.runtime import keras, tf
from training.step.allreduce import all_reduce_scalar
from training.step.constants import MAX_CALL_SECONDS, MAX_STEPS_PER_CALL


class StepsPerCallTuner(keras.callbacks.Callback):
    """Chooses how many steps one call into TensorFlow takes.

    A Keras call costs about 3 ms. TensorFlow identifies collectives inside a loop by the iteration,
    so all workers must use the same numbers of steps. They agree on the mean of their step times.

    Args:
        strategy: The workers' strategy.
        steps: Steps per call, if set by the user; 0 chooses.
        single: Steps of the run, counted from 1, that take one call each. Profiled steps do,
            because a profile distinguishes steps by host calls.
    """

    MEASURED_CALLS = (2, 3)  # the first call traces the graph

    def __init__(
        self, strategy: tf.distribute.Strategy, steps: int = 0, single: range = range(0)
    ) -> None:
        super().__init__()
        self._strategy = strategy
        self._steps = steps or 1
        self._single = single
        # An explicit number is not tuned.
        self._calls = self.MEASURED_CALLS[-1] if steps else 0
        self._step_seconds = float("inf")
        self._call_start = 0.0

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Enable calls of a single step where there are profiled steps."""
        self.model.single_step_calls = bool(self._single)

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Set the size of the first call; Keras ends the last call of an epoch itself."""
        self._set_next_call()

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Start the clock."""
        self._call_start = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Measure calls of one step, and agree on the number of steps after the last of them."""
        self._calls += 1
        if self._calls in self.MEASURED_CALLS:
            self._step_seconds = min(self._step_seconds, time.monotonic() - self._call_start)
        if self._calls == self.MEASURED_CALLS[-1]:
            total = all_reduce_scalar(self._strategy, self._step_seconds)
            mean = total / self._strategy.num_replicas_in_sync
            self._steps = min(MAX_STEPS_PER_CALL, max(1, int(MAX_CALL_SECONDS / mean)))
        self._set_next_call()

    def _set_next_call(self) -> None:
        """Set how many steps the next call takes."""
        next_step, steps = self.model.steps + 1, self._steps
        if next_step in self._single:
            steps = 1
        elif next_step < self._single.start:
            steps = min(steps, self._single.start - next_step)
        if steps != self.model.steps_per_call:
            self.model.steps_per_call = steps
