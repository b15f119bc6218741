"""A Keras model around the model that is trained: one exchange between workers a step.

Keras alone would exchange gradients, and then each metric's two sums one by one, at 0.6 ms or more
an exchange. Here all of it is one vector, summed once. And the loss is what it would be on one
worker: sum(weight * error) over the rows of the whole global batch, divided by how many they are,
so that the loss curve does not depend on the number of workers.

A step is timed inside the graph, by clocks that its parts wait for, so that the times are right
also where one host call takes many steps.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from qfleet.tensorflow.runtime import keras, tf
from training import allreduce
from training.graph_timer import read_clock, read_clock_after
from training.limits import STEP_PARTS

# What is summed over the rows of a batch besides the gradients.
SUMS = ("squared error", "signs right", "rows")
TRACE = 1024
# What a host call does with an iterator of batches, and the numbers that it returns.
Call = Callable[[Any], dict[str, tf.Tensor]]


class Learner(keras.Model):
    """Trains `model` on batches (angles, labels, weights, count) by mean squared error.

    A batch is this worker's share of a global one:
        angles  float32 [rows, features]   radians
        labels  float32 [rows]             -1 or 1
        weights float32 [rows]             1, or 0 for a row that only pads
        count   float32 []                 rows of the global batch, padding left out

    Args:
        model: What is trained.
        members: Workers that have the same rows as this one, itself included, because they hold
            the states of its circuits together; each row counts a member's part in each of them.
    """

    train_function: Any
    test_function: Any

    def __init__(self, model: keras.Model, members: int = 1) -> None:
        super().__init__(name="learner")
        self.model = model
        self._members = members
        self._gang = tf.distribute.get_strategy()
        # What a step returns is the same in every worker; Keras would exchange and add it.
        self.distribute_reduction_method = "first"
        # Whether no call is a loop that need not be one: where a profile holds a loop, TensorBoard
        # takes its turns for the steps, and not the calls that Keras has marked.
        self.unlooped = False
        # The graphs of training and measuring, of a loop and of one step.
        self.graphs: list[Any] = []
        # Steps of the epoch in hand that were done before this call of fit: it counts from there.
        self.offset = 0
        # Each replica holds its own copy, and all hold the same: they add the exchanged sums.
        local = {
            "trainable": False,
            "synchronization": tf.VariableSynchronization.ON_READ,
            "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA,
        }
        self._sums = tf.Variable(tf.zeros([len(SUMS)], tf.float64), name="sums", **local)
        self._trace = tf.Variable(tf.zeros([TRACE]), name="trace", **local)
        self._steps = tf.Variable(tf.zeros([], tf.int64), name="steps", **local)
        self._times = tf.Variable(
            tf.zeros([len(STEP_PARTS) - 1], tf.float64), name="times", **local
        )
        # Of the exchanges: what the last one took, and all of them without the wait.
        self._exchange = tf.Variable(tf.zeros([2], tf.float64), name="exchange", **local)
        self._began = time.perf_counter()

    @property
    def distribute_strategy(self) -> tf.distribute.Strategy:
        """By which Keras deals out data: by none, since each worker reads its own share.

        A gang's strategy would take it through an iterator for many devices, 0.2 ms a step.
        """
        return tf.distribute.get_strategy()

    @property
    def steps_per_call(self) -> int:
        """Training steps in one call into TensorFlow; may be changed between two calls."""
        return int(self._steps_per_execution.numpy())

    @steps_per_call.setter
    def steps_per_call(self, steps: int) -> None:
        self._steps_per_execution.assign(steps)

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """The model's answers."""
        return self.model(inputs, training=training)

    @property
    def metrics(self) -> list[Any]:
        """None of Keras's: `sums` is what is measured."""
        return []

    def reset_metrics(self) -> None:
        """Start an epoch's sums anew, as Keras does; an epoch that is taken up goes on with its."""
        if not self.offset:
            self.sums = np.zeros(len(SUMS))
        self._times.assign(np.zeros(len(STEP_PARTS) - 1))
        self._exchange.assign(np.zeros(2))
        self._began = time.perf_counter()

    @property
    def times(self) -> np.ndarray:
        """float64 [4]: seconds of PARTS since the epoch, or what is left of it, began.

        They sum to the time that has passed since then.
        """
        known = self._times.numpy()
        return np.append(known, time.perf_counter() - self._began - known.sum())

    @property
    def sums(self) -> np.ndarray:
        """float64 [3]: SUMS since the epoch began."""
        return self._sums.numpy()

    @sums.setter
    def sums(self, values: np.ndarray) -> None:
        self._sums.assign(values)

    @property
    def steps(self) -> int:
        """Training steps done since the run began."""
        return int(self._steps.numpy())

    @steps.setter
    def steps(self, steps: int) -> None:
        self._steps.assign(steps)

    @property
    def waited(self) -> float:
        """Seconds of the exchanges since then in which this worker only waited for a slower one.

        Who is last in an exchange waits for nobody, so what is more than the shortest among the
        workers is a wait. They tell each other a step later; the last step's is not known.
        """
        last, without = self._exchange.numpy()
        return max(0.0, float(self._times.numpy()[1] - last - without))

    def losses_since(self, first: int) -> np.ndarray:
        """The loss of each step from `first` (counted from 0) on; of the newest TRACE at most."""
        steps = np.arange(first, self.steps)
        return self._trace.numpy()[steps[-TRACE:] % TRACE]

    def make_train_function(self, force: bool = False) -> Call:
        """What one host call does: `steps_per_call` steps on the batches of an iterator."""
        if self.train_function is None or force:

            def one_step(batches: Any) -> dict[str, tf.Tensor]:
                begun = read_clock()
                with tf.control_dependencies([begun]):
                    batch = next(batches)
                self._gang.run(self.train_step, args=(batch, begun))
                return self._numbers()

            def some_steps(batches: Any) -> dict[str, tf.Tensor]:
                for _ in tf.range(self._steps_per_execution):
                    numbers = one_step(batches)
                return numbers

            self.train_function = self._function(some_steps, one_step)
        return self.train_function

    def _function(self, some: Call, one: Call) -> Call:
        """Of the two graphs, of a loop and of one step, the one that a call wants."""
        loop, single = (tf.function(made, reduce_retracing=True) for made in (some, one))
        self.graphs += [loop, single]

        def call(batches: Any) -> dict[str, tf.Tensor]:
            alone = self.unlooped and self.steps_per_call == 1
            return (single if alone else loop)(batches)

        return call

    def train_step(self, batch: Any, begun: tf.Tensor) -> None:
        """One step of the optimizer on this worker's share of a global batch.

        Args:
            batch: See the class.
            begun: When it was asked for, in seconds.
        """
        batch, came = read_clock_after(batch)
        angles, labels, weights, count = batch
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            sums = self._measure(angles, labels, weights, training=True)
            loss = tf.cast(sums[0], tf.float32) / count
            if self.model.losses:  # regularisers, the same in every worker: each adds its part
                loss += tf.add_n(self.model.losses) / _replicas()
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        last = tf.cast(self._exchange.read_value()[0], tf.float32) * _mine()
        parts = [tf.convert_to_tensor(part) for part in [*gradients, loss, sums, last]]
        (packed,), simulated = read_clock_after(
            [tf.concat([tf.reshape(part, [-1]) for part in parts], 0)]
        )
        (packed,), exchanged = read_clock_after([allreduce.all_reduce_sum(packed)])
        *gradients, loss, sums, last = _unpacked(packed, parts)
        self._trace.assign(
            tf.tensor_scatter_nd_update(
                self._trace.read_value(), [[self._steps.read_value() % TRACE]], [loss]
            )
        )
        self._steps.assign_add(1)
        self.optimizer.apply_gradients(
            zip(gradients, variables, strict=True), skip_gradients_aggregation=True
        )
        self._sums.assign_add(tf.cast(sums, tf.float64))
        self._times.assign_add([simulated - came, exchanged - simulated, came - begun])
        without = self._exchange.read_value()[1] + tf.cast(tf.reduce_min(last), tf.float64)
        self._exchange.assign([exchanged - simulated, without])

    def measure(self, batches: Iterator[Any], steps: int) -> dict[str, float]:
        """Mean squared error and accuracy of the sign over the next `steps` batches.

        What Keras's `evaluate` does, but on an iterator that lives on, and with one exchange a call
        instead of one a step. The sums of the epoch in hand are lost to it.
        """
        agreed = self.steps_per_call  # by the workers; a step back and forth takes longer
        pace = 1 if self.unlooped else agreed
        self.sums = np.zeros(len(SUMS))
        for done in range(0, steps, pace):
            self.steps_per_call = min(pace, steps - done)
            numbers = self.test_function(batches)
        self.steps_per_call = agreed
        return {name: float(number) for name, number in numbers.items()}

    def make_test_function(self, force: bool = False) -> Call:
        """What one host call of `measure` does: `steps_per_call` batches, then one exchange."""
        if self.test_function is None or force:

            def batch_sums(batches: Any) -> tf.Tensor:
                return self._gang.run(self.test_step, args=(next(batches),))

            def added(sums: tf.Tensor) -> dict[str, tf.Tensor]:
                self._gang.run(self._add_all, args=(sums,))
                return self._numbers()

            def some_batches(batches: Any) -> dict[str, tf.Tensor]:
                sums = tf.zeros([len(SUMS)], tf.float64)
                for _ in tf.range(self._steps_per_execution):
                    sums += batch_sums(batches)
                return added(sums)

            self.test_function = self._function(
                some_batches, lambda batches: added(batch_sums(batches))
            )
        return self.test_function

    def test_step(self, batch: Any) -> tf.Tensor:
        """float64 [3]: SUMS of this worker's share of a global batch."""
        angles, labels, weights, _ = batch
        return tf.cast(self._measure(angles, labels, weights, training=False), tf.float64)

    def _add_all(self, sums: tf.Tensor) -> None:
        """Add all workers' sums to the epoch's."""
        # the exchange wants a tensor that lies on the replica's own device
        self._sums.assign_add(allreduce.all_reduce_sum(tf.identity(sums)))

    def _measure(
        self, angles: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, *, training: bool
    ) -> tf.Tensor:
        answers = tf.reshape(self.model(angles, training=training), [-1])
        # The sign of an answer is its class; 0 counts as +1.
        right = tf.cast((answers >= 0) == (labels >= 0), tf.float32)
        rows = tf.stack([tf.square(answers - labels), right, tf.ones_like(labels)])
        return tf.reduce_sum(rows * (weights / self._members), axis=1)

    def _numbers(self) -> dict[str, tf.Tensor]:
        total = self._sums.read_value()
        return {"mse": total[0] / total[2], "accuracy": total[1] / total[2], "examples": total[2]}


def _replicas() -> float:
    return float(tf.distribute.get_strategy().num_replicas_in_sync)


def _mine() -> tf.Tensor:
    """float32 [workers]: 1 at this worker's place, else 0."""
    context = tf.distribute.get_replica_context()
    return tf.one_hot(context.replica_id_in_sync_group, context.num_replicas_in_sync)


def _unpacked(packed: tf.Tensor, like: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The vector's parts in the shapes of the tensors that were packed into it."""
    parts = tf.split(packed, [tensor.shape.num_elements() for tensor in like])
    return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, like, strict=True)]
