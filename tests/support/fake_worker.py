"""A worker with the fake trainer: `python -m tests.support.fake_worker`, like training.worker."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from training import worker
from training.worker_process import exit_worker

if TYPE_CHECKING:
    from tests.support.fake_trainer import FakeTrainer
    from training.trainer_protocol import TrainingContext


def open_trainer(context: "TrainingContext") -> "AbstractContextManager[FakeTrainer]":
    """Build the fake trainer. It imports NumPy, which must wait until SIGTERM is blocked."""
    from tests.support.fake_trainer import open_fake_trainer

    return open_fake_trainer(context)


def main() -> None:
    """Train this worker's share of a run with the fake trainer."""
    worker.main(open_trainer)


if __name__ == "__main__":
    exit_worker(main)
