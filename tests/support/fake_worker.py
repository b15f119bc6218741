"""A worker with the fake trainer: `python -m tests.support.fake_worker`, like training.worker."""

import json
import os
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.fake_faults import strike
from training import worker
from training.process.worker_process import exit_worker

if TYPE_CHECKING:
    from tests.support.fake_trainer import FakeTrainer
    from training.trainer_protocol import TrainingContext


def open_trainer(context: "TrainingContext") -> "AbstractContextManager[FakeTrainer]":
    """Build the fake trainer. It imports NumPy, which must wait until SIGTERM is blocked."""
    from tests.support.fake_trainer import open_fake_trainer

    return open_fake_trainer(context)


def main() -> None:
    """Train this worker's share of a run with the fake trainer."""
    storage = next(arg for arg in sys.argv if arg.lower().startswith(("storage=", "--storage=")))
    config = json.loads(os.environ.get("TF_CONFIG", '{"task": {"index": 0}}'))
    strike(Path(storage.partition("=")[2]), config["task"]["index"], "start")
    worker.main(open_trainer)


if __name__ == "__main__":
    exit_worker(main)
