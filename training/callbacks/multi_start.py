"""Multi-start optimisation: several initializations, of which the best one is trained further.

A QCNN that is trained from one random initialization often ends in a local minimum, with any
learning rate. Simulation is cheap. So each of INITIALIZATIONS initial weights is trained for
INITIALIZATION_EPOCHS epochs. The one with the lowest error over the training split is trained
further, with a fresh optimizer and a learning rate that falls to zero along a cosine.
"""

import logging
import math
from collections.abc import Callable, Sequence

import numpy as np

from common.errors import TrainingDiverged
from common.settings import TrainingSettings
from qfleet.tensorflow.runtime import keras
from training.process.logging_setup import log_shared
from training.step.local_part import local_part


class MultiStart(keras.callbacks.Callback):
    """Sets weights, optimizer and learning rate at the beginning of epochs.

    Args:
        settings: Numbers of epochs and initializations, and the learning rate.
        initial_weights: Weights of each initialization; empty if there is only one.
        measure: Returns the mean squared error over the training split, over all workers.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        initial_weights: Sequence[list[np.ndarray]],
        measure: Callable[[], float],
    ) -> None:
        super().__init__()
        self._settings = settings
        self._initial_weights = initial_weights
        self._measure = measure
        self._best_error = math.inf
        self._best_index = -1  # counted from 0; -1 before the first one has ended
        self._best_weights: list[np.ndarray] = []
        self.is_dropped = False

    def drop(self, epoch: int, reason: str) -> bool:
        """Drop the initialization that an epoch trains, since it can't be used.

        Its remaining epochs are trained, since Keras can't skip them, but leave no checkpoint.

        Args:
            epoch: The epoch, counted from 0.
            reason: What is wrong.

        Returns:
            False where the epoch is after the initialization phase.
        """
        if epoch >= self._settings.initialization_phase_epochs:
            return False
        self.is_dropped = True
        index = epoch // self._settings.epochs_per_initialization
        count = self._settings.initialization_count
        log_shared(f"Initialization {index + 1} of {count} is dropped: {reason}", logging.WARNING)
        return True

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The part of a checkpoint that holds the best initialization so far."""
        best = {f"best/{i}": array for i, array in enumerate(self._best_weights)}
        # Before the first one has ended, the error is infinite, which no checkpoint may contain.
        error = np.array(self._best_error if self._best_index >= 0 else 0.0)
        return {"best_error": error, "best_index": np.array(self._best_index), **best}

    @arrays.setter
    def arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self._best_index = int(arrays["best_index"])
        self._best_error = float(arrays["best_error"]) if self._best_index >= 0 else math.inf
        count = sum(name.startswith("best/") for name in arrays)
        self._best_weights = [arrays[f"best/{i}"] for i in range(count)]

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Set the weights of an initialization or the best ones, and the learning rate."""
        settings = self._settings
        phase, each = settings.initialization_phase_epochs, settings.epochs_per_initialization
        if self.model.epoch_step_offset == 0:  # otherwise an earlier process began this epoch
            if epoch < phase and epoch % each == 0:
                self._set_weights(self._initial_weights[epoch // each])
            elif epoch == phase and phase:
                if self._best_index < 0:
                    raise TrainingDiverged(
                        f"none of {settings.initialization_count} initializations has a finite"
                        " loss: lower LEARNING_RATE, or check the examples and the model"
                    )
                log_shared(
                    f"Continuing with the best initialization: {self._best_index + 1} of"
                    f" {settings.initialization_count}, loss {self._best_error:.3f}"
                )
                self._set_weights(self._best_weights)
        progress = max(0, epoch - phase) / settings.main_phase_epochs
        rate = settings.learning_rate * (1 + math.cos(math.pi * progress)) / 2
        local_part(self.model.optimizer.learning_rate).assign(rate)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Compare an initialization that has ended with the best earlier one."""
        settings = self._settings
        each = settings.epochs_per_initialization
        if epoch < settings.initialization_phase_epochs and (epoch + 1) % each == 0:
            error = self._measure()
            if not math.isfinite(error) and not self.is_dropped:
                self.drop(epoch, f"its loss over the training split is {error}")
            if not self.is_dropped and error < self._best_error:
                self._best_error, self._best_index = error, epoch // each
                self._best_weights = self.model.model.get_weights()

    def _set_weights(self, weights: list[np.ndarray]) -> None:
        """Set the model's weights, and the optimizer to its initial state."""
        if self.is_dropped:
            self.is_dropped = False
            self.model.replicas.reset()
        self.model.model.set_weights(weights)
        for variable in self.model.optimizer.variables:
            variable.assign(np.zeros(variable.shape, variable.dtype.as_numpy_dtype))
