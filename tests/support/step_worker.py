"""A worker that takes training steps under the strategy of training, and prints measurements.

TF_CONFIG=... python -m tests.support.step_worker
"""

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from common.data import Examples, WorkerSampler, partition_sizes
from common.data.target import SIGNS
from common.settings import Settings
from qfleet.tensorflow.runtime import keras, tf
from training.callbacks.steps_per_call import StepsPerCallTuner
from training.cluster.spec import ClusterSpec
from training.group.secret import GivenSecret
from training.step import distributed, learner_factory
from training.step.allreduce import all_reduce_scalar, all_reduce_sum, use_connections
from training.step.constants import MAX_ONE_HOP_BYTES
from training.step.input_pipeline import batches
from training.step.learner import Learner
from training.step.losses import measures_of

ROWS, STEPS, PAUSE = 440, 7, 0.05


class CallRecorder(keras.callbacks.Callback):
    """Records the steps of each host call, and the duration of each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[list[int]] = []
        self.seconds: list[float] = []
        self.times: list[list[float]] = []
        self.waits: list[float] = []
        self.examples: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.steps.append([])
        self._began = time.perf_counter()

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        self._before = self.model.steps

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self.steps[-1].append(self.model.steps - self._before)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.times.append(self.model.times.seconds.tolist())
        self.waits.append(self.model.times.straggler_wait_seconds)
        self.seconds.append(time.perf_counter() - self._began)
        self.examples.append(float(logs["examples"]) if logs else 0.0)

    @property
    def results(self) -> dict[str, Any]:
        """By epoch."""
        names = ("steps", "seconds", "times", "waits", "examples")
        return {name: getattr(self, name) for name in names}


class Slow(keras.layers.Layer):
    """Passes on its input after a delay."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return delay(self._seconds, inputs)


def delay(seconds: float, tensor: tf.Tensor) -> tf.Tensor:
    """Return the tensor after a delay."""

    def wait(values: np.ndarray) -> np.ndarray:
        time.sleep(seconds)
        return values

    return tf.ensure_shape(tf.numpy_function(wait, [tensor], tensor.dtype), tensor.shape)


def all_reduced(strategy: tf.distribute.Strategy, rank: int) -> Iterator[dict[str, Any]]:
    """Sum small and large vectors, two of equal size in bytes, each twice in a loop of a call."""
    for length, kind in ((1, "f8"), (3, "f8"), (6, "f4"), (63, "f4"), (MAX_ONE_HOP_BYTES, "f4")):
        own_vector = np.random.default_rng(rank).normal(size=length).astype(kind)

        @tf.function
        def twice(own: tf.Tensor) -> tf.Tensor:
            for _ in tf.range(2):
                own = strategy.run(lambda own: all_reduce_sum(tf.identity(own)), args=(own,))
            return own

        both = sum(np.random.default_rng(r).normal(size=length).astype(kind) for r in (0, 1))
        found = twice(tf.constant(own_vector)).numpy()
        yield {"correct": bool(np.allclose(found, 2 * both, 1e-5)), "bits": hash(found.tobytes())}


def trained(strategy: tf.distribute.Strategy, cluster: ClusterSpec) -> dict[str, Any]:
    """Train epochs of a model of 8 qubits, and then one that is resumed in its middle."""
    settings = Settings.from_values(qubits=8, batch=64, workers=2)
    angles = np.random.default_rng(0).uniform(-np.pi, np.pi, (ROWS, 8)).astype("f4")
    examples = Examples(angles, np.sign(angles[:, 0]))
    data: Any = SimpleNamespace(features=8, placement="cluster", target=SIGNS, class_counts={})
    learner = learner_factory.build_learner(strategy, cluster, data, settings)
    sampler = WorkerSampler(
        partition_sizes(ROWS, 64), rank=cluster.rank, world_size=2, batch=64, seed=0
    )
    recorder = CallRecorder()

    def fit(epoch: int, step: int, end: int) -> None:
        learner.epoch_step_offset = step
        learner.fit(
            batches(examples, sampler, epoch=epoch, step=step),
            initial_epoch=epoch,
            epochs=end,
            steps_per_epoch=STEPS - step,
            callbacks=[recorder, StepsPerCallTuner(strategy, steps=3, single=range(16, 18))],
            verbose=0,
        )

    fit(0, 0, 4)
    learner.sums = learner.sums * 5 / STEPS  # as if the epoch had stopped after its fifth step
    fit(3, 5, 4)
    feed = iter(batches(examples, sampler))
    measured = [learner.measure(feed, STEPS) for _ in range(2)]
    traces = [graph.experimental_get_tracing_count() for graph in learner.graphs]
    graph = learner.graphs[0].get_concrete_function(feed).graph.as_graph_def()
    nodes = [*graph.node, *(node for body in graph.library.function for node in body.node_def)]
    return {
        **recorder.results,
        "traces": traces,
        "collectives": [n.op for n in nodes if n.op.startswith(("Collective", "QfleetAllReduce"))],
        "measured": measured,
    }


def slowed(
    strategy: tf.distribute.Strategy, *, simulate: float = 0.0, feed: float = 0.0
) -> dict[str, Any]:
    """Train two epochs with steps that simulate longer, or that wait for a batch, in seconds."""
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), Slow(simulate), keras.layers.Dense(1)])
        learner = Learner(model, measures_of(SIGNS))
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
        learner.compile(optimizer, steps_per_execution=2)
    row = (tf.ones([4, 2]), tf.ones([4]), tf.ones([4]), tf.constant(8.0))
    data = tf.data.Dataset.from_tensors(row).repeat()
    if feed:
        data = data.map(lambda angles, *rest: (delay(feed, angles), *rest))
    recorder = CallRecorder()
    learner.fit(
        data,
        epochs=2,
        steps_per_epoch=STEPS,
        callbacks=[recorder, StepsPerCallTuner(strategy, steps=STEPS)],
        verbose=0,
    )
    return recorder.results


def main() -> None:
    """Print all results as one line of JSON."""
    cluster = ClusterSpec.from_environment(2)
    settings = Settings.from_values(workers=2, threads=1)
    secret = GivenSecret.from_environment().read()
    strategy = distributed.create_strategy(settings, cluster, secret=secret)
    results = {
        "all_reduced": list(all_reduced(strategy, cluster.rank)),
        "trained": trained(strategy, cluster),
        "one simulates longer": slowed(strategy, simulate=cluster.rank * PAUSE),
        "one waits for input": slowed(strategy, feed=cluster.rank * PAUSE),
    }
    use_connections(None)
    results["all_reduced by TensorFlow"] = list(all_reduced(strategy, cluster.rank))
    all_reduce_scalar(strategy, 0.0)
    print("RESULT", json.dumps(results), flush=True)


if __name__ == "__main__":
    main()
