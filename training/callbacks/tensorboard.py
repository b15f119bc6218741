"""TensorBoard events of the chief: scalars, readouts and the model's graph."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from common.models import readout_model
from qfleet.tensorflow.runtime import keras, tf

READOUT_SAMPLE_ROWS = 256
"""Validation examples behind the histograms of the readouts."""


class TensorBoardCallback(keras.callbacks.Callback):
    """Writes scalars of training and validation, readouts, learning rate and rates, on the chief.

    logs/train and logs/validation hold scalars by epoch. logs/steps holds the loss of each step,
    also of steps inside one host call, up to `learner.MAX_TRACED_STEPS`.

    Args:
        folder: A local folder for events.
        circuits: Circuits that are simulated per example.
        sample: float32 [n, features]: validation angles for the histograms of the readouts.
    """

    def __init__(self, folder: Path, *, circuits: int, sample: np.ndarray) -> None:
        super().__init__()
        self._train, self._validation, self._steps = (
            tf.summary.create_file_writer(str(folder / name))
            for name in ("train", "validation", "steps")
        )
        self._circuits = circuits
        self._sample = tf.constant(sample[:READOUT_SAMPLE_ROWS])
        self._write_readouts: Callable[[int], None] = lambda step: None
        self._written_steps = 0

    def write_graph(self, model: keras.Model, features: int) -> None:
        """Write the model's graph for the Graphs tab, and prepare the histograms."""
        spec = tf.TensorSpec([None, features], tf.float32)
        # A function of its own: the strategy's scope would add its operations to the graph.
        predict = tf.function(lambda angles: model(angles), input_signature=[spec])
        with self._train.as_default(step=0):
            tf.summary.graph(predict.get_concrete_function().graph)
        # A user model that does not expose its readouts is represented by its predictions.
        inner = readout_model(model) or model

        @tf.function  # in eager mode, each histogram costs some 30 small operations
        def write_readouts(step: tf.Tensor) -> None:
            values = inner(self._sample)
            for i in range(values.shape[-1]):
                tf.summary.histogram(f"readout {i}", values[:, i], step=step)

        self._write_readouts = lambda step: write_readouts(tf.constant(step, tf.int64))

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Keep the number of steps before the epoch."""
        self._written_steps = self.model.steps

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Write the loss of each step since the last call, as far as the learner keeps them."""
        losses, steps = self.model.losses_since(self._written_steps), self.model.steps
        with self._steps.as_default():
            for step, loss in enumerate(losses, steps - len(losses) + 1):
                tf.summary.scalar("loss by step", loss, step=step)
        self._written_steps = steps

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Write the scalars and histograms of the epoch."""
        numbers = {name: float(value) for name, value in (logs or {}).items()}
        with self._train.as_default(step=epoch + 1):
            for name in ("mse", "accuracy", "learning_rate", "examples_per_second"):
                tf.summary.scalar(name.replace("_", " "), numbers[name])
            rate = numbers["examples_per_second"] * self._circuits
            tf.summary.scalar("circuits per second", rate)
        with self._validation.as_default(step=epoch + 1):
            tf.summary.scalar("mse", numbers["val_mse"])
            tf.summary.scalar("accuracy", numbers["val_accuracy"])
            self._write_readouts(epoch + 1)
        for writer in (self._train, self._validation, self._steps):
            writer.flush()
