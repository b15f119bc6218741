"""A worker that takes training steps and says how they went, under the strategy of training.

TF_CONFIG=... python -m tests.support.step_worker
"""

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from common.data import Examples, WorkerSampler
from common.data.sampling import partition_sizes
from common.settings import Settings
from qfleet.tensorflow.runtime import keras, tf
from training import distributed
from training.allreduce import all_reduce_sum, use_connections
from training.cluster import ClusterSpec
from training.input_pipeline import batches
from training.learner import Learner
from training.limits import MAX_ONE_HOP_BYTES
from training.trainer import StepsPerCallTuner

ROWS, STEPS, PAUSE = 440, 7, 0.05


class Calls(keras.callbacks.Callback):
    """What each host call held, and how long each epoch took."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[list[int]] = []
        self.seconds: list[float] = []
        self.times: list[list[float]] = []
        self.waited: list[float] = []
        self.examples: list[float] = []

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.steps.append([])
        self._began = time.perf_counter()

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        self._before = self.model.steps

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self.steps[-1].append(self.model.steps - self._before)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        self.times.append(self.model.times.tolist())
        self.waited.append(self.model.waited)
        self.seconds.append(time.perf_counter() - self._began)
        self.examples.append(float(logs["examples"]) if logs else 0.0)

    @property
    def said(self) -> dict[str, Any]:
        """By epoch."""
        names = ("steps", "seconds", "times", "waited", "examples")
        return {name: getattr(self, name) for name in names}


class Slow(keras.layers.Layer):
    """Hands on what it gets after a while."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return after(self._seconds, inputs)


def after(seconds: float, tensor: tf.Tensor) -> tf.Tensor:
    """The tensor, `seconds` later."""

    def wait(values: np.ndarray) -> np.ndarray:
        time.sleep(seconds)
        return values

    return tf.ensure_shape(tf.numpy_function(wait, [tensor], tensor.dtype), tensor.shape)


def exchanged(strategy: tf.distribute.Strategy, rank: int) -> Iterator[dict[str, Any]]:
    """Sums of small and large vectors, two of as many bytes, each twice in a loop of one call."""
    for length, kind in ((1, "f8"), (3, "f8"), (6, "f4"), (63, "f4"), (MAX_ONE_HOP_BYTES, "f4")):
        mine = np.random.default_rng(rank).normal(size=length).astype(kind)

        @tf.function
        def twice(own: tf.Tensor) -> tf.Tensor:
            for _ in tf.range(2):
                own = strategy.run(lambda own: all_reduce_sum(tf.identity(own)), args=(own,))
            return own

        both = sum(np.random.default_rng(r).normal(size=length).astype(kind) for r in (0, 1))
        found = twice(tf.constant(mine)).numpy()
        yield {"right": bool(np.allclose(found, 2 * both, 1e-5)), "bits": hash(found.tobytes())}


def trained(strategy: tf.distribute.Strategy, cluster: ClusterSpec) -> dict[str, Any]:
    """Epochs of a model of 8 qubits, then one that is taken up in its middle."""
    settings = Settings(qubits=8, batch=64, workers=2)
    angles = np.random.default_rng(0).uniform(-np.pi, np.pi, (ROWS, 8)).astype("f4")
    examples = Examples(angles, np.sign(angles[:, 0]))
    data: Any = SimpleNamespace(features=8, placement="cluster")
    learner = distributed.build_learner(strategy, cluster, data, settings)
    share = WorkerSampler(partition_sizes(ROWS, 64), rank=cluster.rank, world=2, batch=64, seed=0)
    calls = Calls()

    def fit(epoch: int, step: int, until: int) -> None:
        learner.offset = step
        learner.fit(
            batches(examples, share, epoch=epoch, step=step),
            initial_epoch=epoch,
            epochs=until,
            steps_per_epoch=STEPS - step,
            callbacks=[calls, StepsPerCallTuner(strategy, steps=3, single=range(16, 18))],
            verbose=0,
        )

    fit(0, 0, 4)
    learner.sums = learner.sums * 5 / STEPS  # as if the epoch had been left behind its fifth step
    fit(3, 5, 4)
    feed = iter(batches(examples, share))
    measured = [learner.measure(feed, STEPS) for _ in range(2)]
    traces = [graph.experimental_get_tracing_count() for graph in learner.graphs]
    graph = learner.graphs[0].get_concrete_function(feed).graph.as_graph_def()
    nodes = [*graph.node, *(node for body in graph.library.function for node in body.node_def)]
    return {
        **calls.said,
        "traces": traces,
        "collectives": [n.op for n in nodes if n.op.startswith(("Collective", "QfleetExchange"))],
        "measured": measured,
    }


def slowed(
    strategy: tf.distribute.Strategy, *, simulate: float = 0.0, feed: float = 0.0
) -> dict[str, Any]:
    """Two epochs of steps that simulate so many seconds longer, or wait so long for a batch."""
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), Slow(simulate), keras.layers.Dense(1)])
        learner = Learner(model)
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)
        learner.compile(optimizer, steps_per_execution=2)
    row = (tf.ones([4, 2]), tf.ones([4]), tf.ones([4]), tf.constant(8.0))
    data = tf.data.Dataset.from_tensors(row).repeat()
    if feed:
        data = data.map(lambda angles, *rest: (after(feed, angles), *rest))
    calls = Calls()
    learner.fit(
        data,
        epochs=2,
        steps_per_epoch=STEPS,
        callbacks=[calls, StepsPerCallTuner(strategy, steps=STEPS)],
        verbose=0,
    )
    return calls.said


def main() -> None:
    """Say it all in one line of JSON."""
    cluster = ClusterSpec.from_environment(2)
    strategy = distributed.create_strategy(Settings(workers=2, threads=1), cluster)
    said = {
        "exchanged": list(exchanged(strategy, cluster.rank)),
        "trained": trained(strategy, cluster),
        "one simulates longer": slowed(strategy, simulate=cluster.rank * PAUSE),
        "one waits for input": slowed(strategy, feed=cluster.rank * PAUSE),
    }
    use_connections(None)
    said["exchanged by TensorFlow"] = list(exchanged(strategy, cluster.rank))
    distributed.all_reduce_scalar(strategy, 0.0)
    print("SAID", json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
