"""`python -m tests.support.fake_training`: like `python -m training`, with the fake trainer.

The launcher's limits are scaled with the machine. The environment variable LIVENESS_SECONDS
replaces that of the launcher.
"""

import os
import sys

from common.errors import run_main
from tests.support import patience
from training.__main__ import main
from training.launcher import local_launcher

WORKER_COMMAND = (sys.executable, "-m", "tests.support.fake_worker")

if __name__ == "__main__":
    for name in (
        "LIVENESS_SECONDS", "PEER_EXIT_TIMEOUT_SECONDS", "START_EXIT_TIMEOUT_SECONDS",
        "TERMINATION_GRACE_SECONDS",
    ):  # fmt: skip
        setattr(local_launcher, name, patience.seconds(getattr(local_launcher, name)))
    if seconds := os.environ.get("LIVENESS_SECONDS"):
        local_launcher.LIVENESS_SECONDS = float(seconds)
    sys.exit(run_main(lambda: main(WORKER_COMMAND)))
