"""Answers and readouts for many examples, in batches of bounded memory, and how good they are."""

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from common.errors import WeightsError

if TYPE_CHECKING:
    from common.tensorflow import keras

# Amplitudes are complex64; while a block is applied, its input, its output and copies in another
# order of axes live side by side.
BYTES_PER_AMPLITUDE = 8
COPIES = 6
MOST_MEMORY = 512 * 2**20
MOST_ROWS = 4096


@dataclass(frozen=True)
class Scores:
    """What a model says to examples.

    Attributes:
        answers: float32 [n]; the sign is the class, 0 counts as +1.
        readouts: float32 [n, readouts] in [-1, 1]; None for a model that does not show them.
        labels: float32 [n] of -1 and +1; None where they are not known.
        seconds: How long answering took, without compiling.
        circuits: Circuits simulated for one example.
    """

    answers: np.ndarray
    readouts: np.ndarray | None
    labels: np.ndarray | None
    seconds: float
    circuits: int

    @property
    def predicted(self) -> np.ndarray:
        """float32 [n] of -1 and +1."""
        return np.where(self.answers >= 0, 1, -1).astype(np.float32)

    @property
    def rate(self) -> str:
        """Circuits simulated in a second, in words; examples of a model without circuits."""
        rate = len(self.answers) * max(1, self.circuits) / max(self.seconds, 1e-9)
        return f"{rate:,.0f} {'circuits' if self.circuits else 'examples'}/s"

    @property
    def mse(self) -> float | None:
        """Mean squared error of answers against labels of -1 and +1; None without labels."""
        return None if self.labels is None else mean_squared_error(self.answers, self.labels)

    @property
    def accuracy(self) -> float | None:
        """The share of examples whose answer has the label's sign; None without labels."""
        return None if self.labels is None else float(np.mean(self.predicted == self.labels))

    @property
    def confusion(self) -> np.ndarray | None:
        """int64 [2, 2]: rows are labels -1, +1; columns are predictions; None without labels."""
        if self.labels is None:
            return None
        pairs = 2 * (self.labels > 0).astype(np.int64) + (self.predicted > 0)
        return np.bincount(pairs, minlength=4).reshape(2, 2)


def mean_squared_error(answers: np.ndarray, labels: np.ndarray) -> float:
    """Mean squared error, summed in float64."""
    return float(np.mean((answers.astype(np.float64) - labels) ** 2))


def rows_at_once(qubits: int, asked: int | None = None) -> int:
    """How many examples are simulated together.

    Args:
        qubits: Width of the widest circuit.
        asked: BATCH, where it is set: never more than that.
    """
    memory = min(MOST_MEMORY, psutil.virtual_memory().available // 4)
    fit = int(memory // (2**qubits * BYTES_PER_AMPLITUDE * COPIES))
    return max(1, min(fit, MOST_ROWS, asked or MOST_ROWS))


def score(
    model: "keras.Model",
    angles: np.ndarray,
    labels: np.ndarray | None,
    *,
    batch: int | None = None,
    show: bool | None = None,
) -> Scores:
    """Answer examples.

    Args:
        model: A trained model.
        angles: float32 [n, features], radians.
        labels: float32 [n] of -1 and +1, or None.
        batch: The most examples at once; chosen by memory unless set.
        show: Whether to show a bar; on a terminal, for more than one batch, unless set.

    Raises:
        WeightsError: The model answers with numbers that are none (NaN), or with several.
    """
    from common import models
    from common.tensorflow import tf

    layers = list(models.circuits(model))
    width = max((len(layer.circuit.all_qubits()) for layer in layers), default=1)
    rows = rows_at_once(width, batch)
    inner = models.readouts(model)
    both = model if inner is None else _both(model, inner)

    @tf.function(input_signature=[tf.TensorSpec([None, angles.shape[1]], tf.float32)])
    def answer(batch: Any) -> Any:
        answers = both(batch, training=False)
        return (answers, tf.zeros([tf.shape(batch)[0], 0])) if inner is None else tuple(answers)

    _check_width(answer(tf.constant(angles[:1]))[0])  # traced here, so that time is not counted
    total = len(angles)
    answers = np.empty(total, np.float32)
    readouts = np.empty((total, 0 if inner is None else inner.output_shape[-1]), np.float32)
    show = sys.stdout.isatty() and total > rows if show is None else show
    bar = Progress(
        TextColumn("answering"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        transient=True, disable=not show,
    )  # fmt: skip
    began = time.monotonic()
    with bar:
        task = bar.add_task("", total=total)
        for first in range(0, total, rows):
            part = slice(first, min(first + rows, total))
            said, read = answer(tf.constant(angles[part]))
            answers[part] = np.reshape(said, -1)
            readouts[part] = read
            bar.update(task, completed=part.stop)
    seconds = time.monotonic() - began
    if not np.isfinite(answers).all():
        row = int(np.flatnonzero(~np.isfinite(answers))[0])
        raise WeightsError(
            f"the model answers {answers[row]} to example {row + 1}: its weights hold numbers that"
            " are none, so train again (with a lower LEARNING_RATE?)"
        )
    read_out = None if inner is None else readouts
    return Scores(answers, read_out, labels, seconds, len(layers))


def _both(model: "keras.Model", inner: "keras.Model") -> "keras.Model":
    """One model for answers and readouts, so that each circuit is simulated once."""
    from common.tensorflow import keras

    return keras.Model(model.inputs, [model.outputs[0], inner.outputs[0]])


def _check_width(answers: Any) -> None:
    if np.size(answers) != 1:
        raise WeightsError(
            f"the model answers an example with {np.size(answers)} numbers: a model must answer"
            " with one, whose sign is the class"
        )
