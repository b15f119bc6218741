"""`python -m tests.support.fake_study`: like `python -m studies`, with the fake trainer."""

import sys

from common.errors import run_main
from studies.__main__ import main

TRIAL_COMMAND = (sys.executable, "-m", "tests.support.fake_training")

if __name__ == "__main__":
    sys.exit(run_main(lambda: main(TRIAL_COMMAND)))
