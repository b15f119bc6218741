"""A Keras model around the model that is trained: one exchange between workers a step.

Keras alone would exchange gradients, and then each metric's two sums one by one, at 0.6 ms or more
an exchange. Here all of it is one vector, summed once. And the loss is what it would be on one
worker: sum(weight * error) over the rows of the whole global batch, divided by how many they are,
so that the loss curve does not depend on the number of workers.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from common.tensorflow import keras, tf

# What is summed over the rows of a batch besides the gradients.
SUMS = ("squared error", "signs right", "rows")
TRACE = 1024
# The most steps in one call into TensorFlow.
MOST_STEPS = 50


class Learner(keras.Model):
    """Trains `model` on batches (angles, labels, weights, count) by mean squared error.

    A batch is this worker's share of a global one:
        angles  float32 [rows, features]   radians
        labels  float32 [rows]             -1 or 1
        weights float32 [rows]             1, or 0 for a row that only pads
        count   float32 []                 rows of the global batch, padding left out
    """

    def __init__(self, model: keras.Model) -> None:
        super().__init__(name="learner")
        self.model = model
        # What a step returns is the same in every worker; Keras would exchange and add it.
        self.distribute_reduction_method = "first"
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

    def losses_since(self, first: int) -> np.ndarray:
        """The loss of each step from `first` (counted from 0) on; of the newest TRACE at most."""
        steps = np.arange(first, self.steps)
        return self._trace.numpy()[steps[-TRACE:] % TRACE]

    def train_step(self, batch: Any) -> dict[str, tf.Tensor]:
        """One step of the optimizer on this worker's share of a global batch."""
        angles, labels, weights, count = batch
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            sums = self._measure(angles, labels, weights, training=True)
            loss = tf.cast(sums[0], tf.float32) / count
            if self.model.losses:  # regularisers, the same in every worker: each adds its part
                loss += tf.add_n(self.model.losses) / _replicas()
        gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        *gradients, loss, sums = _sum_over_workers([*gradients, loss, sums])
        self._trace.assign(
            tf.tensor_scatter_nd_update(
                self._trace.read_value(), [[self._steps.read_value() % TRACE]], [loss]
            )
        )
        self._steps.assign_add(1)
        self.optimizer.apply_gradients(
            zip(gradients, variables, strict=True), skip_gradients_aggregation=True
        )
        return self._add(sums)

    def measure(self, batches: Iterator[Any], steps: int) -> dict[str, float]:
        """Mean squared error and accuracy of the sign over the next `steps` batches.

        What Keras's `evaluate` does, but on an iterator that lives on: to make one costs the
        strategy 0.1 s, more than a small epoch. The sums of the epoch in hand are lost to it.
        """
        pace = self.steps_per_call  # what the workers agreed on; a step back and forth takes longer
        self.sums = np.zeros(len(SUMS))
        for done in range(0, steps, pace):
            self.steps_per_call = min(pace, steps - done)
            numbers = self.test_function(batches)
        self.steps_per_call = pace
        return {name: float(number) for name, number in numbers.items()}

    def test_step(self, batch: Any) -> dict[str, tf.Tensor]:
        """Measure this worker's share of a global batch."""
        angles, labels, weights, _ = batch
        (sums,) = _sum_over_workers([self._measure(angles, labels, weights, training=False)])
        return self._add(sums)

    def _measure(
        self, angles: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, *, training: bool
    ) -> tf.Tensor:
        answers = tf.reshape(self.model(angles, training=training), [-1])
        # The sign of an answer is its class; 0 counts as +1.
        right = tf.cast((answers >= 0) == (labels >= 0), tf.float32)
        rows = tf.stack([tf.square(answers - labels), right, tf.ones_like(labels)])
        return tf.reduce_sum(rows * weights, axis=1)

    def _add(self, sums: tf.Tensor) -> dict[str, tf.Tensor]:
        total = self._sums.assign_add(tf.cast(sums, tf.float64), read_value=True)
        total = tf.convert_to_tensor(total)
        return {"mse": total[0] / total[2], "accuracy": total[1] / total[2], "examples": total[2]}


def _replicas() -> float:
    return float(tf.distribute.get_strategy().num_replicas_in_sync)


def _sum_over_workers(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """The float32 tensors summed over all workers, packed into one exchange."""
    if _replicas() == 1:
        return tensors
    flat = tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
    flat = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, flat)
    parts = tf.split(flat, [tensor.shape.num_elements() for tensor in tensors])
    return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
