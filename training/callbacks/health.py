"""Ends a training whose numbers are not finite, or whose replicas differ."""

import math
from collections.abc import Callable

from common.errors import ReplicasDiffer, TrainingDiverged
from qfleet.tensorflow.runtime import keras
from training.callbacks.multi_start import MultiStart
from training.step.replica_state import Fault, StepStatus

_NAMES = {
    Fault.WEIGHTS: "a weight or a number of the optimizer's state",
    Fault.LOSS: "the loss",
    Fault.GRADIENT: "the gradient",
}
ADVICE = "lower LEARNING_RATE, or check the examples and the model; earlier checkpoints are kept"


class HealthCallback(keras.callbacks.Callback):
    """Looks at the status of the learner after each call, on every worker.

    All workers find the same at the same call. It comes after the callback of validation, and
    before those that keep or report a state.

    Args:
        multi_start: The initializations; one that is not finite is dropped.
        steps_per_epoch: Steps in a whole epoch.
        loss: Name of the loss.
        save_newest: Commits the state of the last step boundary, which all replicas agreed on.
    """

    def __init__(
        self,
        multi_start: MultiStart,
        steps_per_epoch: int,
        loss: str = "mse",
        save_newest: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._multi_start = multi_start
        self._steps_per_epoch = steps_per_epoch
        self._loss = loss
        self._save_newest = save_newest
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Keep the number of the epoch."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Raise the error of a fault.

        Raises:
            TrainingDiverged: The loss, the gradient or the weights are not finite.
            ReplicasDiffer: The state of the workers is not equal.
        """
        if self._multi_start.is_dropped:
            return
        status = self.model.replicas.status
        if status.fault == Fault.REPLICAS_DIFFER:
            self._save_newest()
            raise ReplicasDiffer(self._describe_difference(status))
        if status.fault != Fault.NONE:
            # The state was looked at after its step, loss and gradient within it.
            step = status.step - (status.fault == Fault.WEIGHTS)
            self._drop_or_raise(f"{_NAMES[status.fault]} is not finite at {self._place(step)}")

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Raise an error if the metrics of the epoch are not finite."""
        wrong = [name for name, value in (logs or {}).items() if not math.isfinite(value)]
        if wrong and not self._multi_start.is_dropped:
            names = {f"val_{self._loss}": "the validation loss"}
            self._drop_or_raise(
                f"{names.get(wrong[0], wrong[0])} is not finite at the end of epoch {epoch + 1}"
            )

    def _drop_or_raise(self, found: str) -> None:
        if not self._multi_start.drop(self._epoch, found):
            raise TrainingDiverged(f"{found}: {ADVICE}")

    def _place(self, step: int) -> str:
        epoch, in_epoch = divmod(step, self._steps_per_epoch)
        return f"epoch {epoch + 1}, step {in_epoch + 1}"

    def _describe_difference(self, status: StepStatus) -> str:
        ranks = status.differing_ranks
        listed = ", ".join(map(str, ranks))
        has = f"worker {listed} has" if len(ranks) == 1 else f"workers {listed} have"
        differ = "other weights or another state of the optimizer than the others"
        if len(ranks) == len(status.digests):
            differ = "different weights or states of the optimizer"
        return (
            f"{has} {differ} before {self._place(status.step)}, so memory was damaged: all workers"
            " restart from the last state in which they agreed; if it happens again, replace the"
            " machine"
        )
