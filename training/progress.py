"""Progress of training as events: the line per epoch, and steps of long epochs."""

import logging
import math
import time
from collections.abc import Mapping

from common.events import emit, log_event

STEP_REPORT_INTERVAL_SECONDS = 2.0
"""Shortest interval between two reports of steps."""

_REPORTED_METRICS = ("mse", "accuracy", "val_mse", "val_accuracy", "examples_per_second")


class ProgressReporter:
    """Reports epochs and steps of one worker.

    Args:
        epochs: Epochs of the whole run.
        steps_per_epoch: Steps in a whole epoch.
        is_chief: The chief's epochs are printed; other workers write them to their text logs only.
    """

    def __init__(self, epochs: int, steps_per_epoch: int, *, is_chief: bool) -> None:
        self._epochs, self._steps_per_epoch = epochs, steps_per_epoch
        self._is_chief = is_chief
        self._next_report = 0.0

    def report_step(self, epoch: int, step: int) -> None:
        """Report how many steps of an epoch (counted from 0) are done, at most every 2 s."""
        now = time.monotonic()
        if self._is_chief and now >= self._next_report:
            self._next_report = now + STEP_REPORT_INTERVAL_SECONDS
            emit(
                "progress",
                epoch=epoch + 1,
                epochs=self._epochs,
                step=step,
                steps=self._steps_per_epoch,
            )

    def report_epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Report the metrics of an epoch (counted from 0)."""
        text = (
            f"epoch {epoch + 1}/{self._epochs}"
            f"  mse {metrics['mse']:.4f}  accuracy {metrics['accuracy']:.3f}"
            f"  validation {metrics['val_mse']:.4f} {metrics['val_accuracy']:.3f}"
            f"  {metrics['examples_per_second']:,.0f} examples/s"
        )
        if self._is_chief:
            numbers = {name: float(metrics[name]) for name in _REPORTED_METRICS}
            shown = {name: value for name, value in numbers.items() if math.isfinite(value)}
            log_event("epoch", text, epoch=epoch + 1, epochs=self._epochs, metrics=shown)
        else:
            logging.getLogger("qfleet").debug(text)
