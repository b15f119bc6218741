"""What only the chief does: open the run, make the data, lead the gate, keep, publish."""

import contextlib
import logging
import platform
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from common import checkpoints, runs
from common.data import Dataset, prepare
from common.errors import RendezvousTimeout, as_qfleet_error, one_line
from common.settings import Settings
from common.storage import StoragePath
from training.cluster import ClusterSpec
from training.rendezvous import RendezvousServer
from training.start_message import FINISHED, StartMessage

if TYPE_CHECKING:  # it brings TensorFlow, for which the gate need not wait
    from training.checkpointing import TrainingState

log = logging.getLogger("qfleet")

# How long the chief of a run that turned out to be finished stays to tell the others, in seconds.
FINISHED_NOTICE_SECONDS = 10.0


class Chief:
    """The run in the chief's hands. A context: leaving it gives the run up, with the cause."""

    def __init__(self, root: StoragePath, settings: Settings, cluster: ClusterSpec) -> None:
        self._root, self._settings, self._cluster = root, settings, cluster
        self._began = time.monotonic()
        self._held: runs.ClaimedRun | None = None
        # Listening comes first: workers find the chief while it still makes the data set.
        self._gate = (
            RendezvousServer(cluster, settings.fault_tolerance.rendezvous_port)
            if cluster.size > 1
            else None
        )

    def __enter__(self) -> Self:
        return self

    @property
    def held(self) -> runs.ClaimedRun:
        """The run, once `gather` has opened it."""
        assert self._held is not None
        return self._held

    def gather(self) -> StartMessage | None:
        """Make the data set, open or resume the run, and send the gang off.

        Returns:
            What every worker was told; None where the run turned out to be finished.

        Raises:
            RunError: The run is another's, or has made no progress in MAX_ATTEMPTS starts.
            RendezvousTimeout: Workers are missing.
        """
        settings = self._settings
        data = prepare(settings, self._root / runs.DATASETS)
        opened = runs.claim_for_training(
            self._root,
            settings.run_name,
            settings.identity(),
            settings.fingerprint(),
            data.fingerprint,
            _versions(),
            settings.job.job_id,
            other={
                "epochs": settings.training.main_phase_epochs,
                "workers": settings.training.workers,
                "dataset": data.name,
            },
        )
        if isinstance(opened, runs.FinishedRun):
            log.info(str(opened))
            if self._gate:
                with contextlib.suppress(RendezvousTimeout):  # who comes later finds out by itself
                    self._gate.open(FINISHED, FINISHED_NOTICE_SECONDS)
            return None
        self._held = opened
        attempt = opened.begin_attempt(settings.fault_tolerance.max_attempts)
        resumed = checkpoints.newest(opened.run.path)
        log.info(_greeting(opened.run, data, attempt, resumed))
        order = StartMessage(
            run=opened.run.name,
            attempt=attempt,
            data=str(data.path),
            checkpoint=resumed.step if resumed else None,
        )
        if self._gate:
            try:
                self._gate.open(order.to_json(), settings.fault_tolerance.rendezvous_timeout)
            except RendezvousTimeout:
                # Machines that are not to be had yet are no fault of the run's.
                opened.take_back_attempt()
                raise
        return order

    def commit(self, snapshot: "TrainingState") -> None:
        """Write a checkpoint, unless another gang has taken the run."""
        self.held.check()
        checkpoints.save(
            self.held.run.path,
            snapshot.steps,
            snapshot.arrays,
            snapshot.state,
            keep=self._settings.checkpointing.keep_checkpoints,
        )

    def publish(
        self, model: Any, data: Dataset, metrics: dict[str, dict[str, float]]
    ) -> dict[str, Any]:
        """Write the weights, model.json and, last, result.json, which makes the run finished.

        Args:
            model: The trained Keras model.
            data: What it was trained on.
            metrics: By split.

        Returns:
            What result.json holds.
        """
        from common.models import describe_model  # TensorFlow is there by now

        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "weights.h5"
            model.save_weights(file)
            described = describe_model(model, data.features, self._settings, data.manifest.encoding)
            weights = self.held.run.write_model(described, file)
        result = {
            "metrics": {
                split: {name: numbers[name] for name in ("mse", "accuracy")}
                for split, numbers in metrics.items()
            },
            "epochs": self._settings.training.epochs,
            "seconds": round(time.monotonic() - self._began, 3),
            "weights": weights,
        }
        self.held.finish(result)
        return result

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._gate:
            self._gate.close()
        if self._held:
            if error is not None:
                text = one_line(error) if as_qfleet_error(error) else repr(error)
                self._held.record_cause(text)
            self._held.close()


def _greeting(
    run: runs.Run, data: Dataset, attempt: int, resumed: checkpoints.Checkpoint | None
) -> str:
    if resumed:
        step, epoch = resumed.state["step"], resumed.state["epoch"] + 1
        does = f"goes on at step {step} of epoch {epoch} (attempt {attempt})"
    else:
        does = "begins" if attempt == 1 else f"begins anew (attempt {attempt})"
    rows = ", ".join(f"{data.rows(split):,} for {split}" for split in data.splits)
    return f"run {run.name} {does} in {run.path}\ndata set {data.name}: {rows}"


def _versions() -> dict[str, str]:
    names = ("tensorflow", "tf_keras", "cirq-core", "numpy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
