"""A worker that trains all layers under MultiWorkerMirroredStrategy, and prints the results.

    TF_CONFIG=... python -m tests.support.layers_worker FOLDER

A process of its own: no strategy can be created after TensorFlow Quantum is imported.
"""

import json
import sys

import cirq
import numpy as np
import sympy

from qfleet.tensorflow.layers import (
    ControlledExpectation,
    Expectation,
    SampledExpectation,
    Samples,
    State,
)
from qfleet.tensorflow.runtime import keras, tf


def main(folder: str) -> None:
    """Train, save, load, and print one line of JSON."""
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    keras.utils.set_random_seed(3)
    with strategy.scope():
        model = build_model()
        model.compile(keras.optimizers.Adam(0.05), "mse", steps_per_execution=2)
        twins = [sampled(), sampled()]
    features = np.random.default_rng(1).normal(size=(16, 2)).astype(np.float32)

    @tf.function
    def shots() -> list[tf.Tensor]:
        angles = tf.constant(features)
        return strategy.run(lambda: [twin(angles, training=True) for twin in twins])

    drawn = [[values.numpy().tolist() for values in shots()] for _ in range(2)]
    data = tf.data.Dataset.from_tensor_slices((features, features[:, :1])).batch(8)
    history = model.fit(data, epochs=3, verbose=0)
    rank = strategy.cluster_resolver.task_id
    path = f"{folder}/{rank}.keras"
    model.save(path)
    loaded = keras.models.load_model(path, safe_mode=False)
    results = {
        "loss": history.history["loss"],
        "weights": [weight.tolist() for weight in model.get_weights()],
        "drawn": drawn,
        "same": bool(np.allclose(loaded(features), model(features), atol=1e-6)),
    }
    print("RESULT", json.dumps(results), flush=True)


X, Y, P, Q = sympy.symbols("x y p q")
QUBITS = cirq.LineQubit.range(2)
CIRCUIT = cirq.Circuit(
    cirq.rx(X).on(QUBITS[0]), cirq.ry(Y).on(QUBITS[1]), cirq.CNOT(*QUBITS) ** P,
    cirq.ry(Q).on(QUBITS[0]),
)  # fmt: skip
READ = [cirq.Z(QUBITS[0]), cirq.X(QUBITS[0]) * cirq.Z(QUBITS[1])]
NAMES = ("x", "y")


def sampled() -> SampledExpectation:
    """Return a layer that draws shots, always with the same seed."""
    return SampledExpectation(CIRCUIT, NAMES, READ, 40, seed=7)


def build_model() -> keras.Model:
    """Return a model of all layers."""
    inputs = keras.Input((2,))
    control = keras.layers.Dense(2, kernel_initializer=keras.initializers.GlorotUniform(1))(inputs)
    state = State(CIRCUIT, NAMES, seed=4)(inputs)
    bits = Samples(CIRCUIT, NAMES, 5, seed=5)(inputs)
    outputs = [
        Expectation(CIRCUIT, NAMES, READ, seed=6)(inputs),
        ControlledExpectation(CIRCUIT, NAMES, READ)([inputs, control]),
        sampled()(inputs),
        keras.layers.Lambda(lambda amplitudes: tf.abs(amplitudes) ** 2)(state),
        keras.layers.Flatten()(keras.layers.Lambda(lambda b: tf.cast(b, tf.float32))(bits)),
    ]
    together = keras.layers.Concatenate()(outputs)
    head = keras.layers.Dense(1, kernel_initializer=keras.initializers.GlorotUniform(2))
    return keras.Model(inputs, head(together))


if __name__ == "__main__":
    main(sys.argv[1])
