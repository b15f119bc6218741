"""metrics.jsonl: one line of metrics per epoch."""

import json
from pathlib import Path

from common.storage import write_atomic
from qfleet.tensorflow.runtime import keras


class MetricsJsonlCallback(keras.callbacks.Callback):
    """Writes metrics.jsonl, one line per epoch, on the chief.

    Args:
        file: A local file. Lines of later epochs, which an earlier attempt wrote, are dropped.
        epoch: Epochs that were done before this attempt.
    """

    def __init__(self, file: Path, epoch: int) -> None:
        super().__init__()
        self._file = file
        self._lines = truncate_metrics(file.read_text() if file.exists() else "", epoch)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Add the line of the epoch."""
        numbers = {name: round(float(value), 6) for name, value in (logs or {}).items()}
        self._lines.append(json.dumps({"epoch": epoch + 1, **numbers}))
        write_atomic(self._file, "".join(f"{line}\n" for line in self._lines).encode())


def truncate_metrics(lines: str, epoch: int) -> list[str]:
    """Return the lines of a metrics.jsonl for epochs up to `epoch`."""
    kept = []
    for line in lines.splitlines():
        try:
            number = json.loads(line)["epoch"]
        except (ValueError, KeyError, TypeError):
            continue  # cut short by a kill; the epoch is trained again
        if number <= epoch:
            kept.append(line)
    return kept
