"""A Keras model that wraps the trained model: one all-reduce between workers per step.

Keras would all-reduce the gradients, and then the two sums of each metric one by one, at 0.6 ms or
more each. Here, all of it is one vector that is summed once. The loss equals that of one
worker: sum(weight * error) over the rows of the whole global batch, divided by their number. So the
loss curve does not depend on the number of workers.

With micro-batches, the sums are exact integers. Then even the rounding does not depend on it.

A step is timed inside the graph, using clocks that its parts wait for. So the times are also right
where one host call takes many steps.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from qfleet.tensorflow.runtime import keras, tf
from training.step import allreduce, fixed_point, step_vector
from training.step.graph_timer import read_clock, read_clock_after
from training.step.local_part import local_part, local_variable
from training.step.losses import Measures
from training.step.micro_batches import MicroBatches
from training.step.objective import Batch, Objective
from training.step.pruning import Pruning
from training.step.replica_check import ReplicaCheck
from training.step.times import StepTimes
from training.step.tracing import needs_autograph

MAX_TRACED_STEPS = 1024
"""Steps whose losses are kept."""

Tensors = tuple[tf.Tensor, ...]

LimitedCall = Callable[[str], AbstractContextManager[object]]

HostCall = Callable[[Iterator[Batch]], dict[str, tf.Tensor]]
"""One call into TensorFlow: takes an iterator of batches and returns metrics."""


class Learner(keras.Model):
    """Trains `model` on batches (angles, labels, weights, count) using the loss of `measures`.

    A batch is this worker's share of a global batch:
        angles  float32 [rows, features]   radians
        labels  float32 [rows]             see `Target`
        weights float32 [rows]             1, or 0 for padding
        count   float32 []                 rows of the global batch without padding

    With micro-batches, the first three have the number of a micro-batch as their first axis.

    Args:
        model: The model to train.
        measures: The loss, and what else is summed over rows.
        state_shards: Workers that share the states of circuits with this one, itself included. They
            have the same rows, so each counts a row as 1 / state_shards.
        micro_batches: Those of a global batch; None if sums may depend on the number of workers.
        limited_call: Returns the context of a call into TensorFlow, for the name of a stage.

    Attributes:
        single_step_calls: Trace a graph without a loop for calls of one step. In a profile,
            TensorBoard takes the iterations of a loop for steps.
        measures: The loss and the metrics.
        epoch_step_offset: Steps of the current epoch that were done before this call of `fit`.
        times: Times of the parts of a step since `fit` began this epoch.
        replicas: Comparison of the replicas, and steps that were not finite.
        pruning: What drops angles while training; None with PRUNE=0.
        circuits_version: Number of calls of `retrace`.
        graphs: Graphs of training and measuring, each with and without a loop.
    """

    train_function: HostCall | None
    test_function: HostCall | None
    _steps_per_execution: tf.Variable

    def __init__(
        self,
        model: keras.Model,
        measures: Measures,
        state_shards: int = 1,
        micro_batches: MicroBatches | None = None,
        limited_call: LimitedCall = nullcontext,
    ) -> None:
        super().__init__(name="learner")
        self.model = model
        self.measures = measures
        self._objective = Objective(model, measures, state_shards, micro_batches)
        self._strategy = tf.distribute.get_strategy()
        # A step returns equal numbers on every worker; Keras would all-reduce them.
        self.distribute_reduction_method = "first"
        self.single_step_calls = False
        self.graphs: list[tf.types.experimental.PolymorphicFunction] = []
        self.epoch_step_offset = 0
        self._limited_call = limited_call
        self.pruning: Pruning | None = None
        self.circuits_version = 0
        self._sums = local_variable(tf.zeros([self.measures.sums], tf.float64), "sums")
        self._trace = local_variable(tf.zeros([MAX_TRACED_STEPS]), "trace")
        self._steps = local_variable(tf.zeros([], tf.int64), "steps")
        length = fixed_point.encoded_length(self.measures.sums)
        self._measured = local_variable(tf.zeros([length], tf.int64), "measured")
        self.times = StepTimes(local_variable)
        self.replicas = ReplicaCheck(local_variable, self._strategy.num_replicas_in_sync)

    @property
    def distribute_strategy(self) -> tf.distribute.Strategy:
        """The strategy that Keras distributes data with: none, as each worker reads its own share.

        The workers' strategy would use a multi-device iterator, which costs 0.2 ms per step.
        """
        return tf.distribute.get_strategy()

    def compile(self, *args: object, **fields: object) -> None:
        """Compile the model, as Keras does."""
        super().compile(*args, **fields)
        self._steps_per_execution = local_part(self._steps_per_execution)

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
    def metrics(self) -> list[keras.metrics.Metric]:
        """Metrics of Keras: none, see `sums`."""
        return []

    def reset_metrics(self) -> None:
        """Reset the sums of an epoch, as Keras does; a resumed epoch keeps them."""
        if not self.epoch_step_offset:
            self.sums = np.zeros(self.measures.sums)
        self.times.reset()

    @property
    def sums(self) -> np.ndarray:
        """float64 [sums]: the sums of `measures` since the beginning of the epoch."""
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

    def losses_since(self, first: int) -> np.ndarray:
        """Return the losses of the steps from `first` on, counted from 0.

        At most those of the newest MAX_TRACED_STEPS steps are returned.
        """
        steps = np.arange(first, self.steps)
        return self._trace.numpy()[steps[-MAX_TRACED_STEPS:] % MAX_TRACED_STEPS]

    def make_train_function(self, force: bool = False) -> HostCall:
        """Return a host call: `steps_per_call` steps on the batches of an iterator."""
        if self.train_function is None or force:

            def one_step(batches: Iterator[Batch]) -> None:
                requested = read_clock()
                with tf.control_dependencies([requested]):
                    batch = next(batches)
                self._strategy.run(self.train_step, args=(batch, requested))

            def some_steps(batches: Iterator[Batch]) -> dict[str, tf.Tensor]:
                def body(index: tf.Tensor) -> tuple[tf.Tensor]:
                    one_step(batches)
                    return (index + 1,)

                self._repeat(body)
                return compared()

            def single_step(batches: Iterator[Batch]) -> dict[str, tf.Tensor]:
                one_step(batches)
                return compared()

            def compared() -> dict[str, tf.Tensor]:
                self._strategy.run(self._compare)
                return self._epoch_metrics()

            self.train_function = self._function("a training call", some_steps, single_step)
        return self.train_function

    def retrace(self) -> None:
        """Trace new graphs at the next calls, since the circuits of the model have changed."""
        self.graphs.clear()
        self.circuits_version += 1
        self.make_train_function(force=True)
        self.make_test_function(force=True)

    def _repeat(self, body: Callable[..., Tensors], *state: tf.Tensor) -> Tensors:
        """Call body(index, *state) as often as a call has steps; return its last result."""
        steps = tf.convert_to_tensor(self._steps_per_execution)
        return tf.while_loop(lambda index, *_: index < steps, body, (tf.zeros_like(steps), *state))

    def _function(self, stage: str, loop: HostCall, single: HostCall) -> HostCall:
        """Return a limited call that chooses between the graphs of a loop and of one step."""
        autograph = needs_autograph(self.model)
        loop_graph, single_graph = (
            tf.function(function, reduce_retracing=True, autograph=autograph)
            for function in (loop, single)
        )
        self.graphs += [loop_graph, single_graph]

        def call(batches: Iterator[Batch]) -> dict[str, tf.Tensor]:
            is_single = self.single_step_calls and self.steps_per_call == 1
            with self._limited_call(stage):
                return (single_graph if is_single else loop_graph)(batches)

        return call

    def train_step(self, batch: Batch, requested: tf.Tensor) -> None:
        """Take one optimizer step on this worker's share of a global batch.

        Args:
            batch: See the class.
            requested: Time in seconds at which the batch was requested.
        """
        batch, received = read_clock_after(batch)
        parts = self._objective.parts
        numbers = self._objective.derive(batch, self._steps.read_value())
        last = self.times.last_all_reduce
        packed = self.replicas.pack(numbers, last, self.model, self.optimizer)
        (packed,), simulated = read_clock_after([packed])
        (packed,), reduced = read_clock_after([allreduce.all_reduce_sum(packed)])
        length = numbers.shape.num_elements()
        numbers, digests, durations = self.replicas.unpack(packed, length, last)
        numbers = step_vector.decoded(numbers)
        *gradients, loss, sums, moments = step_vector.unflatten(numbers, parts)
        self.replicas.check(self._steps.read_value(), digests, loss, numbers)
        self._trace.assign(
            tf.tensor_scatter_nd_update(
                self._trace.read_value(), [[self._steps.read_value() % MAX_TRACED_STEPS]], [loss]
            )
        )
        self._steps.assign_add(1)
        self.optimizer.apply_gradients(
            zip(gradients, self.model.trainable_variables, strict=True),
            skip_gradients_aggregation=True,
        )
        if self.pruning:
            self.pruning.shrink(self.optimizer.learning_rate)
        self._sums.assign_add(sums)
        self._objective.update(sums, moments)
        self.times.add(requested, received, simulated, reduced, durations)

    def _compare(self) -> None:
        self.replicas.compare(self._steps.read_value(), self.model, self.optimizer)

    def measure(self, batches: Iterator[Batch], steps: int) -> dict[str, float]:
        """Return the metrics of `measures` over the next `steps` batches.

        Like Keras' `evaluate`, but on a persistent iterator, and with one all-reduce per call
        instead of one per step. The sums of the current epoch are lost.
        """
        call = self.make_test_function()
        agreed = self.steps_per_call  # equal on all workers
        self._measured.assign(np.zeros(self._measured.shape, np.int64))
        pace = 1 if self.single_step_calls else agreed
        self.sums = np.zeros(self.measures.sums)
        for done in range(0, steps, pace):
            self.steps_per_call = min(pace, steps - done)
            metrics = call(batches)
        self.steps_per_call = agreed
        return {name: float(metrics[name]) for name in (*self.measures.metrics, "examples")}

    def make_test_function(self, force: bool = False) -> HostCall:
        """Return a host call of `measure`: `steps_per_call` batches, then one all-reduce."""
        if self.test_function is None or force:

            def batch_sums(batches: Iterator[Batch]) -> tf.Tensor:
                return self._strategy.run(self.test_step, args=(next(batches),))

            def add_all(sums: tf.Tensor) -> dict[str, tf.Tensor]:
                self._strategy.run(self._add_all, args=(sums,))
                return self._epoch_metrics()

            def some_batches(batches: Iterator[Batch]) -> dict[str, tf.Tensor]:
                def body(index: tf.Tensor, sums: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                    return index + 1, fixed_point.carry(sums + batch_sums(batches))

                zero = tf.zeros([fixed_point.encoded_length(self.measures.sums)], tf.int64)
                _, sums = self._repeat(body, zero)
                return add_all(sums)

            self.test_function = self._function(
                "an evaluation call", some_batches, lambda batches: add_all(batch_sums(batches))
            )
        return self.test_function

    def test_step(self, batch: Batch) -> tf.Tensor:
        """Return the sums of this worker's share of a global batch, encoded by `fixed_point`."""
        return self._objective.sums(batch)

    def _add_all(self, sums: tf.Tensor) -> None:
        """Add the sums of all workers to those that were measured before."""
        # The all-reduce needs a tensor on the replica's own device.
        added = self._measured.read_value() + allreduce.all_reduce_sum(tf.identity(sums))
        self._measured.assign(fixed_point.carry(added))
        self._sums.assign(fixed_point.decode(self._measured.read_value()))

    def _epoch_metrics(self) -> dict[str, tf.Tensor]:
        total = self._sums.read_value()
        return self.measures.results(total)
