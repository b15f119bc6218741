"""What only the chief does: open the run, make the data, lead the gate, keep, publish."""

import json
import logging
import platform
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from common import checkpoints, models, runs, storage
from common.data import Dataset, prepare
from common.errors import QfleetError, one_line
from common.settings import Settings
from training.cluster import Cluster
from training.gate import Gate
from training.keeper import Snapshot
from training.order import Order

log = logging.getLogger("qfleet")


class Chief:
    """The run in the chief's hands. A context: leaving it gives the run up, with the cause."""

    def __init__(self, root: Any, settings: Settings, cluster: Cluster) -> None:
        self._root, self._settings, self._cluster = root, settings, cluster
        self._began = time.monotonic()
        # Listening comes first: workers find the chief while it still makes the data set.
        self._gate = Gate(cluster, settings.gate_port) if cluster.size > 1 else None
        self.run: runs.Run

    def __enter__(self) -> Self:
        return self

    def gather(self) -> Order:
        """Open or resume the run, make the data set, and send the gang off.

        Returns:
            What every worker was told.

        Raises:
            RunError: The run is another's, or has made no progress in ATTEMPTS starts.
            RendezvousTimeout: Workers are missing.
        """
        settings = self._settings
        data = prepare(settings, self._root / runs.DATASETS)
        self.run = runs.open_for_training(
            self._root,
            settings.run_name,
            settings,
            data_fingerprint=data.manifest.fingerprint,
            versions=_versions(),
        )
        attempt = self.run.begin_attempt(settings.attempts)
        self.resumed = checkpoints.newest(self.run.path)
        order = Order(
            run=self.run.name,
            attempt=attempt,
            data=str(data.path),
            checkpoint=self.resumed.step if self.resumed else None,
        )
        log.info(self._greeting(data, attempt))
        if self._gate:
            self._gate.open(order.to_json(), settings.rendezvous_timeout)
        return order

    def _greeting(self, data: Dataset, attempt: int) -> str:
        rows = ", ".join(f"{data.rows(split):,} {split}" for split in data.splits)
        if self.resumed:
            where = f"goes on at step {self.resumed.state['step']} of epoch"
            where += f" {self.resumed.state['epoch'] + 1} (attempt {attempt})"
        else:
            where = "begins" if attempt == 1 else f"begins anew (attempt {attempt})"
        return f"run {self.run.name} {where}: {self.run.path}; {data.name}: {rows} examples"

    def commit(self, snapshot: Snapshot) -> None:
        """Write a checkpoint; the attempts are counted from it on."""
        self.run.check()
        checkpoints.save(
            self.run.path,
            snapshot.steps,
            snapshot.arrays,
            snapshot.state,
            keep=self._settings.keep_checkpoints,
        )
        self.run.progressed()

    def publish(
        self, model: keras.Model, data: Dataset, metrics: dict[str, dict[str, float]]
    ) -> dict[str, Any]:
        """Write the weights, model.json and, last, result.json, which makes the run finished."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "weights.h5"
            model.save_weights(file)
            weights = file.read_bytes()
        described = models.describe(model, data.features, self._settings, data.manifest.encoding)
        storage.write_whole(self.run.weights, weights)
        storage.write_whole(self.run.model_json, json.dumps(described, indent=1).encode())
        return self.run.finish(
            metrics=metrics,
            epochs=self._settings.all_epochs,
            seconds=round(time.monotonic() - self._began, 3),
            weights=weights,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._gate:
            self._gate.close()
        if hasattr(self, "run"):
            if error is not None:
                text = one_line(error) if isinstance(error, QfleetError) else repr(error)
                self.run.record_cause(text)
            self.run.close()


def _versions() -> dict[str, str]:
    names = ("tensorflow", "tf_keras", "cirq-core", "numpy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
