"""The story of a run on one worker:

start (attempt.py) -> rendezvous -> strategy -> data -> model -> fit -> publish -> barrier
"""

import functools
import logging
import math
import time
from collections.abc import Mapping
from contextlib import ExitStack

from common import checkpoints
from common.errors import RendezvousTimeout, StorageUnavailable, TrainingDiverged
from common.settings import Settings
from common.settings.groups.experiment import GATE, KERNEL
from training.checkpointing import STATE_COUNTERS, TrainingState
from training.chief import Chief
from training.cluster.spec import ClusterSpec
from training.contraction_paths import use_paths
from training.group.join import enter_group, load_data, open_rendezvous
from training.group.rendezvous import RendezvousClient
from training.group.rendezvous_server import RendezvousServer
from training.process.attempt import WorkerAttempt
from training.process.preemption import Preemption
from training.process.run_dir import LocalRunDir
from training.process.watchdog import EXIT_SECONDS, STORAGE_SECONDS, Watchdog
from training.trainer_protocol import TrainerFactory, TrainingContext

log = logging.getLogger("qfleet")

IMPORT_SECONDS = 300.0
"""Limit of the import of TensorFlow, which may come from a slow disk."""


def train(
    attempt: WorkerAttempt,
    cluster: ClusterSpec,
    preemption: Preemption,
    watchdog: Watchdog,
    open_trainer: TrainerFactory | None = None,
) -> None:
    """Train one worker's share of a run.

    Args:
        attempt: The start of this worker, which is counted.
        cluster: All workers, and the rank of this one.
        preemption: SIGTERM state.
        watchdog: Limits the time of every stage below.
        open_trainer: Builds the trainer; the TensorFlow one by default.

    Raises:
        QfleetError: Training ended early; the exit code gives the kind of the reason.
    """
    settings, run = attempt.settings, attempt.run
    limit = settings.fault_tolerance.deadline
    deadline = time.monotonic() + limit if limit else None
    watchdog.set_deadline(deadline)
    with ExitStack() as stack:
        rendezvous = open_rendezvous(settings, cluster, preemption, watchdog, run.path)
        stack.enter_context(rendezvous)
        chief: Chief | None = None
        if isinstance(rendezvous, RendezvousServer):
            chief = Chief(attempt, rendezvous, watchdog)
        stack.enter_context(watchdog.orderly_end())  # left first
        # TensorFlow is imported late, so that user errors appear within a second; and before the
        # rendezvous, so that no worker waits in TensorFlow for the import of another one.
        if chief:
            start = chief.open_run(
                before_rendezvous=lambda: _import(open_trainer, settings, watchdog)
            )
        else:
            assert isinstance(rendezvous, RendezvousClient)
            _import(open_trainer, settings, watchdog)
            # As long as the chief is alive: it may have to make the data set.
            watchdog.enter("the rendezvous with the chief", math.inf, RendezvousTimeout)
            start = rendezvous.join(run.finished)
        if start is None:
            return
        watchdog.enter("reading the data set", STORAGE_SECONDS, StorageUnavailable)
        settings, cluster = enter_group(settings, cluster, start)
        run_dir = stack.enter_context(
            LocalRunDir(run, settings, cluster.rank, start.attempt, attempt.claimed)
        )
        watchdog.at_end(upload=run_dir.upload)
        stack.enter_context(rendezvous.reporting())
        data = load_data(settings, cluster, start)
        if not chief:  # it has read or written them before the rendezvous
            use_paths(run.path, settings)
        commit = functools.partial(_commit, chief, run_dir) if chief else None
        context = TrainingContext(
            settings,
            cluster,
            data,
            run_dir,
            commit,
            preemption,
            deadline,
            watchdog,
            rendezvous.group_secret,
            rendezvous.wait_for_loss,
        )
        trainer = stack.enter_context(_import(open_trainer, settings, watchdog)(context))
        if chief and trainer.device:
            log.info(f"Device: {trainer.device}")
        stack.enter_context(watchdog.orderly_end())
        if start.checkpoint is not None:
            watchdog.enter("reading the checkpoint", STORAGE_SECONDS, StorageUnavailable)
            read = chief and chief.checkpoint
            trainer.resume(read or checkpoints.read(run.path, start.checkpoint, STATE_COUNTERS))
        trainer.fit()
        metrics = {split: trainer.measure(split) for split in data.splits}
        _require_finite(metrics)
        watchdog.set_deadline(None)  # the rest takes no longer than another start
        watchdog.enter("the upload of logs", STORAGE_SECONDS, StorageUnavailable)
        run_dir.upload()
        if chief:
            watchdog.enter("writing the result", STORAGE_SECONDS, StorageUnavailable)
            chief.publish(trainer, data, metrics)
        # The other workers wait for the chief's result, so that none ends too early.
        watchdog.enter("the last barrier", 2 * STORAGE_SECONDS + EXIT_SECONDS)
        trainer.barrier()
        rendezvous.finish()
        watchdog.enter("the end of this worker", EXIT_SECONDS, StorageUnavailable)


def _commit(chief: Chief, run_dir: LocalRunDir, state: TrainingState) -> None:
    run_dir.upload_metrics()
    chief.commit(state)


def _require_finite(metrics: Mapping[str, Mapping[str, float]]) -> None:
    """Raise TrainingDiverged if a metric of the trained model is infinite or NaN."""
    for split, numbers in metrics.items():
        for name, value in numbers.items():
            if not math.isfinite(value):
                raise TrainingDiverged(
                    f"{name} of the trained model is {value} on the {split} split, so that no"
                    " result was written: lower LEARNING_RATE, or check the examples and the model"
                )


def _import(
    open_trainer: TrainerFactory | None, settings: Settings, watchdog: Watchdog
) -> TrainerFactory:
    """Return the given factory, or that of MODEL."""
    if open_trainer:
        return open_trainer
    with watchdog.within("the import of TensorFlow", IMPORT_SECONDS):
        if settings.model.model == KERNEL:
            from training.kernel import trainer as kernel_trainer

            return kernel_trainer.open_kernel_trainer
        if settings.data.task == GATE:
            from training.pulse import trainer as pulse_trainer

            return pulse_trainer.open_pulse_trainer
        from training import trainer

    return trainer.open_trainer
