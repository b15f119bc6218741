"""`python -m tests.support.fake_training`: like `python -m training`, with the fake trainer."""

import sys

from common.errors import run_main
from training.__main__ import main

WORKER_COMMAND = (sys.executable, "-m", "tests.support.fake_worker")

if __name__ == "__main__":
    sys.exit(run_main(lambda: main(WORKER_COMMAND)))
