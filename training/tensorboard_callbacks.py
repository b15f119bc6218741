"""What TensorBoard shows of a run, and metrics.jsonl: written while it trains."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil

from common.models import readout_model
from common.settings import Settings
from common.storage import write_atomic
from qfleet.tensorflow.runtime import keras, tf
from training.limits import STEP_PARTS

# Keras numbers its marks of steps anew in each epoch, and TensorBoard takes marks of one number for
# one step: while a profile is taken they are numbered through the run.
_PROFILER = keras.src.engine.training.tf.profiler.experimental
_MARK = _PROFILER.Trace

# The readouts' histogram is drawn from so many validation examples.
READOUT_SAMPLE_ROWS = 256


class TensorBoardCallback(keras.callbacks.Callback):
    """The chief's: scalars of training and validation, readouts, learning rate and rates.

    logs/train and logs/validation hold the scalars by epoch; logs/steps the loss of each step,
    also of those inside one host call, up to learner.TRACE; logs/train also the model's graph.

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
        self._sample = tf.constant(sample[:READOUT_SAMPLE_ROWS])
        self._draw_readouts: Callable[[int], None] = lambda step: None

    def draw_graph(self, model: keras.Model, features: int) -> None:
        """Write the model's graph for the Graphs tab and make ready to read its readouts."""
        spec = tf.TensorSpec([None, features], tf.float32)
        # A graph of its own: the strategy's scope would bring its machinery into the picture.
        answer = tf.function(lambda angles: model(angles), input_signature=[spec])
        with self._train.as_default(step=0):
            tf.summary.graph(answer.get_concrete_function().graph)
        # Where a model of the person's own does not show its readouts, its answers stand for them.
        inner = readout_model(model) or model

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
        """The loss of each step since the last call, or of the newest that the learner keeps."""
        losses, steps = self.model.losses_since(self._first), self.model.steps
        with self._steps.as_default():
            for step, loss in enumerate(losses, steps - len(losses) + 1):
                tf.summary.scalar("loss by step", loss, step=step)
        self._first = steps

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


class MetricsJsonlCallback(keras.callbacks.Callback):
    """The chief's: metrics.jsonl, a line an epoch.

    Args:
        file: A local file; lines that an earlier attempt left for later epochs are dropped.
        epoch: Epochs done before this start.
    """

    def __init__(self, file: Path, epoch: int) -> None:
        super().__init__()
        self._file = file
        self._lines = truncate_metrics(file.read_text() if file.exists() else "", epoch)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Add the epoch's line."""
        numbers = {name: round(float(value), 6) for name, value in (logs or {}).items()}
        self._lines.append(json.dumps({"epoch": epoch + 1, **numbers}))
        write_atomic(self._file, "".join(f"{line}\n" for line in self._lines).encode())


def profile_step_range(settings: Settings) -> range:
    """Steps of the run that PROFILE names, counted from 1; none where it is not set."""
    first, _, last = settings.monitoring.profile_steps.partition(":")
    return range(int(first), int(last) + 1) if first else range(0)


class ResourceCallback(keras.callbacks.Callback):
    """Each worker's own: where a step's time went, CPU and memory, by epoch; and a profile.

    Stands before what else happens at an epoch's end, so that a profile holds its steps alone.
    Keras marks each host call as a step around its callbacks, and the profiler keeps the marks that
    begin and end while it runs: so it starts after the call before, and stops in the one behind.

    Args:
        logs: The folder of all events.
        rank: This worker's number.
        profiled: Steps of the run to profile, counted from 1; each in a host call of its own.
    """

    def __init__(self, logs: Path, rank: int, profiled: range) -> None:
        super().__init__()
        self._folder = logs / f"worker-{rank}"
        self._writer = tf.summary.create_file_writer(str(self._folder))
        self._process = psutil.Process()
        self._process.cpu_percent()
        self._profiled = profiled
        self._profiling = False

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Start the profile before an epoch's first step, if that is the first to profile."""
        self._start_profile()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Start the profile behind the step before its first."""
        self._start_profile()

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Stop it behind its last step."""
        self._stop_profile()

    def on_train_end(self, logs: dict | None = None) -> None:
        """Stop a profile whose last step never came."""
        self._stop_profile(anyhow=True)

    def _start_profile(self) -> None:
        if self._profiled and not self._profiling and self.model.steps + 1 in self._profiled:
            tf.profiler.experimental.start(str(self._folder))
            _PROFILER.Trace = self._mark
            self._profiling = True

    def _stop_profile(self, *, anyhow: bool = False) -> None:
        if self._profiling and (anyhow or self.model.steps + 1 not in self._profiled):
            tf.profiler.experimental.stop()
            _PROFILER.Trace = _MARK
            self._profiling, self._profiled = False, range(0)

    def _mark(self, name: str, **about: object) -> tf.profiler.experimental.Trace:
        return _MARK(name, **{**about, "step_num": self.model.steps + 1})

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Write where a step's time went, and what this process used."""
        self._stop_profile()
        with self._writer.as_default(step=epoch + 1):
            for part in STEP_PARTS:
                tf.summary.scalar(f"step/{part}, ms", (logs or {})[f"{part}_ms"])
            tf.summary.scalar("worker CPU, percent of a core", self._process.cpu_percent())
            tf.summary.scalar("worker memory, MiB", self._process.memory_info().rss / 2**20)
        self._writer.flush()


def truncate_metrics(lines: str, epoch: int) -> list[str]:
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
