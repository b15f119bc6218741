"""Checkpoints while training runs: state at step boundaries, background writes, early stops.

Imports no TensorFlow. callbacks/checkpointing.py connects it to Keras.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from common.checkpoints import BestEpoch, Checkpoint
from common.errors import DeadlineReached, Preempted, StorageUnavailable
from training.process.preemption import Preemption
from training.process.watchdog import STORAGE_SECONDS

if TYPE_CHECKING:
    import numpy as np


STATE_COUNTERS = ("epoch", "step", "steps")
"""Numbers in the state of a checkpoint."""


@dataclass(frozen=True)
class TrainingState:
    """Everything that training needs to resume from a step boundary with identical results.

    Attributes:
        epoch: Current epoch, counted from 0.
        step: Next step in that epoch, counted from 0.
        steps: Steps done since the run began.
        arrays: Weights, optimizer state and sums, by name.
        best: The epoch with the lowest validation loss so far, if that is kept (KEEP_BEST).
    """

    epoch: int
    step: int
    steps: int
    arrays: "dict[str, np.ndarray]"
    best: BestEpoch | None = None

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Self:
        """Return the state that a checkpoint holds."""
        counters = {name: checkpoint.state[name] for name in ("epoch", "step", "steps")}
        return cls(arrays=checkpoint.arrays, best=checkpoint.best, **counters)

    @property
    def counters(self) -> dict[str, object]:
        """Position and best epoch, which a checkpoint stores along with the arrays."""
        best = {"best": self.best._asdict()} if self.best else {}
        return {"epoch": self.epoch, "step": self.step, "steps": self.steps, **best}

    def __str__(self) -> str:
        return f"epoch {self.epoch + 1}, step {self.step}"


class CheckpointWriter:
    """Keeps the state of the last step boundary on the chief, and commits it when it is due.

    States of whole epochs are committed in the background, one at a time. An error of such a commit
    is raised at the next boundary; the end of training waits for the last one. SIGTERM and the
    deadline commit in the foreground and stop training.

    Args:
        commit: Writes a state to storage, atomically.
        preemption: SIGTERM state. If no boundary comes in time, it commits the last state itself.
        deadline: `time.monotonic()` at which to stop, or None.
    """

    def __init__(
        self,
        commit: Callable[[TrainingState], None],
        preemption: Preemption,
        deadline: float | None,
    ) -> None:
        self._commit = commit
        self._preemption = preemption
        self._deadline = deadline
        self._lock = threading.Lock()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._pending: Future[None] | None = None
        self._newest: TrainingState | None = None
        self._committed_steps = -1

    def start(self, state: TrainingState | None) -> None:
        """Begin from a state that is in storage already, or from none."""
        self._newest = state
        if state:
            self._committed_steps = state.steps
        self._preemption.watchdog.at_end(commit=self.commit_newest)

    def on_step_boundary(self, state: TrainingState | None, *, due: bool = False) -> None:
        """Keep the state, commit it if due, and stop training after SIGTERM or at the deadline.

        Args:
            state: The state at this boundary; None where it can't be used, so that the last one
                stays the newest.
            due: Commit it in the background; only for the end of an epoch (`state.step` is 0).

        Raises:
            Preempted, DeadlineReached: Training stops; the state is in storage.
            StorageError, StorageUnavailable: A commit failed.
        """
        self._newest = state or self._newest
        # At most one epoch passes during a commit, so that a kill loses little more than one
        # checkpoint interval.
        if (state and state.step == 0) or (self._pending and self._pending.done()):
            self.wait_for_pending_save()
        if state and due:
            self._pending = self._executor.submit(self._save, state)
        if self._preemption.requested.is_set():
            self._commit_at_boundary()
            raise Preempted(f"stopped by SIGTERM; {self._saved}")
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._commit_at_boundary()
            raise DeadlineReached(
                f"DEADLINE reached; {self._saved}; run the same command again to continue"
            )

    @property
    def _saved(self) -> str:
        """State in storage, and the place where the next start begins."""
        if self._newest:
            return f"saved checkpoint: {self._newest}"
        return "no checkpoint yet, so that the next start begins from the beginning"

    def commit_newest(self) -> None:
        """Return when the newest state is in storage. Safe to call from any thread."""
        if self._newest:
            self._save(self._newest)

    def _commit_at_boundary(self) -> None:
        with self._preemption.watchdog.within(
            "the last checkpoint", STORAGE_SECONDS, StorageUnavailable
        ):
            self.commit_newest()

    def wait_for_pending_save(self) -> None:
        """Wait for the commit in the background and raise its error."""
        pending, self._pending = self._pending, None
        if pending:
            with self._preemption.watchdog.within(
                "the background save of a checkpoint", STORAGE_SECONDS, StorageUnavailable
            ):
                pending.result()

    def close(self) -> None:
        """Let the commit in the background end, so that nothing is written later."""
        self._executor.shutdown()

    def _save(self, state: TrainingState) -> None:
        with self._lock:
            if state.steps > self._committed_steps:
                self._commit(state)
                self._committed_steps = state.steps
