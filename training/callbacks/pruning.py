"""The callback that drops angles between epochs."""

from qfleet.tensorflow.runtime import keras
from training.step.pruning import Pruning


class PruningCallback(keras.callbacks.Callback):
    """Decides before each epoch what is dropped, on every worker, and traces new graphs.

    It decides at the beginning of an epoch, so that a checkpoint of its end leads to the same
    decision. It comes after the callback of initializations, and before those that report an epoch.

    Args:
        pruning: The angles.
        loss: Name of the loss.
    """

    def __init__(self, pruning: Pruning, loss: str) -> None:
        super().__init__()
        self._pruning, self._loss = pruning, loss

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Drop angles; an epoch that an earlier process began has its angles already."""
        if self.model.epoch_step_offset == 0 and self._pruning.begin_epoch(epoch):
            self.model.retrace()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Count the loss of the epoch, and add the number of dropped angles to its metrics."""
        if logs is not None:
            self._pruning.schedule.add_loss(epoch, float(logs[self._loss]))
            logs["pruned_angles"] = float(self._pruning.counts[0])
