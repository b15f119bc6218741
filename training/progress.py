"""Progress of training as events: the line per epoch, and steps of long epochs."""

import logging
import math
import time
from collections.abc import Mapping, Sequence

from common.events import emit, log_event
from common.metrics import line, number

STEP_REPORT_INTERVAL_SECONDS = 2.0
"""Shortest interval between two reports of steps."""


class ProgressReporter:
    """Reports epochs and steps of one worker.

    Args:
        epochs: Epochs of the whole run.
        steps_per_epoch: Steps in a whole epoch.
        metrics: Names of the metrics, the loss first.
        is_chief: The chief's epochs are printed; other workers write them to their text logs only.
    """

    def __init__(
        self, epochs: int, steps_per_epoch: int, metrics: Sequence[str], *, is_chief: bool
    ) -> None:
        self._epochs, self._steps_per_epoch = epochs, steps_per_epoch
        self._metrics = metrics
        self._is_chief = is_chief
        self._next_report = 0.0

    @property
    def _reported(self) -> list[str]:
        validated = [f"val_{name}" for name in self._metrics]
        return [*self._metrics, *validated, "examples_per_second"]

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
        trained = line({name: metrics[name] for name in self._metrics}, separator="  ")
        validated = " ".join(number(name, metrics[f"val_{name}"]) for name in self._metrics)
        text = (
            f"epoch {epoch + 1}/{self._epochs}  {trained}  validation {validated}"
            f"  {metrics['examples_per_second']:,.0f} examples/s"
        )
        if self._is_chief:
            numbers = {name: float(metrics[name]) for name in self._reported}
            shown = {name: value for name, value in numbers.items() if math.isfinite(value)}
            log_event("epoch", text, epoch=epoch + 1, epochs=self._epochs, metrics=shown)
        else:
            logging.getLogger("qfleet").debug(text)
