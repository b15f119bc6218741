"""One worker of a gang, or a worker alone: `python -m training.worker`.

Who starts it (the gang on this machine, the Kubeflow operator) tells it in TF_CONFIG which one it
is, and reads its exit code. What it does then is told in work.py.
"""

import logging
import os
import sys

from common.errors import run_main
from common.settings import Settings
from training import logging_setup
from training.cluster import ClusterSpec
from training.preemption import Preemption, exit_with_parent


def main() -> None:
    """Train this worker's share of a run; the gang's other workers do the same."""
    settings = Settings.from_args(sys.argv[1:])
    cluster = ClusterSpec.from_environment(settings.training.workers)
    if settings.training.workers != cluster.size:
        # TF_CONFIG is what the gang is made of; the settings must hold for that many.
        settings = Settings.from_args([*settings.to_args(), f"--workers={cluster.size}"])
    logging_setup.start_console(cluster.rank, verbose=settings.job.verbose)
    preemption = Preemption(is_chief=cluster.is_chief)
    preemption.watch()
    exit_with_parent()
    # NumPy, too, starts threads when it is imported: not before SIGTERM is blocked.
    from training.train import train

    train(settings, cluster, preemption)


if __name__ == "__main__":
    code = run_main(main)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # TensorFlow's own farewell may wait for peers that are gone.
    os._exit(code)
