"""The common part of trainers of parts: the end, the barrier, no checkpoints."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from common import runs, storage
from common.checkpoints import Checkpoint
from common.errors import DeadlineReached, Preempted, WeightsError
from qfleet.tensorflow.runtime import tf
from training.step import distributed
from training.step.allreduce import all_reduce_scalar, limit_wait
from training.step.peer_errors import PeerErrorTranslator
from training.trainer_protocol import TrainingContext


@contextmanager
def open_strategy(context: TrainingContext) -> Iterator[tf.distribute.Strategy]:
    """Build the strategy of this worker.

    Raises:
        PeerLost, Preempted: TensorFlow reported a lost peer, here or in the body of the context.
    """
    settings, cluster, watchdog = context.settings, context.cluster, context.watchdog
    with PeerErrorTranslator(cluster, context.preemption, context.wait_for_loss):
        yield distributed.create_strategy(settings, cluster, watchdog, context.secret)


class PartsTrainer:
    """Base of a trainer whose workers compute parts that are files. There are no checkpoints.

    Args:
        context: Settings, data and folders of the run.
        strategy: The workers' strategy.
    """

    parts: ClassVar[str]
    """Name of the parts, in the plural."""

    pruned_angles = None
    """There are no trained angles."""

    def __init__(self, context: TrainingContext, strategy: tf.distribute.Strategy) -> None:
        self._context, self._strategy = context, strategy
        self._settings, self._data = context.settings, context.data
        root = storage.path(self._settings.job.storage)
        self._run = runs.Run.at(root, self._settings.run_name)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Refuse a checkpoint.

        Raises:
            WeightsError: Always.
        """
        raise WeightsError(
            f"checkpoint {checkpoint.step} of the run belongs to another model than"
            f" MODEL={self._settings.model.model}: delete the run's folder"
        )

    def barrier(self) -> None:
        """Return when every worker has called this."""
        limit_wait(math.inf)  # the watchdog has the limit
        all_reduce_scalar(self._strategy, 0.0)

    def before_part(self) -> None:
        """Restart the limit of a part, and end here if this worker has to.

        Raises:
            Preempted, DeadlineReached: This worker has to end.
        """
        self._context.watchdog.progress()
        if self._context.preemption.requested.is_set():
            raise Preempted(f"stopped by SIGTERM; the {self.parts} of this worker are kept")
        deadline = self._context.deadline
        if deadline is not None and time.monotonic() >= deadline:
            raise DeadlineReached(
                f"DEADLINE reached; the {self.parts} of this worker are kept; run the same command"
                " again to continue"
            )
