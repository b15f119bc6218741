"""The checkpoint callback, and the state of a learner as arrays."""

from common.errors import WeightsError
from qfleet.tensorflow.runtime import keras
from training.checkpointing import CheckpointWriter, TrainingState
from training.learner import Learner
from training.multi_start import MultiStart


def capture_state(
    learner: Learner, multi_start: MultiStart, epoch: int, step: int
) -> TrainingState:
    """Copy weights, optimizer state, sums and the best initialization to the host.

    Args:
        learner: The learner.
        multi_start: The initializations.
        epoch: Current epoch, counted from 0.
        step: Next step in that epoch, counted from 0.
    """
    arrays = {f"model/{i}": weight.numpy() for i, weight in enumerate(learner.model.weights)}
    arrays |= {f"optimizer/{i}": v.numpy() for i, v in enumerate(learner.optimizer.variables)}
    arrays |= {"sums": learner.sums, **multi_start.arrays}
    return TrainingState(epoch, step, learner.steps, arrays)


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
    except (KeyError, ValueError) as error:
        raise WeightsError(f"the checkpoint belongs to another model: {error}") from None
    learner.steps = state.steps


class CheckpointCallback(keras.callbacks.Callback):
    """Hands the state at each step boundary to the chief's checkpoint writer.

    Args:
        writer: Commits states.
        multi_start: The initializations, whose best one is part of the state.
        interval_epochs: Epochs between two checkpoints (CHECKPOINT_INTERVAL).
        steps_per_epoch: Steps in a whole epoch.
    """

    def __init__(
        self,
        writer: CheckpointWriter,
        multi_start: MultiStart,
        *,
        interval_epochs: int,
        steps_per_epoch: int,
    ) -> None:
        super().__init__()
        self._writer = writer
        self._multi_start = multi_start
        self._interval_epochs = interval_epochs
        self._steps_per_epoch = steps_per_epoch
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
        self._on_step_boundary(epoch + 1, 0, due=(epoch + 1) % self._interval_epochs == 0)

    def on_train_end(self, logs: dict | None = None) -> None:
        """Wait until the last checkpoint is written."""
        self._writer.wait_for_pending_save()

    def _on_step_boundary(self, epoch: int, step: int, *, due: bool) -> None:
        state = capture_state(self.model, self._multi_start, epoch, step)
        self._writer.on_step_boundary(state, due=due)
