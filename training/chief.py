"""Duties of the chief: prepare the data, lead the rendezvous, commit and publish."""

import contextlib
import logging
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from common import checkpoints, runs, storage
from common.commands import command
from common.data import Dataset, prepare
from common.data.description import describe
from common.environments import code_version, package_version
from common.errors import (
    RendezvousTimeout,
    RunError,
    StorageFull,
    StorageUnavailable,
    WeightsError,
    write_termination_message,
)
from common.events import log_event
from common.metrics import NO_METRICS, line
from common.settings.circuit_file import origin_of
from training.checkpointing import STATE_COUNTERS, TrainingState
from training.contraction_paths import record_paths
from training.group.rendezvous import StartMessage
from training.group.rendezvous_server import RendezvousServer
from training.process.attempt import WorkerAttempt
from training.process.watchdog import STORAGE_SECONDS, Watchdog
from training.trainer_protocol import TrainerProtocol

log = logging.getLogger("qfleet")

FINISHED_NOTICE_SECONDS = 10.0
"""Time in which the chief of a finished run reports that to the other workers."""


RENDEZVOUS_MARGIN_SECONDS = 30.0
"""Further time of the rendezvous, which has a timeout of its own and names the missing workers."""

FULL_RETRY_SECONDS = 5.0
"""Pause before a checkpoint is written again to a full disk."""


