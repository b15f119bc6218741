"""TensorBoard events of the chief: scalars, readouts and the model's graph."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from common.models import readout_model
from qfleet.tensorflow.runtime import keras, tf
from training.callbacks.event_file import EventFile
from training.step.tracing import needs_autograph

READOUT_SAMPLE_ROWS = 256
"""Validation examples behind the histograms of the readouts."""

MAX_HISTOGRAMS = 16
"""Most readouts with a histogram of their own: more can't be looked at."""


class TensorBoardCallback(keras.callbacks.Callback):
    """Writes scalars of training and validation, readouts, learning rate and rates, on the chief.

    logs/train and logs/validation hold scalars by epoch, the first one also the settings.
    logs/steps holds the loss of each step, also of steps inside one host call, up to
    `learner.MAX_TRACED_STEPS`.

    Args:
        folder: A local folder for events.
        metrics: Names of the metrics, the loss first.
        circuits: Circuits that are simulated per example.
        sample: float32 [n, features]: validation angles for the histograms of the readouts.
    """

    def __init__(
        self, folder: Path, *, metrics: Sequence[str], circuits: int, sample: np.ndarray
    ) -> None:
        super().__init__()
        self._train, self._validation, self._steps = (
            EventFile(folder / name) for name in ("train", "validation", "steps")
        )
        self._metrics = metrics
        self._circuits = circuits
        self._sample = tf.constant(sample[:READOUT_SAMPLE_ROWS])
        self._readouts: Callable[[int], tf.Tensor] | None = None
        self._written_steps = 0

    def write_settings(self, run: str, settings: Mapping[str, object]) -> None:
        """Write the settings that identify the run for the HParams tab."""
        self._train.write_settings(run, settings)

    def write_graph(self, model: keras.Model, features: int) -> None:
        """Write the model's graph for the Graphs tab, and prepare the histograms."""
        spec = tf.TensorSpec([None, features], tf.float32)
        # A function of its own: the strategy's scope would add its operations to the graph.
        autograph = needs_autograph(model)
        predict = tf.function(
            lambda angles: model(angles), input_signature=[spec], autograph=autograph
        )
        self._train.write_graph(predict.get_concrete_function().graph)
        # A user model that does not expose its readouts is represented by its predictions.
        inner = readout_model(model) or model
        # A Python number, so that other circuits have a graph of their own.
        self._readouts = tf.function(lambda version: inner(self._sample), autograph=autograph)

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Keep the number of steps before the epoch."""
        self._written_steps = self.model.steps

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Write the loss of each step since the last call, as far as the learner keeps them."""
        losses, steps = self.model.losses_since(self._written_steps), self.model.steps
        self._steps.write_series("loss by step", steps - len(losses) + 1, losses)
        self._written_steps = steps

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Write the scalars and histograms of the epoch."""
        numbers = {name: float(value) for name, value in (logs or {}).items()}
        names = (*self._metrics, "learning_rate", "examples_per_second")
        rate = numbers["examples_per_second"] * self._circuits
        if "pruned_angles" in numbers:
            names += ("pruned_angles",)
        scalars = {name.replace("_", " "): numbers[name] for name in names}
        self._train.write_scalars(epoch + 1, {**scalars, "circuits per second": rate})
        self._validation.write_scalars(
            epoch + 1,
            {name.replace("_", " "): numbers[f"val_{name}"] for name in self._metrics},
        )
        if self._readouts:
            readouts = self._readouts(self.model.circuits_version)
            self._validation.write_histograms(epoch + 1, _by_readout(readouts.numpy()))
        for file in (self._train, self._validation, self._steps):
            file.flush()


def _by_readout(values: np.ndarray) -> dict[str, np.ndarray]:
    """Return samples [n, readouts] by tag."""
    shown = values.T[:MAX_HISTOGRAMS]
    every = {"all readouts": values} if values.shape[-1] > MAX_HISTOGRAMS else {}
    return every | {f"readout {i}": column for i, column in enumerate(shown)}
