"""`qfleet` and `tfq`: Keras models, timed as Keras trains them.

python -m benchmarks.run_keras qfleet|tfq
"""

import sys
import time
import warnings
from typing import Any

import cirq
import numpy as np

from benchmarks.circuit_models import BenchmarkModel, DrawnInputs, draw, model
from benchmarks.subprocess_protocol import Channel, Message, peak_gib, versions
from qfleet.tensorflow.layers import Expectation
from qfleet.tensorflow.runtime import keras, tf

STEPS_PER_EXECUTION = 50
EXECUTIONS = 4  # in an epoch, where a step is short
EPOCH_S = 0.4  # how long an epoch should take; a step that is longer is an epoch
BATCHES = 4  # different ones; an epoch goes through them again and again
EXAMPLES = 1_000  # in a whole epoch
CHECKED = 2  # examples whose readouts are compared


class KerasSystem:
    """One of the two systems; it keeps the model that it was asked for last."""

    def __init__(self, system: str, talk: Channel) -> None:
        self._system = system
        self._talk = talk
        self._cell: Message = {}
        if system == "tfq":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # its own imports warn of its dependencies
                import tensorflow_quantum as tfq
            self._tfq = tfq

    def answer(self, request: Message) -> None:
        """Time a cell, one round a message."""
        cell = request["cell"]
        if cell != self._cell:
            self._cell = {}
            self._make(cell)
            self._cell = cell
        if request["task"] == "train":
            self._train(cell["batch"], request["rounds"])
        elif request["task"] == "epoch":
            self._epoch(cell["batch"])
        else:
            self._forward(cell["batch"], request["rounds"])

    def _make(self, cell: Message) -> None:
        """The Keras model, with the weights that all systems start from, and its data."""
        keras.backend.clear_session()
        of = model(cell["model"], cell["qubits"])
        drawn = draw(of, BATCHES * cell["batch"], cell["turned"])
        self._begun = time.perf_counter()
        if self._system == "qfleet":
            inputs = keras.Input((len(of.inputs),))
            layer = Expectation(
                of.circuit, of.inputs, of.observables, parameters=of.parameters, seed=0
            )
            self._inputs = tf.constant(drawn.angles)
            self._way = layer.describe().partition(":")[0]  # as in "native, float32"
        else:
            inputs = keras.Input((), dtype=tf.string)
            layer = self._tfq.layers.PQC(
                of.ansatz, of.observables, differentiator=self._tfq.differentiators.Adjoint()
            )
            self._inputs = self._tfq.convert_to_tensor(_bound(of, drawn))
            self._way = "PQC, Adjoint"
        self._labels = tf.constant(drawn.labels)
        readouts = layer(inputs)
        layer.set_weights([self._ordered(layer, of, drawn)])
        outputs = readouts
        for width, weights in zip(of.head, drawn.dense, strict=True):
            last = width == of.head[-1]
            dense = keras.layers.Dense(width, "linear" if last else "tanh")
            outputs = dense(outputs)
            dense.set_weights(weights)
        self._model = keras.Model(inputs, outputs)
        self._reads = keras.Model(inputs, readouts)
        self._first_weights = self._model.get_weights()

    def _readouts(self) -> list[list[float]]:
        """The readouts [CHECKED, K] of the first examples, with the first weights."""
        self._model.set_weights(self._first_weights)
        return self._reads(self._inputs[:CHECKED]).numpy().tolist()

    def _ordered(self, layer: Any, of: BenchmarkModel, drawn: DrawnInputs) -> np.ndarray:
        """The parameters in the order of the layer's weight."""
        if self._system == "qfleet":
            return drawn.parameters
        values = dict(zip(of.parameters, drawn.parameters, strict=True))
        return np.array([values[str(symbol)] for symbol in layer.symbols], np.float32)

    def _data(self, batches: int, batch: int) -> tuple[tf.Tensor, tf.Tensor]:
        times = -(-batches // BATCHES)
        examples = batches * batch

        def repeated(tensor: tf.Tensor) -> tf.Tensor:
            return tf.tile(tensor, [times] + [1] * (tensor.shape.rank - 1))[:examples]

        return repeated(self._inputs), repeated(self._labels)

    def _train(self, batch: int, rounds: int) -> None:
        """`fit`, whose second and later epochs are the rounds."""
        first = _Steps()
        self._compile(1)
        self._model.fit(*self._data(2, batch), batch, verbose=0, callbacks=[first])
        step = first.ended[1] - first.ended[0]
        steps = max(1, min(STEPS_PER_EXECUTION, int(EPOCH_S / step)))
        if steps > 1:
            self._compile(steps)
        batches = steps * (EXECUTIONS if steps == STEPS_PER_EXECUTION else 1)
        ready = {
            "values": self._readouts(),
            "way": self._way,
            "first_step_s": first.ended[0] - self._begun,
            "steps_per_execution": steps,
        }
        turns = _Turns(batch, self._talk, ready, rounds)
        data = self._data(batches, batch)
        self._model.fit(*data, batch, epochs=1 + rounds, verbose=0, callbacks=[turns])

    def _epoch(self, batch: int) -> None:
        """One epoch of EXAMPLES, from the model's making to its end."""
        self._compile(1)
        self._talk.say({"values": self._readouts(), "way": self._way, "examples": EXAMPLES})
        self._talk.hear()
        inputs, labels = self._data(-(-EXAMPLES // batch), batch)
        begun = time.perf_counter()
        self._model.fit(inputs[:EXAMPLES], labels[:EXAMPLES], batch, verbose=0)
        seconds = time.perf_counter() - begun
        self._talk.say({"ms": seconds * 1e3 / EXAMPLES, "peak_gib": peak_gib()})

    def _compile(self, steps: int) -> None:
        self._model.compile(keras.optimizers.Adam(0.01), "mse", steps_per_execution=steps)

    def _forward(self, batch: int, rounds: int) -> None:
        """The model in a graph, batch after batch; a round is several of them."""
        examples = self._data(BATCHES, batch)[0]

        @tf.function
        def run(batches: tf.Tensor) -> tf.Tensor:
            answers = tf.TensorArray(tf.float32, batches)
            for at in tf.range(batches):
                # One after the other, as a data set gives them.
                tf.autograph.experimental.set_loop_options(parallel_iterations=1)
                first = at % BATCHES * batch
                answers = answers.write(at, self._model(examples[first : first + batch]))
            return answers.stack()

        def seconds(batches: int) -> float:
            begun = time.perf_counter()
            run(tf.constant(batches)).numpy()
            return time.perf_counter() - begun

        seconds(1)  # builds the graph
        most = STEPS_PER_EXECUTION * EXECUTIONS
        batches = max(1, min(most, int(EPOCH_S / seconds(1))))
        ready = {"values": self._readouts(), "way": self._way, "steps_per_execution": batches}
        self._talk.say(ready)
        for _ in range(rounds):
            self._talk.hear()
            self._talk.say(
                {"ms": seconds(batches) * 1e3 / (batches * batch), "peak_gib": peak_gib()}
            )


class _Steps(keras.callbacks.Callback):
    """Notes when each step ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.ended.append(time.perf_counter())


class _Turns(keras.callbacks.Callback):
    """Says that it is ready after the first epoch; times each later one, when its turn has come."""

    def __init__(self, batch: int, talk: Channel, ready: Message, rounds: int) -> None:
        super().__init__()
        self._batch, self._talk, self._ready, self._rounds = batch, talk, ready, rounds

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._begun = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        ms = (time.perf_counter() - self._begun) * 1e3 / (self._batch * self.params["steps"])
        self._talk.say({"ms": ms, "peak_gib": peak_gib()} if epoch else self._ready)
        if epoch < self._rounds:
            self._talk.hear()


def _bound(of: BenchmarkModel, drawn: DrawnInputs) -> list[cirq.Circuit]:
    """The data circuit of each example, as TensorFlow Quantum takes them."""
    return [
        cirq.resolve_parameters(of.data, dict(zip(of.inputs, map(float, row), strict=True)))
        for row in drawn.angles
    ]


if __name__ == "__main__":
    talk = Channel()
    side = KerasSystem(sys.argv[1], talk)
    packages = {
        "qfleet": ["tensorflow", "tf_keras", "numpy"],
        "tfq": ["tensorflow-quantum", "cirq-core"],
    }
    talk.serve({"versions": versions(packages[sys.argv[1]])}, side.answer)
