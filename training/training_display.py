"""Events of the workers on the launcher's output: lines, and a progress bar on a terminal."""

import sys
from collections.abc import Mapping
from typing import Any, Self

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from common import events
from common.events import Event
from common.metrics import NO_METRICS


class TrainingDisplay:
    """Shows events of workers. On a terminal, epochs move a progress bar instead of printing lines.

    Where this process streams its own events, it forwards those of the workers.
    """

    def __init__(self) -> None:
        self._bar: Progress | None = None
        if sys.stdout.isatty() and not events.is_streaming():
            self._bar = Progress(
                TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
                BarColumn(),
                TextColumn("{task.fields[metrics]}"),
                TimeRemainingColumn(compact=True),
                TextColumn("left"),
                transient=True,
            )
            self._task = self._bar.add_task(
                "", total=None, visible=False, epoch=0, epochs=0, metrics=""
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def show(self, event: Event) -> None:
        """Print the event, move the bar, or forward it."""
        if events.is_streaming():
            events.forward(event)
        elif event.kind in events.LOG_ONLY_KINDS:
            return
        elif self._bar is None:
            events.forward(event)
        elif event.kind in ("epoch", "progress"):
            self._move_bar(self._bar, event)
        elif event.kind == "error":
            self._bar.stop()
            events.forward(event)
        elif text := events.render(event):
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _move_bar(self, bar: Progress, event: Event) -> None:
        epoch, epochs = event.integer("epoch"), event.integer("epochs")
        fields: dict[str, Any] = {"epochs": epochs, "total": epochs, "visible": True}
        if event.kind == "epoch":
            fields["completed"] = float(epoch)
            fields |= {"epoch": epoch, "metrics": _format_metrics(event.mapping("metrics"))}
        else:
            steps = max(1, event.integer("steps", 1))
            fields["completed"] = epoch - 1 + event.integer("step") / steps
        bar.start()
        bar.update(self._task, **fields)


def _format_metrics(metrics: Mapping[str, object]) -> str:
    """Return the loss, the next metric and the validation loss in one line."""
    numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
    trained = [name for name in numbers if not name.startswith("val_") and name not in NO_METRICS]
    parts = [f"{name.replace('_', ' ')} {numbers[name]:.4g}" for name in trained[:2]]
    if trained and (validation := numbers.get(f"val_{trained[0]}")) is not None:
        parts.append(f"validation {validation:.4g}")
    return "  ".join(parts)
