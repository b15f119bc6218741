"""What keeps a run alive: the state at each step boundary, and checkpoints of it in storage."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from common.errors import DeadlineReached, Preempted, WeightsError
from qfleet.tensorflow.runtime import keras
from training.learner import Learner
from training.multi_start import MultiStart
from training.preemption import Preemption

log = logging.getLogger("qfleet")


@dataclass(frozen=True)
class TrainingState:
    """All that training needs to go on from a step boundary as if nothing had happened."""

    epoch: int  # counted from 0
    step: int  # the next step in that epoch, counted from 0
    steps: int  # steps done since the run began
    arrays: dict[str, np.ndarray]

    @property
    def state(self) -> dict[str, int]:
        """The numbers that stand beside the arrays in a checkpoint."""
        return {"epoch": self.epoch, "step": self.step, "steps": self.steps}

    def __str__(self) -> str:
        return f"step {self.step} of epoch {self.epoch + 1}"


def capture_state(learner: Learner, starts: MultiStart, epoch: int, step: int) -> TrainingState:
    """Copy weights, optimizer, sums and the best start to the host."""
    arrays = {f"model/{i}": weight.numpy() for i, weight in enumerate(learner.model.weights)}
    arrays |= {f"optimizer/{i}": v.numpy() for i, v in enumerate(learner.optimizer.variables)}
    arrays |= {"sums": learner.sums, **starts.arrays}
    return TrainingState(epoch, step, learner.steps, arrays)


def restore_state(learner: Learner, starts: MultiStart, snapshot: TrainingState) -> None:
    """Set what `take` took.

    Raises:
        WeightsError: The arrays belong to another model.
    """
    variables = {f"model/{i}": weight for i, weight in enumerate(learner.model.weights)}
    variables |= {f"optimizer/{i}": v for i, v in enumerate(learner.optimizer.variables)}
    try:
        for name, variable in variables.items():
            variable.assign(snapshot.arrays[name])
        learner.sums = snapshot.arrays["sums"]
        starts.arrays = snapshot.arrays
    except (KeyError, ValueError) as error:
        raise WeightsError(f"the checkpoint belongs to another model: {error}") from None
    learner.steps = snapshot.steps


class CheckpointCallback(keras.callbacks.Callback):
    """The chief's: notes the state at each step boundary and commits it when it is time.

    A commit happens every `every` epochs, when SIGTERM or the deadline asks for it, and, from the
    newest note, when a peer was lost. That of an epoch runs beside training, one at a time; what
    made it fail is raised at the next boundary, and the end of training waits for the last.

    Args:
        commit: Writes a snapshot to storage, whole or not at all.
        starts: Holds what is to be kept of the starts.
        every: Epochs between two checkpoints.
        steps_per_epoch: Steps in a whole epoch.
        preemption: Tells whether SIGTERM came.
        deadline: `time.monotonic()` at which to leave, or None.
    """

    def __init__(
        self,
        commit: Callable[[TrainingState], None],
        starts: MultiStart,
        *,
        every: int,
        steps_per_epoch: int,
        preemption: Preemption,
        deadline: float | None,
    ) -> None:
        super().__init__()
        self._commit = commit
        self._starts = starts
        self._every = every
        self._steps_per_epoch = steps_per_epoch
        self._preemption = preemption
        self._deadline = deadline
        self._lock = threading.Lock()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="keeper")
        self._writing: Future[None] | None = None
        self._newest: TrainingState | None = None
        self._committed = -1
        self._epoch = 0

    def start(self, snapshot: TrainingState | None) -> None:
        """Go on from a snapshot that is in storage already, or from nothing."""
        self._newest = snapshot
        if snapshot:
            self._committed = snapshot.steps
        self._preemption.on_stuck = self.commit

    def commit(self) -> None:
        """Have the newest snapshot in storage when this returns. Safe from any thread."""
        if self._newest:
            self._write(self._newest)

    def _write(self, snapshot: TrainingState) -> None:
        with self._lock:
            if snapshot.steps > self._committed:
                self._commit(snapshot)
                self._committed = snapshot.steps

    def _settle(self) -> None:
        """Wait for the commit beside training; raise what made it fail."""
        writing, self._writing = self._writing, None
        if writing:
            writing.result()

    def close(self) -> None:
        """Let the commit beside training end, however training did: nothing is written later."""
        self._writer.shutdown()

    def on_train_end(self, logs: dict | None = None) -> None:
        """Training has ended when its last checkpoint is written."""
        self._settle()

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        """Note which epoch it is."""
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """A step boundary: `batch` is the newest step of this call, counted from 0."""
        step = self.model.offset + batch + 1
        if step < self._steps_per_epoch:  # the last one's boundary is the epoch's end
            self._boundary(self._epoch, step)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """The boundary between two epochs."""
        self._boundary(epoch + 1, 0, due=(epoch + 1) % self._every == 0)

    def _boundary(self, epoch: int, step: int, *, due: bool = False) -> None:
        self._newest = capture_state(self.model, self._starts, epoch, step)
        # At most one epoch passes beside a commit, so that a kill loses little more than `every`.
        if step == 0 or (self._writing and self._writing.done()):
            self._settle()
        if due:
            self._writing = self._writer.submit(self._write, self._newest)
        if self._preemption.requested.is_set():
            self.commit()
            raise Preempted(f"stopped by SIGTERM; the checkpoint is at {self._newest}")
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self.commit()
            raise DeadlineReached(
                f"DEADLINE has passed; the checkpoint is at {self._newest}:"
                " the same command goes on from there"
            )
