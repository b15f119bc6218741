"""A Keras model that wraps the trained model: one all-reduce between workers per step.

Keras would all-reduce the gradients, and then the two sums of each metric one by one, at 0.6 ms or
more each. Here, all of it is one vector that is summed once. The loss equals that of one
worker: sum(weight * error) over the rows of the whole global batch, divided by their number. So the
loss curve does not depend on the number of workers.

A step is timed inside the graph, using clocks that its parts wait for. So the times are also right
where one host call takes many steps.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from qfleet.tensorflow.runtime import keras, tf
from training import allreduce
from training.graph_timer import read_clock, read_clock_after
from training.limits import STEP_PARTS

SUMS = ("squared error", "correct signs", "rows")
"""Sums over the rows of a batch, in addition to the gradients."""

MAX_TRACED_STEPS = 1024
"""Steps whose losses are kept."""

HostCall = Callable[[Any], dict[str, tf.Tensor]]
"""One call into TensorFlow: takes an iterator of batches and returns metrics."""


class Learner(keras.Model):
    """Trains `model` on batches (angles, labels, weights, count) using mean squared error.

    A batch is this worker's share of a global batch:
        angles  float32 [rows, features]   radians
        labels  float32 [rows]             -1 or 1
        weights float32 [rows]             1, or 0 for padding
        count   float32 []                 rows of the global batch without padding

    Args:
        model: The model to train.
        state_shards: Workers that share the states of circuits with this one, itself included. They
            have the same rows, so each counts a row as 1 / state_shards.

    Attributes:
        single_step_calls: Trace a graph without a loop for calls of one step. In a profile,
            TensorBoard takes the iterations of a loop for steps.
        epoch_step_offset: Steps of the current epoch that were done before this call of `fit`.
        graphs: Graphs of training and measuring, each with and without a loop.
    """

    train_function: Any
    test_function: Any

    def __init__(self, model: keras.Model, state_shards: int = 1) -> None:
        super().__init__(name="learner")
        self.model = model
        self._state_shards = state_shards
        self._strategy = tf.distribute.get_strategy()
        # A step returns equal numbers on every worker; Keras would all-reduce them.
        self.distribute_reduction_method = "first"
        self.single_step_calls = False
        self.graphs: list[Any] = []
        self.epoch_step_offset = 0
        # Each replica has its own copy. All copies are equal, because they add all-reduced sums.
        local = {
            "trainable": False,
            "synchronization": tf.VariableSynchronization.ON_READ,
            "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA,
        }
        self._sums = tf.Variable(tf.zeros([len(SUMS)], tf.float64), name="sums", **local)
        self._trace = tf.Variable(tf.zeros([MAX_TRACED_STEPS]), name="trace", **local)
        self._steps = tf.Variable(tf.zeros([], tf.int64), name="steps", **local)
        self._times = tf.Variable(
            tf.zeros([len(STEP_PARTS) - 1], tf.float64), name="times", **local
        )
        # Seconds of the last all-reduce, and of all of them without the wait.
        self._all_reduce = tf.Variable(tf.zeros([2], tf.float64), name="all_reduce", **local)
        self._start_time = time.perf_counter()

    @property
    def distribute_strategy(self) -> tf.distribute.Strategy:
        """The strategy that Keras distributes data with: none, as each worker reads its own share.

        The workers' strategy would use a multi-device iterator, which costs 0.2 ms per step.
        """
        return tf.distribute.get_strategy()

    @property
    def steps_per_call(self) -> int:
        """Training steps in one call into TensorFlow; it may change between two calls."""
        return int(self._steps_per_execution.numpy())

    @steps_per_call.setter
    def steps_per_call(self, steps: int) -> None:
        self._steps_per_execution.assign(steps)

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Return the model's predictions."""
        return self.model(inputs, training=training)

    @property
    def metrics(self) -> list[Any]:
        """Metrics of Keras: none, see `sums`."""
        return []

    def reset_metrics(self) -> None:
        """Reset the sums of an epoch, as Keras does; a resumed epoch keeps them."""
        if not self.epoch_step_offset:
            self.sums = np.zeros(len(SUMS))
        self._times.assign(np.zeros(len(STEP_PARTS) - 1))
        self._all_reduce.assign(np.zeros(2))
        self._start_time = time.perf_counter()

    @property
    def times(self) -> np.ndarray:
        """float64 [4]: seconds per entry of STEP_PARTS since `fit` began this epoch.

        Their sum is the elapsed time.
        """
        measured = self._times.numpy()
        return np.append(measured, time.perf_counter() - self._start_time - measured.sum())

    @property
    def sums(self) -> np.ndarray:
        """float64 [3]: SUMS since the beginning of the epoch."""
        return self._sums.numpy()

    @sums.setter
    def sums(self, values: np.ndarray) -> None:
        self._sums.assign(values)

    @property
    def steps(self) -> int:
        """Training steps done since the beginning of the run."""
        return int(self._steps.numpy())

    @steps.setter
    def steps(self, steps: int) -> None:
        self._steps.assign(steps)

    @property
    def straggler_wait_seconds(self) -> float:
        """Seconds of all-reduce in this epoch in which this worker waited for a slower one.

        The last worker to arrive does not wait, so the excess over the shortest all-reduce of all
        workers is a wait. Workers share these times one step later; the last step's is unknown.
        """
        last, without_wait = self._all_reduce.numpy()
        return max(0.0, float(self._times.numpy()[1] - last - without_wait))

    def losses_since(self, first: int) -> np.ndarray:
        """Return the losses of the steps from `first` on, counted from 0.

        At most those of the newest MAX_TRACED_STEPS steps are returned.
        """
        steps = np.arange(first, self.steps)
        return self._trace.numpy()[steps[-MAX_TRACED_STEPS:] % MAX_TRACED_STEPS]

    def make_train_function(self, force: bool = False) -> HostCall:
        """Return a host call: `steps_per_call` steps on the batches of an iterator."""
        if self.train_function is None or force:

            def one_step(batches: Any) -> dict[str, tf.Tensor]:
                requested = read_clock()
                with tf.control_dependencies([requested]):
                    batch = next(batches)
                self._strategy.run(self.train_step, args=(batch, requested))
                return self._epoch_metrics()

            def some_steps(batches: Any) -> dict[str, tf.Tensor]:
                for _ in tf.range(self._steps_per_execution):
                    metrics = one_step(batches)
                return metrics

            self.train_function = self._function(some_steps, one_step)
        return self.train_function

    def _function(self, loop: HostCall, single: HostCall) -> HostCall:
        """Return a call that chooses between the graphs of a loop and of one step."""
        loop_graph, single_graph = (
            tf.function(function, reduce_retracing=True) for function in (loop, single)
        )
        self.graphs += [loop_graph, single_graph]

        def call(batches: Any) -> dict[str, tf.Tensor]:
            is_single = self.single_step_calls and self.steps_per_call == 1
            return (single_graph if is_single else loop_graph)(batches)

        return call

    def train_step(self, batch: Any, requested: tf.Tensor) -> None:
        """Take one optimizer step on this worker's share of a global batch.

        Args:
            batch: See the class.
            requested: Time in seconds at which the batch was requested.
        """
        batch, received = read_clock_after(batch)
        angles, labels, weights, count = batch
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            sums = self._measure(angles, labels, weights, training=True)
            loss = tf.cast(sums[0], tf.float32) / count
            if self.model.losses:  # regularisers, equal on every worker: each adds its share
                loss += tf.add_n(self.model.losses) / _replicas()
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        last = tf.cast(self._all_reduce.read_value()[0], tf.float32) * _one_hot_rank()
        parts = [tf.convert_to_tensor(part) for part in [*gradients, loss, sums, last]]
        (packed,), simulated = read_clock_after(
            [tf.concat([tf.reshape(part, [-1]) for part in parts], 0)]
        )
        (packed,), reduced = read_clock_after([allreduce.all_reduce_sum(packed)])
        *gradients, loss, sums, last = _unpack(packed, parts)
        self._trace.assign(
            tf.tensor_scatter_nd_update(
                self._trace.read_value(), [[self._steps.read_value() % MAX_TRACED_STEPS]], [loss]
            )
        )
        self._steps.assign_add(1)
        self.optimizer.apply_gradients(
            zip(gradients, variables, strict=True), skip_gradients_aggregation=True
        )
        self._sums.assign_add(tf.cast(sums, tf.float64))
        self._times.assign_add([simulated - received, reduced - simulated, received - requested])
        without_wait = self._all_reduce.read_value()[1] + tf.cast(tf.reduce_min(last), tf.float64)
        self._all_reduce.assign([reduced - simulated, without_wait])

    def measure(self, batches: Iterator[Any], steps: int) -> dict[str, float]:
        """Return mean squared error and accuracy of the sign over the next `steps` batches.

        Like Keras' `evaluate`, but on a persistent iterator, and with one all-reduce per call
        instead of one per step. The sums of the current epoch are lost.
        """
        agreed = self.steps_per_call  # equal on all workers
        pace = 1 if self.single_step_calls else agreed
        self.sums = np.zeros(len(SUMS))
        for done in range(0, steps, pace):
            self.steps_per_call = min(pace, steps - done)
            metrics = self.test_function(batches)
        self.steps_per_call = agreed
        return {name: float(value) for name, value in metrics.items()}

    def make_test_function(self, force: bool = False) -> HostCall:
        """Return a host call of `measure`: `steps_per_call` batches, then one all-reduce."""
        if self.test_function is None or force:

            def batch_sums(batches: Any) -> tf.Tensor:
                return self._strategy.run(self.test_step, args=(next(batches),))

            def add_all(sums: tf.Tensor) -> dict[str, tf.Tensor]:
                self._strategy.run(self._add_all, args=(sums,))
                return self._epoch_metrics()

            def some_batches(batches: Any) -> dict[str, tf.Tensor]:
                sums = tf.zeros([len(SUMS)], tf.float64)
                for _ in tf.range(self._steps_per_execution):
                    sums += batch_sums(batches)
                return add_all(sums)

            self.test_function = self._function(
                some_batches, lambda batches: add_all(batch_sums(batches))
            )
        return self.test_function

    def test_step(self, batch: Any) -> tf.Tensor:
        """Return float64 [3]: SUMS of this worker's share of a global batch."""
        angles, labels, weights, _ = batch
        return tf.cast(self._measure(angles, labels, weights, training=False), tf.float64)

    def _add_all(self, sums: tf.Tensor) -> None:
        """Add the sums of all workers to those of the epoch."""
        # The all-reduce needs a tensor on the replica's own device.
        self._sums.assign_add(allreduce.all_reduce_sum(tf.identity(sums)))

    def _measure(
        self, angles: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, *, training: bool
    ) -> tf.Tensor:
        predictions = tf.reshape(self.model(angles, training=training), [-1])
        # The sign of a prediction is its class; 0 counts as +1.
        correct = tf.cast((predictions >= 0) == (labels >= 0), tf.float32)
        rows = tf.stack([tf.square(predictions - labels), correct, tf.ones_like(labels)])
        return tf.reduce_sum(rows * (weights / self._state_shards), axis=1)

    def _epoch_metrics(self) -> dict[str, tf.Tensor]:
        total = self._sums.read_value()
        return {"mse": total[0] / total[2], "accuracy": total[1] / total[2], "examples": total[2]}


def _replicas() -> float:
    return float(tf.distribute.get_strategy().num_replicas_in_sync)


def _one_hot_rank() -> tf.Tensor:
    """Return float32 [workers]: 1 at this worker's rank, else 0."""
    context = tf.distribute.get_replica_context()
    return tf.one_hot(context.replica_id_in_sync_group, context.num_replicas_in_sync)


def _unpack(packed: tf.Tensor, like: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the parts of a vector, in the shapes of the tensors that were packed into it."""
    parts = tf.split(packed, [tensor.shape.num_elements() for tensor in like])
    return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, like, strict=True)]
