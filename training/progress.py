"""What a person sees while it trains: a bar on a terminal, a line an epoch elsewhere."""

import logging
import sys
import time
from collections.abc import Callable
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from common.errors import leave_word
from common.runs import Run
from common.tensorflow import keras

log = logging.getLogger("qfleet")


class Clock(keras.callbacks.Callback):
    """Adds to an epoch's numbers how long it took, its rate, and the learning rate.

    Stands first in the list, so that the callbacks behind it see what it adds.

    Args:
        steps: Steps in a whole epoch.
        examples: Training examples in an epoch.
    """

    def __init__(self, steps: int, examples: int) -> None:
        super().__init__()
        self._steps, self._examples = steps, examples

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Start the clock."""
        self._began = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Add the numbers."""
        if logs is None:
            return
        share = 1 - self.model.offset / self._steps  # an epoch taken up in its middle is shorter
        seconds = time.monotonic() - self._began
        logs["seconds"] = seconds
        logs["examples_per_second"] = share * self._examples / max(seconds, 1e-9)
        logs["learning_rate"] = float(keras.backend.get_value(self.model.optimizer.learning_rate))


class Validation(keras.callbacks.Callback):
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


class Report(keras.callbacks.Callback):
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


def summary(run: Run, result: dict[str, Any]) -> None:
    """Say how it ended, where the run is, and what to say next."""
    test = result["metrics"]["test"]
    seconds = result["seconds"]
    done = f"done in {seconds:.0f} s: test mse {test['mse']:.4f}, accuracy {test['accuracy']:.3f}"
    leave_word(done)
    log.info(
        f"{done}\n"
        f"the run is in {run.path}\n"
        f"next:  make inference RUN={run.name}\n"
        f"       make tensorboard RUN={run.name}"
    )
