"""Predictions and readouts of a model for many examples, in batches of bounded memory."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import psutil

from common.errors import WeightsError

if TYPE_CHECKING:
    from qfleet.tensorflow.runtime import keras, tf

BYTES_PER_AMPLITUDE = 8
"""Size of a complex64 amplitude."""

COPIES = 6
"""Simultaneous copies of a state: input and output of a block, in several orders of axes."""

MAX_MEMORY_BYTES = 512 * 2**20

MAX_ROWS = 1024
"""Maximum batch. It keeps enough batches in a small split for several workers, which get whole
batches; 4,096 would be 5 to 20 % faster."""


def rows_per_batch(
    qubits: int, max_rows: int | None = None, memory_bytes: int | None = None
) -> int:
    """Return the number of examples that are simulated together.

    Args:
        qubits: Width of the widest circuit that is simulated as a state; 0 for none.
        max_rows: BATCH, an upper limit, if it is set; negative for BATCH=auto.
        memory_bytes: Memory limit; a quarter of the available memory, but at most
            MAX_MEMORY_BYTES, unless given.
    """
    if memory_bytes is None:
        memory_bytes = min(MAX_MEMORY_BYTES, psutil.virtual_memory().available // 4)
    fitting = memory_bytes // (2**qubits * BYTES_PER_AMPLITUDE * COPIES)
    limit = max_rows if max_rows and max_rows > 0 else MAX_ROWS
    return max(1, min(fitting, MAX_ROWS, limit))


class CircuitTrust(NamedTuple):
    """Fidelity and errors of a circuit over a sample of examples: how far to trust its readouts.

    Attributes:
        circuit: Name of the circuit.
        examples: Number of examples.
        returned: Probability of |0...0> after the circuit and its reverse, with noise; mean.
        least: The lowest of these probabilities.
        noisy_error: Mean distance of the readouts from those without noise.
        mitigated_error: The same after the extrapolation.
    """

    circuit: str
    examples: int
    returned: float
    least: float
    noisy_error: float
    mitigated_error: float

    @property
    def fidelity(self) -> float:
        """Estimate of the fidelity of the circuit, which has half of the noise."""
        return float(np.sqrt(max(self.returned, 0.0)))


class Predictions(NamedTuple):
    """Predictions of a batch.

    Attributes:
        outputs: float32 [n], or [n, outputs] for several outputs.
        readouts: float32 [n, readouts]; None for a model without a readout layer.
        seconds: Time of the computation.
        unmitigated: Outputs without zero-noise extrapolation; None where it is not used.
    """

    outputs: np.ndarray
    readouts: np.ndarray | None
    seconds: float
    unmitigated: np.ndarray | None = None


class Predictor:
    """A trained model that is ready for predictions.

    Args:
        model: The model.
        features: Angles per example.
        batch: Maximum number of examples per batch; derived from the memory unless given.

    Attributes:
        layers: The model's quantum layers.
        circuits: Number of circuits simulated per example.
        readouts: Readouts per example; None for a model without a readout layer.
        batch_rows: Examples per batch.
        outputs: Numbers per example that the model computes.
    """

    is_mitigated = False
    """If readouts are extrapolated to zero noise."""

    def __init__(self, model: "keras.Model", features: int, batch: int | None = None) -> None:
        from common import models
        from qfleet.tensorflow.runtime import tf

        self.layers = list(models.circuit_layers(model))
        self.circuits = len(self.layers)
        width = max((layer.state_qubits for layer in self.layers), default=0)
        self.batch_rows = rows_per_batch(width, batch)
        self._compile(model, features)
        # Traced here, so that tracing does not count as prediction time. The example is a state of
        # norm 1 for models that take states.
        self.outputs = int(np.size(self._evaluate(tf.one_hot([0], features))[0]))

    def _compile(self, model: "keras.Model", features: int) -> None:
        """Build the graph that `_evaluate` calls, and set `readouts`."""
        from common import models
        from qfleet.tensorflow.runtime import tf

        readout_model = models.readout_model(model)
        self.readouts = None if readout_model is None else int(readout_model.output_shape[-1])
        combined = model if readout_model is None else _combined(model, readout_model)

        @tf.function(input_signature=[tf.TensorSpec([None, features], tf.float32)])
        def predict(batch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            outputs = combined(batch, training=False)
            if readout_model is None:
                return outputs, tf.zeros([tf.shape(batch)[0], 0])
            return tuple(outputs)

        self._predict = predict

    def _evaluate(
        self, angles: "tf.Tensor"
    ) -> "tuple[tf.Tensor, tf.Tensor | np.ndarray, tf.Tensor | None]":
        """Return outputs and readouts of a batch, and outputs without extrapolation or None."""
        return *self._predict(angles), None

    def measure_return_probabilities(self, angles: np.ndarray) -> list[CircuitTrust]:
        """Return the fidelity and the errors of each circuit; nothing without ZNE.

        Args:
            angles: Examples float32 [n, features].
        """
        return []

    def predict(
        self,
        angles: np.ndarray,
        rows: np.ndarray,
        on_batch: Callable[[int], None] = lambda _: None,
    ) -> Predictions:
        """Compute predictions.

        Args:
            angles: float32 [n, features], radians.
            rows: int64 [n], the numbers of the examples from 0, for error messages.
            on_batch: Called with the number of examples after each batch.

        Raises:
            WeightsError: A prediction is NaN or infinite.
        """
        from qfleet.tensorflow.runtime import tf

        shape = (len(angles),) if self.outputs == 1 else (len(angles), self.outputs)
        predictions = np.empty(shape, np.float32)
        readouts = np.empty((len(angles), self.readouts or 0), np.float32)
        unmitigated = np.empty_like(predictions)
        start = time.monotonic()
        for first in range(0, len(angles), self.batch_rows):
            batch = slice(first, min(first + self.batch_rows, len(angles)))
            outputs, readouts[batch], plain = self._evaluate(tf.constant(angles[batch]))
            predictions[batch] = np.reshape(outputs, predictions[batch].shape)
            if plain is not None:
                unmitigated[batch] = np.reshape(plain, predictions[batch].shape)
            on_batch(batch.stop - batch.start)
        seconds = time.monotonic() - start
        if not np.isfinite(predictions).all():
            index = int(np.argwhere(~np.isfinite(predictions))[0, 0])
            raise WeightsError(
                f"the prediction for example {rows[index] + 1} is {predictions[index]}: the"
                " weights contain NaN or infinite values, so train again, for example with a"
                " lower LEARNING_RATE"
            )
        return Predictions(
            predictions,
            None if self.readouts is None else readouts,
            seconds,
            unmitigated if self.is_mitigated else None,
        )


def _combined(model: "keras.Model", readout_model: "keras.Model") -> "keras.Model":
    """Return one model for predictions and readouts, which simulates each circuit once."""
    from qfleet.tensorflow.runtime import keras

    return keras.Model(model.inputs, [model.outputs[0], readout_model.outputs[0]])
