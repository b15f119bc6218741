"""`python -m tests.support.fake_study`: like `python -m studies`, with the fake trainer.

The planner measures nothing: its predictions are those of real trainings.
"""

import sys

from common.errors import run_main
from studies import __main__ as program

TRIAL_COMMAND = (sys.executable, "-m", "tests.support.fake_training")

if __name__ == "__main__":
    program.predict = lambda *args, **options: None
    sys.exit(run_main(lambda: program.main(TRIAL_COMMAND)))
