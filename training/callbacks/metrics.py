"""metrics.jsonl: one line of metrics per epoch."""

import json
import math
from collections.abc import Sequence

from qfleet.tensorflow.runtime import keras
from training.process.run_dir import LocalRunDir


class MetricsJsonlCallback(keras.callbacks.Callback):
    """Writes metrics.jsonl, one line per epoch, the loss first, on the chief.

    Args:
        run_dir: Folder of the file. Lines of later epochs, which an earlier attempt wrote, are
            dropped.
        metrics: Names of the metrics, the loss first.
        epoch: Epochs that were done before this attempt.
    """

    def __init__(self, run_dir: LocalRunDir, metrics: Sequence[str], epoch: int) -> None:
        super().__init__()
        self._run_dir = run_dir
        self._first = [*metrics, *(f"val_{name}" for name in metrics)]
        self._lines = run_dir.metrics_until(epoch)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Add the line of the epoch."""
        logs = logs or {}
        ordered = [name for name in self._first if name in logs]
        names = [*ordered, *(name for name in logs if name not in ordered)]
        numbers = {name: finite_or_none(logs[name]) for name in names}
        self._lines.append(json.dumps({"epoch": epoch + 1, **numbers}, allow_nan=False))
        self._run_dir.write_metrics(self._lines)


def finite_or_none(value: float) -> float | None:
    """Return a rounded number; None where it is infinite or NaN, which JSON can't express."""
    return round(float(value), 6) if math.isfinite(value) else None
