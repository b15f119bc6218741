"""One worker of a run: `python -m training.worker`.

The launcher (training/launcher/local_launcher.py, or the Kubeflow operator) sets TF_CONFIG, which
holds the addresses of all workers and this worker's rank, and reads the exit code.
"""

import sys
from typing import TYPE_CHECKING

from common.settings import Settings
from training.process.attempt import WorkerAttempt
from training.process.worker_process import exit_worker, start_worker

if TYPE_CHECKING:
    from training.trainer_protocol import TrainerFactory


def main(open_trainer: "TrainerFactory | None" = None) -> None:
    """Train this worker's share of a run, together with the other workers.

    Args:
        open_trainer: Builds the trainer; the TensorFlow one (training/trainer.py) by default.
    """
    settings, cluster, preemption, watchdog = start_worker(Settings.from_args(sys.argv[1:]))
    with WorkerAttempt(settings, cluster, watchdog) as attempt:
        if not attempt.begin():
            return
        # NumPy starts threads when it is imported, so SIGTERM must be blocked before.
        from training.train import train

        train(attempt, cluster, preemption, watchdog, open_trainer)


if __name__ == "__main__":
    exit_worker(main)
