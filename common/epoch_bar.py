"""The progress bar of a training on a terminal, which leaves a learning curve when it ends."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from common.events import Event
from common.metrics import NO_METRICS

WIDE_COLUMNS = 110
"""Columns of a terminal that has room for an initialization and two metrics."""

WIDTH = 48
"""Most characters of a learning curve."""

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII_BLOCKS = "_.-~=+*#"
"""The same from low to high, where the terminal's encoding has no blocks."""


class EpochBar:
    """Shows events `epoch` and `progress` as a bar.

    Args:
        console: Where the bar and the curves are printed.
    """

    def __init__(self, console: Console) -> None:
        self._curves: dict[str, list[float]] = {}
        self.bar = Progress(
            TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            TextColumn("{task.fields[phase]}"),
            BarColumn(),
            TextColumn("{task.fields[metrics]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
            transient=True,
        )
        self._task = self.bar.add_task(
            "", total=None, visible=False, epoch=0, epochs=0, phase="", metrics=""
        )

    @property
    def is_shown(self) -> bool:
        """True between the first epoch or step and `end`."""
        return self.bar.live.is_started

    def move(self, event: Event) -> bool:
        """Move the bar; False if the event is not about epochs."""
        if event.kind not in ("epoch", "progress"):
            return False
        epoch, epochs = event.integer("epoch"), event.integer("epochs")
        phase = event.text("phase")
        fields: dict[str, Any] = {"epochs": epochs, "total": epochs, "visible": True}
        fields["phase"] = phase
        if event.kind == "epoch":
            self._keeplosses(event.mapping("metrics"))
            fields["completed"] = float(epoch)
            shown = 1 if phase and self.bar.console.width < WIDE_COLUMNS else 2
            fields |= {"epoch": epoch, "metrics": _format_metrics(event.mapping("metrics"), shown)}
        else:
            steps = max(1, event.integer("steps", 1))
            fields["completed"] = epoch - 1 + event.integer("step") / steps
        self.bar.start()
        self.bar.update(self._task, **fields)
        return True

    def end(self) -> None:
        """Replace the bar by the curves of the epochs that it showed."""
        self.bar.stop()
        console = self.bar.console
        shown = {_title(name): values for name, values in self._curves.items() if len(values) > 1}
        self._curves = {}
        width = max(map(len, shown), default=0)
        for title, values in shown.items():
            ascii_only = console.options.ascii_only
            text = _describe(title.ljust(width), values, ascii_only=ascii_only)
            console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _keeplosses(self, metrics: Mapping[str, object]) -> None:
        """Add the loss and the validation loss to the curves."""
        for name in losses(metrics):
            if isinstance(value := metrics[name], int | float):
                self._curves.setdefault(name, []).append(value)


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


def losses(metrics: Mapping[str, object]) -> list[str]:
    """Return the names of the loss and the validation loss."""
    loss = _trained(metrics)[:1]
    return [name for one in loss for name in (one, f"val_{one}") if name in metrics]


def _title(name: str) -> str:
    return name.replace("val_", "validation ").replace("_", " ")


def curve(
    values: Sequence[float],
    *,
    ascii_only: bool = False,
    width: int = WIDTH,
    bounds: Sequence[float] = (),
) -> str:
    """Return values as characters of different heights, the lowest value as the lowest one.

    Args:
        values: One value or more. Each character shows the mean of as many values as the others.
        ascii_only: Use ASCII.
        width: Most characters.
        bounds: More values that the lowest and the highest character stand for.
    """
    blocks = ASCII_BLOCKS if ascii_only else BLOCKS
    count = min(width, len(values))
    ends = [len(values) * (i + 1) // count for i in range(count)]
    means = [
        sum(values[start:end]) / (end - start) for start, end in zip([0, *ends], ends, strict=False)
    ]
    low, high = min([*means, *bounds]), max([*means, *bounds])
    scale = (len(blocks) - 1) / (high - low) if high > low else 0.0
    return "".join(blocks[round(scale * (mean - low))] for mean in means)


def _describe(name: str, values: Sequence[float], *, ascii_only: bool = False) -> str:
    """Return the curve between the first and the last value."""
    drawn = curve(values, ascii_only=ascii_only)
    return f"{name} {values[0]:.4g} {drawn} {values[-1]:.4g}"
