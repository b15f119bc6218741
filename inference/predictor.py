"""A model's answers and readouts for many examples, in batches of bounded memory."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from common.errors import WeightsError

if TYPE_CHECKING:
    from qfleet.tensorflow.runtime import keras

# Amplitudes are complex64; while a block is applied, its input, its output and copies in another
# order of axes live side by side.
BYTES_PER_AMPLITUDE = 8
COPIES = 6
MAX_MEMORY_BYTES = 512 * 2**20
# Few enough that a small split makes work for several processes, which cut it at whole batches;
# 4,096 would be 5 to 20 % faster.
MAX_ROWS = 1024


def rows_per_batch(qubits: int, asked: int | None = None, memory: int | None = None) -> int:
    """How many examples are simulated together.

    Args:
        qubits: Width of the widest circuit.
        asked: BATCH, where it is set: never more than that.
        memory: Bytes that they may take; a quarter of what is free, and at most MOST_MEMORY.
    """
    memory = (
        min(MAX_MEMORY_BYTES, psutil.virtual_memory().available // 4) if memory is None else memory
    )
    fit = int(memory // (2**qubits * BYTES_PER_AMPLITUDE * COPIES))
    asked = asked if asked and asked > 0 else MAX_ROWS  # BATCH=auto is below 0
    return max(1, min(fit, MAX_ROWS, asked))


class Predictor:
    """A trained model, ready to answer.

    Args:
        model: The model.
        features: Angles of an example.
        batch: The most examples at once; chosen by memory unless set.

    Attributes:
        circuits: Circuits simulated for one example.
        readouts: Readouts of an example; None for a model that does not show them.
        rows: Examples that are answered at once.

    Raises:
        WeightsError: The model answers an example with several numbers.
    """

    def __init__(self, model: "keras.Model", features: int, batch: int | None = None) -> None:
        from common import models
        from qfleet.tensorflow.runtime import tf

        layers = list(models.circuit_layers(model))
        self.circuits = len(layers)
        width = max((len(layer.circuit.all_qubits()) for layer in layers), default=1)
        self.rows = rows_per_batch(width, batch)
        inner = models.readout_model(model)
        self.readouts = None if inner is None else int(inner.output_shape[-1])
        both = model if inner is None else _both(model, inner)

        @tf.function(input_signature=[tf.TensorSpec([None, features], tf.float32)])
        def answer(batch: Any) -> Any:
            answers = both(batch, training=False)
            return (answers, tf.zeros([tf.shape(batch)[0], 0])) if inner is None else tuple(answers)

        self._answer = answer
        # Traced here, so that this is not counted as answering.
        _check_width(answer(tf.zeros([1, features]))[0])

    def answer(
        self, angles: np.ndarray, rows: np.ndarray, shown: Callable[[int], None] = lambda _: None
    ) -> tuple[np.ndarray, np.ndarray | None, float]:
        """Answer examples.

        Args:
            angles: float32 [n, features], radians.
            rows: int64 [n], the examples' numbers from 0, for the sentence about one.
            shown: Called with the number of examples after each batch.

        Returns:
            Answers float32 [n], readouts float32 [n, readouts] or None, and seconds.

        Raises:
            WeightsError: An answer is no number (NaN).
        """
        from qfleet.tensorflow.runtime import tf

        answers = np.empty(len(angles), np.float32)
        readouts = np.empty((len(angles), self.readouts or 0), np.float32)
        began = time.monotonic()
        for first in range(0, len(angles), self.rows):
            part = slice(first, min(first + self.rows, len(angles)))
            said, read = self._answer(tf.constant(angles[part]))
            answers[part] = np.reshape(said, -1)
            readouts[part] = read
            shown(part.stop - part.start)
        seconds = time.monotonic() - began
        if not np.isfinite(answers).all():
            at = int(np.flatnonzero(~np.isfinite(answers))[0])
            raise WeightsError(
                f"the model answers {answers[at]} to example {rows[at] + 1}: its weights hold"
                " numbers that are none, so train again (with a lower LEARNING_RATE?)"
            )
        return answers, None if self.readouts is None else readouts, seconds


def _both(model: "keras.Model", inner: "keras.Model") -> "keras.Model":
    """One model for answers and readouts, so that each circuit is simulated once."""
    from qfleet.tensorflow.runtime import keras

    return keras.Model(model.inputs, [model.outputs[0], inner.outputs[0]])


def _check_width(answers: Any) -> None:
    if np.size(answers) != 1:
        raise WeightsError(
            f"the model answers an example with {np.size(answers)} numbers: a model must answer"
            " with one, whose sign is the class"
        )
