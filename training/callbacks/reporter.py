"""Progress of training as events: the line per epoch, and steps of long epochs."""

import logging
import math
import time
from collections.abc import Mapping, Sequence

from common.events import emit, log_event
from common.metrics import line, number
from common.settings import TrainingSettings
from training.callbacks.trainjob_status import TrainJobStatus

STEP_REPORT_INTERVAL_SECONDS = 2.0
"""Shortest interval between two reports of steps."""


def initialization(settings: TrainingSettings, epoch: int) -> str:
    """Return which initialization an epoch (counted from 1) trains; nothing in the main phase."""
    if epoch > settings.initialization_phase_epochs:
        return ""
    index = (epoch - 1) // settings.epochs_per_initialization
    return f"initialization {index + 1} of {settings.initialization_count}"


class ProgressReporter:
    """Reports epochs and steps of one worker.

    Args:
        settings: Epochs of the whole run and of its initializations.
        steps_per_epoch: Steps in a whole epoch.
        metrics: Names of the metrics, the loss first.
        is_chief: The chief's epochs are printed; other workers write them to their text logs only.
        status: Gets the progress, too.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        steps_per_epoch: int,
        metrics: Sequence[str],
        *,
        is_chief: bool,
        status: TrainJobStatus,
    ) -> None:
        self._settings, self._epochs = settings, settings.epochs
        self._steps_per_epoch = steps_per_epoch
        self._metrics = metrics
        self._is_chief, self._status = is_chief, status
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
                phase=initialization(self._settings, epoch + 1),
            )
            self._report_status(epoch * self._steps_per_epoch + step)

    def report_epoch(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Report the metrics of an epoch (counted from 0)."""
        trained = line({name: metrics[name] for name in self._metrics}, separator="  ")
        validated = " ".join(number(name, metrics[f"val_{name}"]) for name in self._metrics)
        phase = initialization(self._settings, epoch + 1)
        parts = [
            f"epoch {epoch + 1}/{self._epochs}",
            phase,
            f"{trained}  validation {validated}",
            f"{metrics['examples_per_second']:,.0f} examples/s",
        ]
        text = "  ".join(filter(None, parts))
        if self._is_chief:
            numbers = {name: float(metrics[name]) for name in self._reported}
            shown = {name: value for name, value in numbers.items() if math.isfinite(value)}
            log_event(
                "epoch", text, epoch=epoch + 1, epochs=self._epochs, metrics=shown, phase=phase
            )
            self._report_status((epoch + 1) * self._steps_per_epoch, shown)
        else:
            logging.getLogger("qfleet").debug(text)

    def _report_status(self, done: int, metrics: Mapping[str, float] | None = None) -> None:
        self._status.report(done, self._epochs * self._steps_per_epoch, metrics)
