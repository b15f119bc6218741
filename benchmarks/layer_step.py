"""Time of a Keras layer's values and gradients in a TensorFlow graph, without the rest of a model.

python -m benchmarks.layer_step MODEL QUBITS BATCH

The file also runs in another checkout of qfleet: with PYTHONPATH=. in its folder, by its Python.
"""

import statistics
import sys
import time

from benchmarks.circuit_models import model, random_inputs
from qfleet.tensorflow.layers import Expectation
from qfleet.tensorflow.runtime import tf

ROUNDS, ROUND_SECONDS, TRIAL_STEPS = 41, 0.1, 20


def main(name: str, qubits: int, batch: int) -> None:
    """Print the median time of a forward pass, and of one with the gradient by the weights."""
    definition = model(name, qubits)
    angles = tf.constant(random_inputs(definition, batch, None).angles)
    layer = Expectation(
        definition.circuit,
        definition.inputs,
        definition.observables,
        parameters=definition.parameters,
        seed=0,
    )
    layer.build(angles.shape)
    (weights,) = layer.trainable_weights

    @tf.function
    def values(steps: tf.Tensor) -> tf.Tensor:
        total = tf.zeros([])
        for _ in tf.range(steps):
            # Each pass depends on the one before, or TensorFlow would compute it once.
            total += tf.reduce_sum(layer(angles + 0 * total))
        return total

    @tf.function
    def gradients(steps: tf.Tensor) -> tf.Tensor:
        total = tf.zeros_like(weights)
        for _ in tf.range(steps):
            with tf.GradientTape() as tape:
                result = tf.reduce_sum(layer(angles + 0 * total[0]))
            total += tape.gradient(result, weights)
        return total

    def seconds(run: tf.types.experimental.PolymorphicFunction, steps: int) -> float:
        start = time.perf_counter()
        run(tf.constant(steps)).numpy()
        return (time.perf_counter() - start) / steps

    milliseconds = []
    for run in (values, gradients):
        seconds(run, 1)  # builds the graph
        steps = max(1, round(ROUND_SECONDS / seconds(run, TRIAL_STEPS)))
        milliseconds.append(1e3 * statistics.median(seconds(run, steps) for _ in range(ROUNDS)))
    print(
        f"{name}, {qubits} qubits, batch {batch}, TensorFlow {tf.__version__}:"
        f" values {milliseconds[0]:.3g} ms, with gradients {milliseconds[1]:.3g} ms"
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
