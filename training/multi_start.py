"""Several starts: the way out of local minima.

A QCNN that is trained from one random start often ends in a local minimum, whatever the learning
rate. Simulation is cheap, so INITIALIZATIONS first weights are each trained for INITIALIZATION_EPOCHS epochs, and the
one with the lowest error over the training split is trained on, with a fresh optimizer and a
learning rate that falls to zero along a cosine.
"""

import logging
import math
from collections.abc import Callable, Sequence

import numpy as np

from common.settings import Settings
from qfleet.tensorflow.runtime import keras

log = logging.getLogger("qfleet")


class MultiStart(keras.callbacks.Callback):
    """Sets weights, optimizer and learning rate at the beginning of epochs.

    Args:
        settings: INITIALIZATIONS, INITIALIZATION_EPOCHS, EPOCHS and LEARNING_RATE are read.
        firsts: The first weights of each start; empty where there is one start only.
        measure: The mean squared error over the training split, by all workers together.
    """

    def __init__(
        self,
        settings: Settings,
        firsts: Sequence[list[np.ndarray]],
        measure: Callable[[], float],
    ) -> None:
        super().__init__()
        self._settings = settings
        self._firsts = firsts
        self._measure = measure
        self._best_error = math.inf
        self._best: list[np.ndarray] = []

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint must hold of the starts: the best one so far."""
        best = {f"best/{i}": array for i, array in enumerate(self._best)}
        return {"best_error": np.array(self._best_error), **best}

    @arrays.setter
    def arrays(self, arrays: dict[str, np.ndarray]) -> None:
        self._best_error = float(arrays["best_error"])
        count = sum(name.startswith("best/") for name in arrays)
        self._best = [arrays[f"best/{i}"] for i in range(count)]

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Begin a start, or the training of the best one; set the learning rate."""
        before, each = (
            self._settings.training.initialization_phase_epochs,
            self._settings.training.epochs_per_initialization,
        )
        if self.model.offset == 0:  # else the epoch began before this process did
            if epoch < before and epoch % each == 0:
                self._begin(self._firsts[epoch // each])
            elif epoch == before and before:
                log.info(
                    f"the best of {self._settings.training.initialization_count} starts is trained on"
                )
                self._begin(self._best)
        highest = self._settings.training.learning_rate
        done = max(0, epoch - before) / self._settings.training.main_phase_epochs
        rate = highest * (1 + math.cos(math.pi * done)) / 2
        self.model.optimizer.learning_rate.assign(rate)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Compare a start that has ended with the best one before it."""
        if (
            epoch < self._settings.training.initialization_phase_epochs
            and (epoch + 1) % self._settings.training.epochs_per_initialization == 0
        ):
            error = self._measure()
            if error < self._best_error:
                self._best_error, self._best = error, self.model.model.get_weights()

    def _begin(self, weights: list[np.ndarray]) -> None:
        self.model.model.set_weights(weights)
        for variable in self.model.optimizer.variables:
            variable.assign(np.zeros(variable.shape, variable.dtype.as_numpy_dtype))
