"""The checkpoint callback, and the state of a learner as arrays."""

import numpy as np

from common.checkpoints import BestEpoch
from common.errors import ReplicasDiffer, WeightsError
from qfleet.tensorflow.runtime import keras
from training.callbacks.multi_start import MultiStart
from training.checkpointing import CheckpointWriter, TrainingState
from training.step.learner import Learner
from training.step.local_part import local_part
from training.step.replica_state import host_digest, state_variables


def capture_state(
    learner: Learner,
    multi_start: MultiStart,
    epoch: int,
    step: int,
    best: BestEpoch | None = None,
) -> TrainingState:
    """Copy weights, optimizer state, sums and the best initialization to the host.

    Args:
        learner: The learner.
        multi_start: The initializations.
        epoch: Current epoch, counted from 0.
        step: Next step in that epoch, counted from 0.
        best: The epoch with the lowest validation loss so far, if that is kept.
    """
    weights, slots = (
        map(local_part, v) for v in (learner.model.weights, learner.optimizer.variables)
    )
    arrays = {f"model/{i}": weight.numpy() for i, weight in enumerate(weights)}
    arrays |= {f"optimizer/{i}": slot.numpy() for i, slot in enumerate(slots)}
    arrays |= {"sums": learner.sums, **multi_start.arrays}
    if learner.pruning:
        arrays |= learner.pruning.arrays
    return TrainingState(epoch, step, learner.steps, arrays, best)


def digest_of_state(learner: Learner, state: TrainingState) -> np.ndarray:
    """Return the digest of captured weights and optimizer, as `ReplicaCheck` has it."""
    named = {id(weight): f"model/{i}" for i, weight in enumerate(learner.model.weights)}
    named |= {id(v): f"optimizer/{i}" for i, v in enumerate(learner.optimizer.variables)}
    compared = state_variables(learner.model, learner.optimizer)
    return host_digest([state.arrays[named[id(variable)]] for variable in compared])


def restore_state(learner: Learner, multi_start: MultiStart, state: TrainingState) -> None:
    """Set what `capture_state` copied.

    Raises:
        WeightsError: The arrays belong to another model.
    """
    variables = {f"model/{i}": weight for i, weight in enumerate(learner.model.weights)}
    variables |= {f"optimizer/{i}": v for i, v in enumerate(learner.optimizer.variables)}
    try:
        for name, variable in variables.items():
            variable.assign(state.arrays[name])
        learner.sums = state.arrays["sums"]
        multi_start.arrays = state.arrays
        if learner.pruning and learner.pruning.restore(state.arrays):
            learner.retrace()
    except (KeyError, ValueError) as error:
        raise WeightsError(f"the checkpoint belongs to another model: {error}") from None
    learner.steps = state.steps


class CheckpointCallback(keras.callbacks.Callback):
    """Hands the state at each step boundary to the chief's checkpoint writer.

    Args:
        writer: Commits states.
        multi_start: The initializations, whose best one is part of the state.
        loss: Name of the loss.
        interval_epochs: Epochs between two checkpoints (CHECKPOINT_INTERVAL).
        steps_per_epoch: Steps in a whole epoch.
        keep_best: Also commit each epoch that has the lowest validation loss so far (KEEP_BEST).
        best: That epoch so far, of earlier attempts.
    """

    def __init__(
        self,
        writer: CheckpointWriter,
        multi_start: MultiStart,
        *,
        loss: str,
        interval_epochs: int,
        steps_per_epoch: int,
        keep_best: bool = False,
        best: BestEpoch | None = None,
    ) -> None:
        super().__init__()
        self._writer = writer
        self._multi_start = multi_start
        self._loss = loss
        self._interval_epochs = interval_epochs
        self._steps_per_epoch = steps_per_epoch
        self._keep_best = keep_best
        self._best = best if keep_best else None
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Keep the number of the epoch."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Handle a step boundary; `batch` is the last step of this call, counted from 0."""
        step = self.model.epoch_step_offset + batch + 1
        if step < self._steps_per_epoch:  # the boundary of the last step is the epoch's end
            self._on_step_boundary(self._epoch, step, due=False)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Handle the boundary between two epochs."""
        due = (epoch + 1) % self._interval_epochs == 0
        if self._keep_best and not self._multi_start.is_dropped:
            loss = float((logs or {})[f"val_{self._loss}"])
            # Of equal losses, the first one.
            if self._best is None or loss < self._best.validation_loss:
                self._best, due = BestEpoch(epoch + 1, self.model.steps, loss), True
        self._on_step_boundary(epoch + 1, 0, due=due)

    def on_train_end(self, logs: dict | None = None) -> None:
        """Wait until the last checkpoint is written."""
        self._writer.wait_for_pending_save()

    def _on_step_boundary(self, epoch: int, step: int, *, due: bool) -> None:
        if self._multi_start.is_dropped:
            self._writer.on_step_boundary(None)
            return
        state = capture_state(self.model, self._multi_start, epoch, step, self._best)
        if (digest_of_state(self.model, state) != self.model.replicas.agreed_digest).any():
            self._writer.commit_newest()
            raise ReplicasDiffer(
                "the weights or the optimizer of worker 0 changed in memory between two steps: all"
                " workers restart from the last state in which they agreed; if it happens again,"
                " replace the machine"
            )
        self._writer.on_step_boundary(state, due=due)
