"""Duties of the chief: claim the run, prepare the data, lead the rendezvous, commit and publish."""

import contextlib
import logging
import platform
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self

from common import checkpoints, runs
from common.data import Dataset, prepare
from common.errors import (
    RendezvousTimeout,
    as_qfleet_error,
    one_line,
    write_termination_message,
)
from common.events import log_event
from common.settings import Settings
from common.storage import StoragePath
from training.checkpointing import TrainingState
from training.cluster import ClusterSpec
from training.rendezvous import RendezvousServer, StartMessage
from training.trainer_protocol import TrainerProtocol

log = logging.getLogger("qfleet")

FINISHED_NOTICE_SECONDS = 10.0
"""Time in which the chief of a finished run reports that to the other workers."""


class Chief:
    """The chief of a run. Its context ends with the run's lease released and the cause recorded.

    Args:
        root: STORAGE.
        settings: All settings.
        cluster: All workers.

    Raises:
        RendezvousTimeout: The rendezvous port is taken.
    """

    def __init__(self, root: StoragePath, settings: Settings, cluster: ClusterSpec) -> None:
        self._root, self._settings = root, settings
        self._start_time = time.monotonic()
        self._claimed: runs.ClaimedRun | None = None
        # Listen first: workers find the chief while it still makes the data set.
        port = settings.fault_tolerance.rendezvous_port
        self._rendezvous = RendezvousServer(cluster, port) if cluster.size > 1 else None

    def __enter__(self) -> Self:
        return self

    @property
    def claimed(self) -> runs.ClaimedRun:
        """The run, after `open_run` has claimed it."""
        assert self._claimed is not None
        return self._claimed

    def open_run(self) -> StartMessage | None:
        """Prepare the data set, create or resume the run, and start all workers.

        Returns:
            The message that every worker received; None where the run is finished already.

        Raises:
            RunError: Another process group trains the run, or MAX_ATTEMPTS attempts in a row made
                no progress.
            RendezvousTimeout: Workers are missing.
        """
        limits = self._settings.fault_tolerance
        data = prepare(self._settings, self._root / runs.DATASETS)
        claimed = self._claim(data)
        if isinstance(claimed, runs.FinishedRun):
            log.info(str(claimed))
            if self._rendezvous:
                # A worker that connects later reads the run's state itself.
                with contextlib.suppress(RendezvousTimeout):
                    self._rendezvous.start_all(None, FINISHED_NOTICE_SECONDS)
            return None
        self._claimed = claimed
        attempt = claimed.begin_attempt(limits.max_attempts)
        checkpoint = checkpoints.newest(claimed.run.path)
        self._log_start(claimed.run, data, attempt, checkpoint)
        step = checkpoint.step if checkpoint else None
        message = StartMessage(claimed.run.name, attempt, str(data.path), step)
        if self._rendezvous:
            try:
                self._rendezvous.start_all(message, limits.rendezvous_timeout)
            except RendezvousTimeout:
                # Machines that are not available yet are not a failure of the run.
                claimed.withdraw_attempt()
                raise
        return message

    def commit(self, state: TrainingState) -> None:
        """Write a checkpoint.

        Raises:
            RunError, PeerLost: Another process group or attempt has taken over the run.
        """
        self.claimed.check()
        keep = self._settings.checkpointing.keep_checkpoints
        path = self.claimed.run.path
        checkpoints.save(path, state.steps, state.arrays, state.counters, keep=keep)
        log_event(
            "checkpoint_saved",
            f"Saved checkpoint: {state}",
            level=logging.DEBUG,
            run=path.name,
            step=state.steps,
        )

    def publish(
        self, trainer: TrainerProtocol, data: Dataset, metrics: dict[str, dict[str, float]]
    ) -> None:
        """Write the weights, model.json and, last, result.json, which marks the run as finished.

        Args:
            trainer: The trainer, after `fit`.
            data: The data set.
            metrics: Metrics by split.
        """
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "weights.h5"
            described = trainer.save_model(file)
            weights = self.claimed.run.write_model(described, file)
        final = {
            split: {name: numbers[name] for name in ("mse", "accuracy")}
            for split, numbers in metrics.items()
        }
        seconds = round(time.monotonic() - self._start_time, 3)
        epochs = self._settings.training.epochs
        self.claimed.finish(
            {"metrics": final, "epochs": epochs, "seconds": seconds, "weights": weights}
        )
        self._log_result(final, seconds, trainer.step_summary)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._rendezvous:
            self._rendezvous.close()
        if self._claimed:
            if error is not None:
                text = one_line(error) if as_qfleet_error(error) else repr(error)
                self._claimed.record_cause(text)
            self._claimed.close()

    def _claim(self, data: Dataset) -> runs.ClaimedRun | runs.FinishedRun:
        settings = self._settings
        return runs.claim_for_training(
            self._root,
            settings.run_name,
            settings.identity(),
            settings.fingerprint(),
            data.fingerprint,
            _versions(),
            settings.job.job_id,
            other={
                "epochs": settings.training.epochs,
                "workers": settings.training.workers,
                "dataset": data.name,
            },
        )

    def _log_start(
        self, run: runs.Run, data: Dataset, attempt: int, checkpoint: checkpoints.Checkpoint | None
    ) -> None:
        if checkpoint:
            step, epoch = checkpoint.state["step"], checkpoint.state["epoch"] + 1
            log_event(
                "run_resumed",
                f"Resuming run '{run.name}' from checkpoint: epoch {epoch}, step {step}"
                f" (attempt {attempt})",
                run=run.name,
                storage=str(self._root),
                attempt=attempt,
                epoch=epoch,
                step=step,
            )
        else:
            suffix = f" (attempt {attempt})" if attempt > 1 else ""
            text = f"Starting run '{run.name}' in {run.path}{suffix}"
            log_event("run_started", text, run=run.name, storage=str(self._root), attempt=attempt)
        rows = ", ".join(f"{data.rows(split):,} {split}" for split in data.splits)
        log.info(f"Data set {data.name}: {rows} examples")

    def _log_result(
        self, metrics: dict[str, dict[str, float]], seconds: float, step_summary: str
    ) -> None:
        """Log the test metrics, the time of a step, the run's folder and the next commands."""
        run, test = self.claimed.run, metrics["test"]
        done = (
            f"Finished in {seconds:.0f} s: test mse {test['mse']:.4f},"
            f" accuracy {test['accuracy']:.3f}"
        )
        write_termination_message(done)
        log_event(
            "run_finished",
            "\n".join(filter(None, [done, step_summary, f"Run folder: {run.path}"])),
            run=run.name,
            storage=str(self._root),
            metrics=metrics,
            seconds=seconds,
            commands=[f"make inference {run.arguments}", f"make tensorboard {run.arguments}"],
        )


def _versions() -> dict[str, str]:
    names = ("tensorflow", "tf_keras", "cirq-core", "numpy")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}
