"""Profiles of chosen steps, and resources of a worker, for TensorBoard."""

from collections.abc import Callable
from pathlib import Path

import psutil

from qfleet.tensorflow.runtime import keras, tf
from training.callbacks.event_file import EventFile
from training.step.constants import STEP_PARTS


def parse_profile_steps(profile_steps: str) -> range:
    """Return the steps of the run that PROFILE_STEPS names, counted from 1; empty if unset."""
    first, _, last = profile_steps.partition(":")
    return range(int(first), int(last) + 1) if first else range(0)


class ProfilerCallback(keras.callbacks.Callback):
    """Takes a profile of the steps of PROFILE_STEPS.

    It comes before callbacks that work at the end of an epoch, so that the profile holds steps
    only. Keras marks each host call as a step around its callbacks, and the profiler keeps marks
    that begin and end while it runs. So it starts after the previous call, and stops in the next.

    Args:
        folder: The worker's folder of events.
        steps: Steps of the run to profile, counted from 1. Each takes a host call of its own.
    """

    def __init__(self, folder: Path, steps: range) -> None:
        super().__init__()
        self._folder = folder
        self._steps = steps
        self._unpatch: Callable[[], None] | None = None

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Start the profile if the first step of the epoch is the first to profile."""
        self._start()

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Stop the profile after its last step."""
        self._stop()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Start the profile after the step before its first."""
        self._start()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Stop the profile after its last step."""
        self._stop()

    def on_train_end(self, logs: dict | None = None) -> None:
        """Stop a profile whose last step was not reached."""
        self._stop(force=True)

    def _start(self) -> None:
        if self._unpatch is None and self.model.steps + 1 in self._steps:
            tf.profiler.experimental.start(str(self._folder))
            self._unpatch = number_step_marks(lambda: self.model.steps + 1)

    def _stop(self, *, force: bool = False) -> None:
        if self._unpatch and (force or self.model.steps + 1 not in self._steps):
            tf.profiler.experimental.stop()
            self._unpatch()
            self._unpatch, self._steps = None, range(0)


def number_step_marks(current_step: Callable[[], int]) -> Callable[[], None]:
    """Make Keras number its step marks through the run while a profile is taken.

    Keras restarts the numbers of `profiler.experimental.Trace` in each epoch, and TensorBoard
    merges marks of equal numbers. Keras has no option for that, so its `Trace` is replaced.

    Args:
        current_step: Returns the number of the step, counted from 1.

    Returns:
        A function that restores Keras' own `Trace`.
    """
    profiler = keras.src.engine.training.tf.profiler.experimental
    original = profiler.Trace

    def numbered(name: str, **fields: object) -> tf.profiler.experimental.Trace:
        return original(name, **{**fields, "step_num": current_step()})

    def restore() -> None:
        profiler.Trace = original

    profiler.Trace = numbered
    return restore


class ResourceCallback(keras.callbacks.Callback):
    """Writes time per part of a step, CPU and memory of this worker, per epoch.

    Args:
        folder: The worker's folder of events.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._events = EventFile(folder)
        self._process = psutil.Process()
        self._process.cpu_percent()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Write the scalars."""
        parts = {f"step/{part}, ms": (logs or {})[f"{part}_ms"] for part in STEP_PARTS}
        resources = {
            "worker CPU, percent of a core": self._process.cpu_percent(),
            "worker memory, MiB": self._process.memory_info().rss / 2**20,
        }
        self._events.write_scalars(epoch + 1, parts | resources)
        self._events.flush()
