"""Events of the workers on the launcher's output: lines, and a progress bar on a terminal."""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from common import events
from common.events import Event
from common.metrics import NO_METRICS
from common.settings import TrainingSettings
from common.waiting import PIPE_SECONDS
from training import learning_curve
from training.progress import initialization
from training.watchdog import REPORT_SECONDS

WIDE_COLUMNS = 110
"""Columns of a terminal that has room for an initialization and two metrics."""


class TrainingDisplay:
    """Shows events of workers. On a terminal, epochs move a progress bar instead of printing lines.

    The bar leaves a learning curve. Where this process streams its own events, it forwards those of
    the workers.

    A stage or an epoch that takes long has a line now and then.

    Args:
        settings: Epochs of each initialization.
        clock: Returns the time in seconds.
    """

    def __init__(
        self, settings: TrainingSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings, self._clock = settings, clock
        self._printed_time = clock()
        self._curves: dict[str, list[float]] = {}
        self._bar: Progress | None = None
        if sys.stdout.isatty() and not events.is_streaming():
            self._bar = Progress(
                TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
                TextColumn("{task.fields[phase]}"),
                BarColumn(),
                TextColumn("{task.fields[metrics]}"),
                TimeRemainingColumn(compact=True),
                TextColumn("left"),
                transient=True,
            )
            self._task = self._bar.add_task(
                "", total=None, visible=False, epoch=0, epochs=0, phase="", metrics=""
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._end_bar(self._bar)

    def show(self, event: Event) -> None:
        """Print the event, move the bar, or forward it."""
        if events.is_streaming():
            events.forward(event)
        elif event.kind in events.LOG_ONLY_KINDS or self._is_minor(event):
            return
        elif self._bar is None:
            self._print(event)
        elif event.kind in ("epoch", "progress"):
            self._move_bar(self._bar, event)
        elif event.kind in ("error", "run_finished"):
            self._end_bar(self._bar)
            events.forward(event)
        elif text := events.render(event):
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _is_minor(self, event: Event) -> bool:
        """Return True for a report that adds nothing: the bar moves, or a line is new."""
        if event.kind != "waiting" or event.items("missing"):
            return False
        if self._bar:
            return self._bar.live.is_started and event.number("seconds") < REPORT_SECONDS
        return self._clock() < self._printed_time + PIPE_SECONDS

    def _print(self, event: Event) -> None:
        """Print the event, or the step of an epoch that takes long."""
        if event.kind == "progress":
            if self._clock() < self._printed_time + PIPE_SECONDS:
                return
            step, steps = event.integer("step"), event.integer("steps")
            place = f"epoch {event.integer('epoch')}/{event.integer('epochs')}"
            event = replace(event, message=f"{place}  step {step} of {steps}")
        if events.render(event):
            self._printed_time = self._clock()
        events.forward(event)

    def _move_bar(self, bar: Progress, event: Event) -> None:
        epoch, epochs = event.integer("epoch"), event.integer("epochs")
        fields: dict[str, Any] = {"epochs": epochs, "total": epochs, "visible": True}
        fields["phase"] = initialization(self._settings, epoch)
        if event.kind == "epoch":
            self._keep_losses(event.mapping("metrics"))
            fields["completed"] = float(epoch)
            shown = 1 if fields["phase"] and bar.console.width < WIDE_COLUMNS else 2
            fields |= {"epoch": epoch, "metrics": _format_metrics(event.mapping("metrics"), shown)}
        else:
            steps = max(1, event.integer("steps", 1))
            fields["completed"] = epoch - 1 + event.integer("step") / steps
        bar.start()
        bar.update(self._task, **fields)

    def _keep_losses(self, metrics: Mapping[str, object]) -> None:
        """Add the loss and the validation loss to the curves."""
        for name in _losses(metrics):
            if isinstance(value := metrics[name], int | float):
                self._curves.setdefault(name, []).append(value)

    def _end_bar(self, bar: Progress) -> None:
        """Replace the bar by the curves of the epochs that it showed."""
        bar.stop()
        ascii_only = bar.console.options.ascii_only
        shown = {_title(name): values for name, values in self._curves.items() if len(values) > 1}
        self._curves = {}
        width = max(map(len, shown), default=0)
        for title, values in shown.items():
            text = learning_curve.describe(title.ljust(width), values, ascii_only=ascii_only)
            bar.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _format_metrics(metrics: Mapping[str, object], count: int = 2) -> str:
    """Return the first metrics of the training split and the validation loss in one line."""
    numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
    trained = _trained(numbers)
    parts = [f"{name.replace('_', ' ')} {numbers[name]:.4g}" for name in trained[:count]]
    if trained and (validation := numbers.get(f"val_{trained[0]}")) is not None:
        parts.append(f"validation {validation:.4g}")
    return "  ".join(parts)


def _trained(metrics: Mapping[str, object]) -> list[str]:
    """Return the names of the metrics of the training split, the loss first."""
    return [name for name in metrics if not name.startswith("val_") and name not in NO_METRICS]


def _losses(metrics: Mapping[str, object]) -> list[str]:
    """Return the names of the loss and the validation loss."""
    loss = _trained(metrics)[:1]
    return [name for one in loss for name in (one, f"val_{one}") if name in metrics]


def _title(name: str) -> str:
    return name.replace("val_", "validation ").replace("_", " ")
