"""`python -m tests.support.fake_chaos`: like `python -m chaos`, with the fake trainer."""

import sys

from chaos.__main__ import Options, run
from chaos.local import LocalPlace
from common.errors import exit_on_signals, run_main
from tests.support.patience import seconds

TRAINING = (sys.executable, "-m", "tests.support.fake_training")
STEP_SECONDS = "0.01"
LIMIT_SECONDS = seconds(300.0)
# Shorter than in real campaigns: a stopped worker is lost after PEER_TIMEOUT.
LONGEST_FAULT_SECONDS = 15.0
SETTINGS = (f"PEER_TIMEOUT={seconds(4):.0f}",)


def main() -> int:
    """Run the campaign of the command line."""
    options = Options.parse(sys.argv[1:])
    exit_on_signals()
    environment = {"FAKE_STEP_SECONDS": STEP_SECONDS}
    settings = [*SETTINGS, *options.settings]
    place = LocalPlace(settings, TRAINING, LIMIT_SECONDS, environment, LONGEST_FAULT_SECONDS)
    with place:
        return run(options, place)


if __name__ == "__main__":
    sys.exit(run_main(main))
