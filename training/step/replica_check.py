"""The comparison of replicas inside TensorFlow's graph, and what it found."""

from collections.abc import Callable

import numpy as np

from qfleet.tensorflow.runtime import keras, tf
from training.step import allreduce, replica_state, step_vector
from training.step.replica_state import DIGEST_LENGTH, StepStatus


class ReplicaCheck:
    """Compares replicas in each step and after each call, and looks for infinite numbers and NaN.

    Args:
        variable: Creates a variable of which each replica has its own copy: (initial value, name).
        workers: Number of replicas.
    """

    def __init__(self, variable: Callable[[tf.Tensor, str], tf.Variable], workers: int) -> None:
        self._workers = workers
        length = replica_state.status_length(workers)
        self._status = variable(tf.zeros([length], tf.int64), "status")
        self._agreed = variable(tf.zeros([DIGEST_LENGTH], tf.int64), "agreed_digest")

    @property
    def status(self) -> StepStatus:
        """The first step with a fault since `reset`."""
        return StepStatus.of(self._status.numpy())

    def reset(self) -> None:
        """Forget a fault."""
        self._status.assign(np.zeros(self._status.shape, np.int64))

    @property
    def agreed_digest(self) -> np.ndarray:
        """int64 [2]: digest of this replica after the last call, whose status is that of all."""
        return self._agreed.numpy()

    def digest(
        self, model: keras.Model, optimizer: keras.optimizers.Optimizer
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the digest of this replica's state, and its count of infinite numbers and NaN."""
        variables = replica_state.state_variables(model, optimizer)
        return replica_state.digest([tf.convert_to_tensor(variable) for variable in variables])

    def pack(
        self,
        numbers: tf.Tensor,
        seconds: tf.Tensor,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
    ) -> tf.Tensor:
        """Return the vector of a step, with a digest of this replica; see `step_vector.pack`."""
        if self._workers == 1:
            return numbers
        digest, _ = self.digest(model, optimizer)
        return step_vector.pack(numbers, digest, seconds)

    def unpack(
        self, total: tf.Tensor, length: int, seconds: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the parts of the sum of all vectors; see `step_vector.unpack`."""
        if self._workers == 1:
            return total, tf.zeros([1, DIGEST_LENGTH], tf.int64), seconds[tf.newaxis]
        return step_vector.unpack(total, length)

    def check(
        self,
        step: tf.Tensor,
        digests: tf.Tensor,
        loss: tf.Tensor,
        numbers: tf.Tensor,
        nonfinite: tf.Tensor | None = None,
    ) -> None:
        """Record the first fault.

        Args:
            step: int64 [].
            digests: int64 [workers, 2], by rank.
            loss: Loss of the step.
            numbers: Float [n], loss, gradients and sums of the step.
            nonfinite: int64 [], numbers of this replica's state that are infinite or NaN.
        """
        if nonfinite is None:
            nonfinite = tf.zeros([], tf.int64)
        sound = tf.reduce_all(tf.math.is_finite(numbers)) & (nonfinite == 0)
        if self._workers > 1:
            sound &= tf.reduce_all(digests == digests[:1])

        def record() -> tf.Tensor:
            status = self._status.read_value()
            self._status.assign(
                replica_state.next_status(status, step, digests, nonfinite, loss, numbers)
            )
            return tf.constant(False)

        tf.cond(sound, lambda: tf.constant(True), record)

    def compare(
        self, step: tf.Tensor, model: keras.Model, optimizer: keras.optimizers.Optimizer
    ) -> None:
        """Compare the state between two calls, which may become a checkpoint."""
        digest, nonfinite = self.digest(model, optimizer)
        none, zero = tf.zeros([0], tf.int64), tf.zeros([], tf.float64)
        packed = step_vector.pack(none, digest, zero)
        _, digests, _ = step_vector.unpack(allreduce.all_reduce_sum(packed), 0)
        self._agreed.assign(digest)
        self.check(step, digests, zero, zero, nonfinite)
