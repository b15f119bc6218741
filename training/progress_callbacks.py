"""What a person sees while it trains: a bar on a terminal, a line an epoch elsewhere."""

import logging
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from common.errors import write_termination_message
from common.runs import Run
from qfleet.tensorflow.runtime import keras
from training.limits import STEP_PARTS

log = logging.getLogger("qfleet")


class ThroughputCallback(keras.callbacks.Callback):
    """Adds to an epoch's numbers its time, its rate, where a step's time went, the learning rate.

    Stands first in the list, so that the callbacks behind it see what it adds, and that none of
    their work at an epoch's end is counted.

    Args:
        steps: Steps in a whole epoch.
        examples: Training examples in an epoch.
    """

    def __init__(self, steps: int, examples: int) -> None:
        super().__init__()
        self._steps, self._examples = steps, examples
        self._epochs: list[np.ndarray] = []

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Add the numbers."""
        if logs is None:
            return
        times = self.model.times
        steps = self._steps - self.model.offset  # an epoch taken up in its middle is shorter
        self._epochs.append(times / steps)
        logs["seconds"] = times.sum()
        logs["examples_per_second"] = steps / self._steps * self._examples / times.sum()
        logs |= {
            f"{name}_ms": 1e3 * part / steps for name, part in zip(STEP_PARTS, times, strict=True)
        }
        logs["learning_rate"] = float(keras.backend.get_value(self.model.optimizer.learning_rate))

    @property
    def said(self) -> str:
        """Where a step's time went in the epoch of the median step; empty where there was none.

        The first epoch also makes the graph, which is no step's time.
        """
        if not self._epochs:
            return ""
        by_time = sorted(self._epochs, key=np.sum)
        step = 1e3 * by_time[(len(by_time) - 1) // 2]
        parts = ", ".join(f"{name} {part:.1f}" for name, part in zip(STEP_PARTS, step, strict=True))
        return f"a step took {step.sum():.1f} ms: {parts}"


class ValidationCallback(keras.callbacks.Callback):
    """Adds to an epoch's numbers those of the validation split, as val_mse and so on.

    Args:
        measure: Measures the split, by all workers together.
    """

    def __init__(self, measure: Callable[[], dict[str, float]]) -> None:
        super().__init__()
        self._measure = measure

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Add the numbers."""
        if logs is not None:
            logs |= {f"val_{name}": number for name, number in self._measure().items()}


class ProgressCallback(keras.callbacks.Callback):
    """Shows error, accuracy, examples per second and the time left.

    Args:
        epochs: Epochs in the whole run.
        steps: Steps in a whole epoch.
        done: Epochs that were done before this start.
        shown: Whether the person sees it: the chief's. The others' goes to their text logs.
    """

    def __init__(self, epochs: int, steps: int, done: int = 0, *, shown: bool = True) -> None:
        super().__init__()
        self._epochs, self._steps, self._done = epochs, steps, done
        self._bar: Progress | None = None
        self._level = logging.INFO if shown else logging.DEBUG
        if shown and sys.stdout.isatty():
            self._level = logging.DEBUG
            self._bar = Progress(
                TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
                BarColumn(),
                TextColumn("{task.fields[numbers]}"),
                TimeRemainingColumn(compact=True),
                TextColumn("left"),
                transient=True,
            )
            self._task = self._bar.add_task(
                "", total=epochs * steps, completed=done * steps, epoch=done, epochs=epochs,
                numbers="",
            )  # fmt: skip

    def on_train_begin(self, logs: dict | None = None) -> None:
        """Draw the bar."""
        if self._bar:
            self._bar.start()

    def stop(self) -> None:
        """Take the bar away, whatever ended training."""
        if self._bar:
            self._bar.stop()

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Move the bar."""
        if self._bar:
            done = self._done * self._steps + self.model.offset + batch + 1
            self._bar.update(self._task, completed=done)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Say how the epoch went."""
        logs = logs or {}
        self._done = epoch + 1
        numbers = (
            f"mse {logs['mse']:.4f}  accuracy {logs['accuracy']:.3f}"
            f"  validation {logs['val_mse']:.4f} {logs['val_accuracy']:.3f}"
            f"  {logs['examples_per_second']:,.0f} examples/s"
        )
        if self._bar:
            completed = self._done * self._steps
            self._bar.update(self._task, completed=completed, epoch=self._done, numbers=numbers)
        log.log(self._level, f"epoch {self._done}/{self._epochs}  {numbers}")


def log_summary(run: Run, result: dict[str, Any], step: str = "") -> None:
    """Say how it ended, what a step took, where the run is, and what to say next."""
    test = result["metrics"]["test"]
    seconds = result["seconds"]
    done = f"done in {seconds:.0f} s: test mse {test['mse']:.4f}, accuracy {test['accuracy']:.3f}"
    write_termination_message(done)
    lines = [done, *filter(None, [step]), f"the run is in {run.path}"]
    lines += [f"next:  make inference {run.words}", f"       make tensorboard {run.words}"]
    log.info("\n".join(lines))
