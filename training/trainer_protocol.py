"""The interface between a worker's run (train.py, chief.py) and a trainer. Imports no framework."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from common.checkpoints import Checkpoint
    from common.data import Dataset
    from common.errors import QfleetError
    from common.settings import Settings
    from training.checkpointing import TrainingState
    from training.cluster.spec import ClusterSpec
    from training.process.preemption import Preemption
    from training.process.run_dir import LocalRunDir
    from training.process.watchdog import Watchdog


@dataclass(frozen=True)
class TrainingContext:
    """The parts that a trainer is built from.

    Attributes:
        settings: Settings of the run.
        cluster: All workers, and the rank of this one.
        data: The data set.
        run_dir: Folder for events, metrics and text logs.
        commit: Writes a checkpoint; None in workers other than the chief.
        preemption: SIGTERM state.
        deadline: `time.monotonic()` at which training stops with a checkpoint, or None.
        watchdog: Limits of what the trainer does.
        secret: What the workers authenticate their connections with; empty for a single worker.
        wait_for_loss: Returns why the group can't continue; see `GroupMember`.
    """

    settings: "Settings"
    cluster: "ClusterSpec"
    data: "Dataset"
    run_dir: "LocalRunDir"
    commit: "Callable[[TrainingState], None] | None"
    preemption: "Preemption"
    deadline: float | None
    watchdog: "Watchdog"
    secret: bytes = b""
    wait_for_loss: "Callable[[], QfleetError | None]" = lambda: None


class TrainerProtocol(Protocol):
    """Trains one model on one worker. All workers call the same methods in the same order."""

    def resume(self, checkpoint: "Checkpoint") -> None:
        """Restore a checkpoint, before `fit`.

        Raises:
            WeightsError: It belongs to another model.
        """

    def fit(self) -> None:
        """Train to the end of the last epoch.

        Raises:
            Preempted, DeadlineReached: Training stopped early; the chief wrote a checkpoint.
            PeerLost: Another worker ended.
        """

    def measure(self, split: str) -> dict[str, float]:
        """Return the metrics of a split, the loss first, over all workers."""

    def save_model(self, weights: Path) -> dict[str, object]:
        """Write the weights to an HDF5 file and return the content of model.json."""

    def barrier(self) -> None:
        """Return when every worker has called this."""

    @property
    def pruned_angles(self) -> tuple[int, int] | None:
        """Dropped and all trained angles; None with PRUNE=0."""

    @property
    def device(self) -> str:
        """The device of this worker's circuits; empty where another simulator chooses it."""

    @property
    def step_summary(self) -> str:
        """One line on the time of a step; empty where nothing was measured."""


TrainerFactory = Callable[[TrainingContext], AbstractContextManager[TrainerProtocol]]
"""Builds a trainer. Leaving its context converts errors of lost peers to PeerLost or Preempted."""
