"""Epochs as they are reported: throughput, validation metrics, and the line per epoch."""

from collections.abc import Callable

import numpy as np

from qfleet.tensorflow.runtime import keras
from training.callbacks.reporter import ProgressReporter
from training.step.constants import STEP_PARTS
from training.step.local_part import local_part


class ThroughputCallback(keras.callbacks.Callback):
    """Adds duration, throughput, time per part of a step, and learning rate to an epoch's metrics.

    It is the first callback, so that later ones see what it adds, and that their work at the end of
    an epoch is not counted.

    Args:
        steps: Steps in a whole epoch.
        examples: Training examples in an epoch.
    """

    def __init__(self, steps: int, examples: int) -> None:
        super().__init__()
        self._steps, self._examples = steps, examples
        self._step_seconds: list[np.ndarray] = []  # by epoch: seconds per step, by STEP_PARTS

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Add the numbers."""
        if logs is None:
            return
        times = self.model.times.seconds
        steps = self._steps - self.model.epoch_step_offset  # a resumed epoch is shorter
        self._step_seconds.append(times / steps)
        logs["seconds"] = times.sum()
        logs["examples_per_second"] = steps / self._steps * self._examples / times.sum()
        logs |= {
            f"{name}_ms": 1e3 * part / steps for name, part in zip(STEP_PARTS, times, strict=True)
        }
        logs["learning_rate"] = float(local_part(self.model.optimizer.learning_rate).numpy())

    @property
    def summary(self) -> str:
        """Time of a step by parts, in the epoch of the median step; empty without epochs.

        The median ignores the first epoch, which also traces the graph.
        """
        if not self._step_seconds:
            return ""
        by_time = sorted(self._step_seconds, key=np.sum)
        step = 1e3 * by_time[(len(by_time) - 1) // 2]
        parts = ", ".join(f"{name} {part:.1f}" for name, part in zip(STEP_PARTS, step, strict=True))
        return f"Time per step: {step.sum():.1f} ms ({parts})"


class ValidationCallback(keras.callbacks.Callback):
    """Adds the metrics of the validation split to an epoch's, as val_mse and so on.

    Args:
        measure: Measures the split, by all workers together.
    """

    def __init__(self, measure: Callable[[], dict[str, float]]) -> None:
        super().__init__()
        self._measure = measure

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Add the metrics."""
        if logs is not None:
            logs |= {f"val_{name}": number for name, number in self._measure().items()}


class ProgressCallback(keras.callbacks.Callback):
    """Reports steps and epochs.

    Args:
        reporter: Logs them and emits events.
    """

    def __init__(self, reporter: ProgressReporter) -> None:
        super().__init__()
        self._reporter = reporter
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Keep the number of the epoch."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Report the steps of this epoch that are done."""
        self._reporter.report_step(self._epoch, self.model.epoch_step_offset + batch + 1)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Report the epoch's metrics."""
        self._reporter.report_epoch(epoch, logs or {})
