"""`python -m tests.support.fake_training`: like `python -m training`, with the fake trainer.

The launcher's limits are scaled with the machine. The environment variable LIVENESS_SECONDS
replaces that of all processes.
"""

import os
import sys

from common.errors import run_main
from common.processes import heartbeats
from tests.support import patience
from training.__main__ import main
from training.launcher import local_launcher

WORKER_COMMAND = (sys.executable, "-m", "tests.support.fake_worker")


def set_liveness() -> None:
    """Let silent processes be killed after LIVENESS_SECONDS of the environment, or scale it."""
    scaled = patience.seconds(heartbeats.LIVENESS_SECONDS)
    heartbeats.LIVENESS_SECONDS = float(os.environ.get("LIVENESS_SECONDS", scaled))


if __name__ == "__main__":
    for name in (
        "PEER_EXIT_TIMEOUT_SECONDS", "START_EXIT_TIMEOUT_SECONDS", "TERMINATION_GRACE_SECONDS",
    ):  # fmt: skip
        setattr(local_launcher, name, patience.seconds(getattr(local_launcher, name)))
    set_liveness()
    sys.exit(run_main(lambda: main(WORKER_COMMAND)))
