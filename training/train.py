"""The story of a run on one worker:

run -> rendezvous -> strategy -> data -> model -> fit -> publish -> barrier
"""

import logging
import time
from contextlib import AbstractContextManager, ExitStack

from common import checkpoints, runs, storage
from common.data import load
from common.errors import write_termination_message
from common.runs import auto_settings
from common.settings import Settings
from training.chief import Chief
from training.cluster import ClusterSpec
from training.preemption import Preemption
from training.rendezvous import join_rendezvous
from training.run_dir import LocalRunDir
from training.trainer_protocol import TrainerFactory, TrainerProtocol, TrainingContext

log = logging.getLogger("qfleet")


def train(
    settings: Settings,
    cluster: ClusterSpec,
    preemption: Preemption,
    open_trainer: TrainerFactory | None = None,
) -> None:
    """Train one worker's share of the run that the settings name.

    Args:
        settings: All settings.
        cluster: All workers, and the rank of this one.
        preemption: SIGTERM state.
        open_trainer: Builds the trainer; the TensorFlow one by default.

    Raises:
        QfleetError: Training ended early; the exit code gives the kind of the reason.
    """
    limit = settings.fault_tolerance.deadline
    deadline = time.monotonic() + limit if limit else None
    root = storage.path(settings.job.storage)
    run = runs.Run.at(root, settings.run_name)
    if run.finished():
        log.info(str(runs.FinishedRun(run)))
        write_termination_message(str(runs.FinishedRun(run)))
        return
    # The same on every worker, and before the run's identity is computed.
    settings = auto_settings.inherit_from_run(settings, root, run.name)
    with ExitStack() as stack:
        chief = stack.enter_context(Chief(root, settings, cluster)) if cluster.is_chief else None
        start = chief.open_run() if chief else join_rendezvous(cluster, settings.fault_tolerance)
        if start is None:
            return
        run_dir = stack.enter_context(LocalRunDir(run, settings, cluster.rank, start.attempt))
        preemption.upload_logs = run_dir.upload
        data = load(storage.path(start.data), settings.data.data_memory)
        commit = chief.commit if chief else None
        context = TrainingContext(settings, cluster, data, run_dir, commit, preemption, deadline)
        # TensorFlow is imported only here, so that user errors appear within a second.
        with (open_trainer or _tensorflow_trainer)(context) as trainer:
            if start.checkpoint is not None:
                trainer.resume(checkpoints.read(run.path, start.checkpoint))
            trainer.fit()
            metrics = {split: trainer.measure(split) for split in data.splits}
            run_dir.upload()
            if chief:
                chief.publish(trainer, data, metrics)
            # The other workers wait for the chief's result, so that none ends too early.
            trainer.barrier()


def _tensorflow_trainer(context: TrainingContext) -> AbstractContextManager[TrainerProtocol]:
    from training.trainer import open_trainer

    return open_trainer(context)