class Chief:
    """The chief of a run.

    Args:
        attempt: The start of the chief, which has claimed the run.
        rendezvous: Where the other workers connect meanwhile.
        watchdog: Limits the time of each step.

    Attributes:
        checkpoint: The one that training resumes from; None for none, and before `open_run`.
    """

    def __init__(
        self, attempt: WorkerAttempt, rendezvous: RendezvousServer, watchdog: Watchdog
    ) -> None:
        self._attempt, self._settings = attempt, attempt.settings
        self._rendezvous, self._watchdog = rendezvous, watchdog
        self._root = attempt.run.path.parent
        self._start_time = time.monotonic()
        self._reported: dict[int, str] = {}  # failures of missing workers
        self.checkpoint: checkpoints.Checkpoint | None = None

    @property
    def claimed(self) -> runs.ClaimedRun:
        """The claimed run."""
        assert self._attempt.claimed is not None
        return self._attempt.claimed

    def open_run(self, before_rendezvous: Callable[[], object]) -> StartMessage | None:
        """Prepare the data set, record the run or check its record, and start all workers.

        Args:
            before_rendezvous: Called when the run is open, and before the other workers start.

        Returns:
            The message that every worker received; None where the run is finished already.

        Raises:
            SettingsError: A setting does not fit the data set.
            RunError: The run has other data, the workers differ in their settings or programs, or a
                missing worker failed MAX_ATTEMPTS times.
            RendezvousTimeout: Workers are missing.
        """
        if self._attempt.claimed is None:
            # A worker that connects later reads the run's state itself.
            with contextlib.suppress(RendezvousTimeout):
                self._rendezvous.start_all(None, FINISHED_NOTICE_SECONDS)
            return None
        watchdog, limits = self._watchdog, self._settings.fault_tolerance
        watchdog.enter("the data set", limits.stall_timeout_max)
        data = prepare(
            self._settings, self._root / runs.DATASETS, lambda done, total: watchdog.progress()
        )
        watchdog.enter("recording the run", STORAGE_SECONDS, StorageUnavailable)
        self.claimed.record(data.fingerprint, _versions(), other=self._lineage(data))
        watchdog.enter("compiling the circuits", limits.stall_timeout_max)
        record_paths(self.claimed.run.path, self._settings, data)
        watchdog.enter("reading the newest checkpoint", STORAGE_SECONDS, StorageUnavailable)
        self.checkpoint = checkpoints.newest(self.claimed.run.path, STATE_COUNTERS)
        number = self._attempt.number
        self._log_start(self.claimed.run, data, number, self.checkpoint)
        before_rendezvous()
        step = self.checkpoint.step if self.checkpoint else None
        message = StartMessage(
            self.claimed.run.name, number, str(data.path), data.fingerprint, step
        )
        watchdog.enter(
            "the rendezvous with the other workers",
            self._rendezvous.limit_seconds + RENDEZVOUS_MARGIN_SECONDS,
            RendezvousTimeout,
        )
        return self._rendezvous.start_all(message, check_missing=self._check_missing)

    def commit(self, state: TrainingState) -> None:
        """Write a checkpoint, once the disk has room for it.

        Raises:
            RunError, PeerLost: Another process group or attempt has taken over the run.
            StorageFull: The disk stayed full for RETRY_SECONDS.
            StorageUnavailable: Storage does not respond for RETRY_SECONDS.
        """
        end = time.monotonic() + storage.retry_seconds()
        while True:
            try:
                self._write_checkpoint(state)
            except StorageFull as error:
                if time.monotonic() + FULL_RETRY_SECONDS > end:
                    raise
                log.warning(f"{error}; the checkpoint is tried again in {FULL_RETRY_SECONDS:g} s")
                time.sleep(FULL_RETRY_SECONDS)
            else:
                return

    def _write_checkpoint(self, state: TrainingState) -> None:
        path = self.claimed.run.path
        checkpoints.save(
            path,
            state.steps,
            state.arrays,
            state.counters,
            keep=self._settings.checkpointing.keep_checkpoints,
            attempt=self._attempt.number,
            confirm=self.claimed.confirm,
        )
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

        With KEEP_BEST, the weights of the best epoch are written too, and are the trainer's then.

        Args:
            trainer: The trainer, after `fit`.
            data: The data set.
            metrics: Metrics by split.
        """
        weights = {"weights": self._write_model(trainer)}
        place = {"device": trainer.device} if trainer.device else {}
        if trainer.pruned_angles is not None:
            weights["pruned"] = dict(zip(("dropped", "angles"), trainer.pruned_angles, strict=True))
        if (best := self._best_checkpoint()) is not None:
            trainer.resume(best)
            assert best.best is not None
            weights["best"] = {**self._write_model(trainer), **best.best._asdict()}
        final = {
            split: {name: value for name, value in numbers.items() if name not in NO_METRICS}
            for split, numbers in metrics.items()
        }
        seconds = round(time.monotonic() - self._start_time, 3)
        epochs = self._settings.training.epochs
        self.claimed.finish(
            {"metrics": final, "epochs": epochs, "seconds": seconds, **place, **weights}
        )
        self._log_result(final, seconds, trainer.step_summary)

    def _write_model(self, trainer: TrainerProtocol) -> dict[str, object]:
        with storage.temporary_folder() as folder:
            file = Path(folder, "weights.h5")
            with storage.translate_errors(file):
                described = trainer.save_model(file)
            return dict(self.claimed.run.write_model(described, file))

    def _best_checkpoint(self) -> checkpoints.Checkpoint | None:
        if not self._settings.checkpointing.keep_best:
            return None
        try:
            return checkpoints.best(self.claimed.run.path)
        except WeightsError as error:
            log.warning(f"The weights of the best epoch are not written: {error}")
            return None

    def _check_missing(self, ranks: Sequence[int]) -> None:
        """Raise the cause of a missing worker that was refused after too many failed starts."""
        for rank in ranks:
            cause, refused = self._attempt.failure_of(rank)
            if refused:
                raise RunError(cause)
            if cause and self._reported.get(rank) != cause:
                self._reported[rank] = cause
                log.warning(f"the last start of worker {rank} failed: {cause}")

    def _lineage(self, data: Dataset) -> dict[str, object]:
        """Return what is recorded with the run besides its identity: its origin, and its size."""
        training, study = self._settings.training, self._settings.job.study
        return {
            "epochs": training.epochs,
            "workers": training.workers,
            "dataset": data.name,
            "code": code_version(),
            **({"study": study} if study else {}),
            **origin_of(self._settings.model.model),
        }

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
        if data.target.task in ("classification", "regression"):
            log.info(describe(data))
        if limit := self._settings.fault_tolerance.deadline:
            days = f" ({limit / 86_400:.1f} days)" if limit >= 86_400 else ""
            log.info(f"DEADLINE: training saves its last step and stops after {limit:,} s{days}")

    def _log_result(
        self, metrics: dict[str, dict[str, float]], seconds: float, step_summary: str
    ) -> None:
        """Log the test metrics, the time of a step, the run's folder and the next commands."""
        run, test = self.claimed.run, metrics["test"]
        done = f"Finished in {seconds:.0f} s: test {line(test)}"
        write_termination_message(done)
        log_event(
            "run_finished",
            "\n".join(filter(None, [done, step_summary, f"Run folder: {run.path}"])),
            run=run.name,
            storage=str(self._root),
            metrics=metrics,
            seconds=seconds,
            commands=[
                f"{command('infer')} {run.arguments}",
                f"{command('report')} {run.arguments}",
                f"{command('tensorboard')} {run.arguments}",
            ],
        )


def _versions() -> dict[str, str]:
    names = ("tensorflow", "tf_keras", "cirq-core", "numpy")
    return {"python": platform.python_version(), **{name: package_version(name) for name in names}}
