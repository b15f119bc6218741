"""What TensorBoard shows of a run, and metrics.jsonl: written while it trains."""

import json
from pathlib import Path

import numpy as np
import psutil

from common.models import readouts
from common.settings import Settings
from common.storage import write_whole
from common.tensorflow import keras, tf

# The readouts' histogram is drawn from so many validation examples.
SAMPLE = 256


class Board(keras.callbacks.Callback):
    """The chief's: scalars of training and validation, readouts, learning rate and rates.

    logs/train and logs/validation hold the scalars by epoch; logs/steps the loss of each step,
    also of those inside one host call; logs/train also the model's graph.

    Args:
        folder: A local folder for events.
        circuits: Circuits simulated for one example.
        sample: Validation angles float32 [n, features] for the readouts' histogram.
    """

    def __init__(
        self,
        folder: Path,
        *,
        circuits: int,
        sample: np.ndarray,
    ) -> None:
        super().__init__()
        self._train, self._validation, self._steps = (
            tf.summary.create_file_writer(str(folder / name))
            for name in ("train", "validation", "steps")
        )
        self._circuits = circuits
        self._sample = tf.constant(sample[:SAMPLE])

    def draw_graph(self, model: keras.Model, features: int) -> None:
        """Write the model's graph for the Graphs tab and make ready to read its readouts."""
        spec = tf.TensorSpec([None, features], tf.float32)
        # A graph of its own: the strategy's scope would bring its machinery into the picture.
        answer = tf.function(lambda angles: model(angles), input_signature=[spec])
        with self._train.as_default(step=0):
            tf.summary.graph(answer.get_concrete_function().graph)
        # Where a model of the person's own does not show its readouts, its answers stand for them.
        inner = readouts(model) or model

        @tf.function  # eagerly, each histogram costs some 30 small operations
        def draw_readouts(step: tf.Tensor) -> None:
            values = inner(self._sample)
            for i in range(values.shape[-1]):
                tf.summary.histogram(f"readout {i}", values[:, i], step=step)

        self._draw_readouts = lambda step: draw_readouts(tf.constant(step, tf.int64))

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Note the epoch's first step."""
        self._first = self.model.steps

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """The loss of each step since the last call, however many steps it held."""
        with self._steps.as_default():
            for loss in self.model.losses_since(self._first):
                self._first += 1
                tf.summary.scalar("loss by step", loss, step=self._first)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Write the epoch's scalars, histogram and line."""
        numbers = {name: float(value) for name, value in (logs or {}).items()}
        with self._train.as_default(step=epoch + 1):
            for name in ("mse", "accuracy", "learning_rate", "examples_per_second"):
                tf.summary.scalar(name.replace("_", " "), numbers[name])
            rate = numbers["examples_per_second"] * self._circuits
            tf.summary.scalar("circuits per second", rate)
        with self._validation.as_default(step=epoch + 1):
            tf.summary.scalar("mse", numbers["val_mse"])
            tf.summary.scalar("accuracy", numbers["val_accuracy"])
            self._draw_readouts(epoch + 1)
        for writer in (self._train, self._validation, self._steps):
            writer.flush()


class Record(keras.callbacks.Callback):
    """The chief's: metrics.jsonl, a line an epoch.

    Args:
        file: A local file; lines that an earlier attempt left for later epochs are dropped.
        epoch: Epochs done before this start.
    """

    def __init__(self, file: Path, epoch: int) -> None:
        super().__init__()
        self._file = file
        self._lines = epochs_before(file.read_text() if file.exists() else "", epoch)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Add the epoch's line."""
        numbers = {name: round(float(value), 6) for name, value in (logs or {}).items()}
        self._lines.append(json.dumps({"epoch": epoch + 1, **numbers}))
        write_whole(self._file, "".join(f"{line}\n" for line in self._lines).encode())


class Machine(keras.callbacks.Callback):
    """Each worker's own: CPU and memory an epoch, and a profile of the steps that PROFILE names."""

    def __init__(self, logs: Path, rank: int, settings: Settings) -> None:
        super().__init__()
        self._folder = logs / f"worker-{rank}"
        self._writer = tf.summary.create_file_writer(str(self._folder))
        self._process = psutil.Process()
        self._process.cpu_percent()
        first, _, last = settings.profile.partition(":")
        self._profile = (int(first), int(last)) if first else None
        self._profiling = False

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Start the profile before the host call that holds its first step."""
        if self._profile and not self._profiling:
            done = self.model.steps
            calls = self.model.steps_per_call
            if done + calls >= self._profile[0] and done < self._profile[1]:
                tf.profiler.experimental.start(str(self._folder))
                self._profiling = True

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Stop it after the host call that holds its last step."""
        if self._profiling and self._profile and self.model.steps >= self._profile[1]:
            self._stop_profile()

    def on_train_end(self, logs: dict | None = None) -> None:
        """Stop a profile whose last step never came."""
        if self._profiling:
            self._stop_profile()

    def _stop_profile(self) -> None:
        tf.profiler.experimental.stop()
        self._profiling, self._profile = False, None

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Write what this process used."""
        with self._writer.as_default(step=epoch + 1):
            tf.summary.scalar("worker CPU, percent of a core", self._process.cpu_percent())
            tf.summary.scalar("worker memory, MiB", self._process.memory_info().rss / 2**20)
        self._writer.flush()


def epochs_before(lines: str, epoch: int) -> list[str]:
    """The lines of a metrics.jsonl for epochs up to `epoch`: what a restart goes on from."""
    kept = []
    for line in lines.splitlines():
        try:
            number = json.loads(line)["epoch"]
        except (ValueError, KeyError, TypeError):
            continue  # cut short by a kill; the epoch is done again
        if number <= epoch:
            kept.append(line)
    return kept
