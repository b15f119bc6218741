"""The systems `qfleet` and `tfq`: Keras models, timed in Keras `fit`.

python -m benchmarks.run_keras qfleet|tfq
"""

import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict

import cirq
import numpy as np

from benchmarks.circuit_models import BenchmarkModel, RandomInputs, model, random_inputs
from benchmarks.roofline import tile_bytes
from benchmarks.subprocess_protocol import (
    COMPARED_EXAMPLES,
    Channel,
    Message,
    peak_gib,
    reset_peak,
    versions,
)
from qfleet.compiler.state.cost import pass_costs
from qfleet.tensorflow.layers import Expectation
from qfleet.tensorflow.native import NativeSimulator
from qfleet.tensorflow.runtime import keras, tf

STEPS_PER_EXECUTION = 50
EXECUTIONS = 4  # per epoch, if steps are short
EPOCH_SECONDS = 0.4  # intended time of an epoch; a longer step is an epoch by itself
BATCHES = 4  # distinct batches, which an epoch repeats
EXAMPLES = 1_000  # of a whole epoch


class KerasSystem:
    """One of the two systems. It keeps the model of the last case.

    Args:
        system: `qfleet` or `tfq`.
        channel: The connection.
    """

    def __init__(self, system: str, channel: Channel) -> None:
        self._system = system
        self._channel = channel
        self._case: Message = {}
        if system == "tfq":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # its imports warn about its dependencies
                import tensorflow_quantum as tfq
            self._tfq = tfq

    def handle(self, request: Message) -> None:
        """Time a case, with one round per request."""
        self._idle = reset_peak()
        case = request["case"]
        if case != self._case:
            self._case = {}
            self._build(case)
            self._case = case
        if request["task"] == "train":
            self._train(case["batch"], request["rounds"], request["compared"])
        elif request["task"] == "epoch":
            self._epoch(case["batch"])
        else:
            self._forward(case["batch"], request["rounds"])

    def _build(self, case: Message) -> None:
        """Build the Keras model with the common initial weights, and its data."""
        keras.backend.clear_session()
        self._idle = reset_peak()
        definition = model(case["model"], case["qubits"])
        data = random_inputs(definition, BATCHES * case["batch"], case["nonzero_angles"])
        self._start = time.perf_counter()
        if self._system == "qfleet":
            inputs = keras.Input((len(definition.inputs),))
            layer = Expectation(
                definition.circuit,
                definition.inputs,
                definition.observables,
                parameters=definition.parameters,
                seed=0,
            )
            self._inputs = tf.constant(data.angles)
            self._method = layer.describe().partition(":")[0]  # such as "native, float32"
        else:
            inputs = keras.Input((), dtype=tf.string)
            layer = self._tfq.layers.PQC(
                definition.ansatz,
                definition.observables,
                differentiator=self._tfq.differentiators.Adjoint(),
            )
            self._inputs = self._tfq.convert_to_tensor(_resolved(definition, data))
            self._method = "PQC, Adjoint"
        self._labels = tf.constant(data.labels)
        self._nonzero_angles = case["nonzero_angles"]
        self._layer, self._parameters = layer, definition.parameters
        self._names = definition.parameters
        if self._system == "tfq":
            self._names = tuple(str(symbol) for symbol in layer.symbols)
        readouts = layer(inputs)
        layer.set_weights([self._ordered(layer, definition, data)])
        outputs = readouts
        for width, weights in zip(definition.head, data.dense, strict=True):
            last = width == definition.head[-1]
            dense = keras.layers.Dense(width, "linear" if last else "tanh")
            outputs = dense(outputs)
            dense.set_weights(weights)
        self._model = keras.Model(inputs, outputs)
        self._readout_model = keras.Model(inputs, readouts)
        self._initial_weights = self._model.get_weights()

    def _readouts(self) -> list[list[float]]:
        """Return readouts [COMPARED_EXAMPLES, K] of examples, with the initial weights."""
        self._model.set_weights(self._initial_weights)
        return self._readout_model(self._inputs[:COMPARED_EXAMPLES]).numpy().tolist()

    def _gradient(self, batch: int) -> list[float]:
        """Return the gradient [P] of a batch's loss by the circuit's parameters, initially."""
        self._model.set_weights(self._initial_weights)
        with tf.GradientTape() as tape:
            errors = self._model(self._inputs[:batch]) - self._labels[:batch]
            loss = tf.reduce_mean(errors**2)
        slopes = tape.gradient(loss, self._layer.trainable_weights[0]).numpy()
        by_name = dict(zip(self._names, slopes.tolist(), strict=True))
        return [by_name[name] for name in self._parameters]

    def _cost(self, batch: int, *, both_passes: bool) -> Message:
        """Return what bounds a circuit's time, if the native engine evolves each example."""
        if self._system != "qfleet" or self._nonzero_angles is not None:
            return {}
        simulator = self._layer.simulator
        if not isinstance(simulator, NativeSimulator):
            return {}
        amplitude_bytes = 2 * simulator.dtype.size
        forward, backward = pass_costs(
            simulator.plan, simulator.prefix, amplitude_bytes, frozenset(simulator.inputs)
        )
        tile = tile_bytes(len(simulator.qubits), batch, states=1 + both_passes)
        cost = forward + backward if both_passes else forward
        return asdict(cost) | {"tile_bytes": tile}

    def _ordered(
        self, layer: keras.layers.Layer, definition: BenchmarkModel, data: RandomInputs
    ) -> np.ndarray:
        """Return the parameters in the order of the layer's weight."""
        if self._system == "qfleet":
            return data.parameters
        values = dict(zip(definition.parameters, data.parameters, strict=True))
        return np.array([values[str(symbol)] for symbol in layer.symbols], np.float32)

    def _data(self, batches: int, batch: int) -> tuple[tf.Tensor, tf.Tensor]:
        times = -(-batches // BATCHES)
        examples = batches * batch

        def repeated(tensor: tf.Tensor) -> tf.Tensor:
            return tf.tile(tensor, [times] + [1] * (tensor.shape.rank - 1))[:examples]

        return repeated(self._inputs), repeated(self._labels)

    def _train(self, batch: int, rounds: int, compared: bool) -> None:
        """Time `fit`. The first epoch is not timed; each later epoch is a round."""
        first = _StepTimes()
        self._compile(1)
        self._model.fit(*self._data(2, batch), batch, verbose=0, callbacks=[first])
        step = first.ended[1] - first.ended[0]
        steps = max(1, min(STEPS_PER_EXECUTION, int(EPOCH_SECONDS / step)))
        if steps > 1:
            self._compile(steps)
        batches = steps * (EXECUTIONS if steps == STEPS_PER_EXECUTION else 1)
        ready = {
            "values": self._readouts(),
            "gradient": self._gradient(batch) if compared else None,
            **self._cost(batch, both_passes=True),
            "method": self._method,
            "idle_gib": self._idle,
            "first_step_s": first.ended[0] - self._start,
            "steps_per_execution": steps,
        }
        rounds_callback = _RoundsCallback(batch, self._channel, ready, rounds)
        data = self._data(batches, batch)
        self._model.fit(*data, batch, epochs=1 + rounds, verbose=0, callbacks=[rounds_callback])

    def _epoch(self, batch: int) -> None:
        """Time one epoch of EXAMPLES, with the compilation of the model."""
        self._compile(1)
        self._channel.send(
            {"values": self._readouts(), "method": self._method, "examples": EXAMPLES}
        )
        self._channel.receive()
        inputs, labels = self._data(-(-EXAMPLES // batch), batch)
        start = time.perf_counter()
        self._model.fit(inputs[:EXAMPLES], labels[:EXAMPLES], batch, verbose=0)
        seconds = time.perf_counter() - start
        self._channel.send({"ms": seconds * 1e3 / EXAMPLES, "peak_gib": peak_gib()})

    def _compile(self, steps: int) -> None:
        self._model.compile(keras.optimizers.Adam(0.01), "mse", steps_per_execution=steps)

    def _forward(self, batch: int, rounds: int) -> None:
        """Time the model in a graph, batch after batch; a round is several batches."""
        examples = self._data(BATCHES, batch)[0]

        @tf.function
        def run(batches: tf.Tensor) -> tf.Tensor:
            outputs = tf.TensorArray(tf.float32, batches)
            for index in tf.range(batches):
                # In sequence, like the batches of a data set.
                tf.autograph.experimental.set_loop_options(parallel_iterations=1)
                first = index % BATCHES * batch
                outputs = outputs.write(index, self._model(examples[first : first + batch]))
            return outputs.stack()

        def seconds(batches: int) -> float:
            start = time.perf_counter()
            run(tf.constant(batches)).numpy()
            return time.perf_counter() - start

        start = time.perf_counter()
        seconds(1)  # builds the graph
        first = time.perf_counter() - start
        max_batches = STEPS_PER_EXECUTION * EXECUTIONS
        batches = max(1, min(max_batches, int(EPOCH_SECONDS / seconds(1))))
        ready = {
            "values": self._readouts(),
            "method": self._method,
            **self._cost(batch, both_passes=False),
            "idle_gib": self._idle,
            "first_step_s": first,
            "steps_per_execution": batches,
        }
        self._channel.send(ready)
        for _ in range(rounds):
            self._channel.receive()
            self._channel.send(
                {"ms": seconds(batches) * 1e3 / (batches * batch), "peak_gib": peak_gib()}
            )


class _StepTimes(keras.callbacks.Callback):
    """Records the time at the end of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        self.ended.append(time.perf_counter())


class _RoundsCallback(keras.callbacks.Callback):
    """Responds after each epoch: ready after the first one, then with the time of each round."""

    def __init__(self, batch: int, channel: Channel, ready: Message, rounds: int) -> None:
        super().__init__()
        self._batch, self._channel = batch, channel
        self._ready, self._rounds = ready, rounds

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        ms = (time.perf_counter() - self._start) * 1e3 / (self._batch * self.params["steps"])
        self._channel.send({"ms": ms, "peak_gib": peak_gib()} if epoch else self._ready)
        if epoch < self._rounds:
            self._channel.receive()


def _resolved(definition: BenchmarkModel, data: RandomInputs) -> list[cirq.Circuit]:
    """Return the data circuit of each example, the input of TensorFlow Quantum."""
    return [
        cirq.resolve_parameters(
            definition.data, dict(zip(definition.inputs, map(float, row), strict=True))
        )
        for row in data.angles
    ]


if __name__ == "__main__":
    channel = Channel()
    system = KerasSystem(sys.argv[1], channel)
    packages = {
        "qfleet": ["tensorflow", "tf_keras", "numpy"],
        "tfq": ["tensorflow-quantum", "tensorflow", "cirq-core"],
    }
    channel.serve({"versions": versions(packages[sys.argv[1]])}, system.handle)
