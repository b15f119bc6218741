"""`python -m tests.support.fake_study`: like `python -m studies`, with the fake trainer.

TARGET=k8s uses a fake cluster. The planner measures nothing: it would predict real trainings.
"""

import sys

from common.errors import run_main
from studies import __main__ as program
from studies import kubernetes_trials
from tests.support.fake_training import set_liveness

TRIAL_COMMAND = (sys.executable, "-m", "tests.support.fake_training")
CLIENT_COMMAND = [sys.executable, "-m", "tests.support.fake_cluster_client"]

if __name__ == "__main__":
    set_liveness()
    program.predict = lambda *args, **options: None
    kubernetes_trials.cluster_client_command = lambda: CLIENT_COMMAND
    sys.exit(run_main(lambda: program.main(TRIAL_COMMAND)))
