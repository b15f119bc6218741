"""WORKERS=auto and BATCH=auto: `python -m planning.auto SETTING=value ...`, for what starts jobs.

It plans with what was measured before, or measures shortly, and prints JSON: the settings that
were chosen, and why. What starts it (training, the cluster's client; common/runs/auto_settings.py) needs
nothing of what a plan needs.
"""

import json
import sys

from common.errors import exit_on_signals, run_main
from common.settings import Settings
from common.settings.settings import AUTO
from planning.plan_file import recommended_threads
from planning.planner import make_plan


def main() -> None:
    """Print what is chosen."""
    settings = Settings.from_args([*sys.argv[1:], "QUICK=true"])
    exit_on_signals()
    if settings.training.batch != AUTO and not settings.training.batch_per_worker:
        # What is not left to the planner stays as training would take it.
        settings = Settings.from_args(
            [*settings.to_args(), f"BATCH={settings.training.global_batch}"]
        )
    found = make_plan(settings, keep_workers=True)
    option = found.choice.best.option
    measured = f"in {found.profile.seconds:.0f} s" if found.profile.seconds else "before"
    threads = recommended_threads(option, found.machine)
    said = {
        "workers": option.workers,
        "batch": option.batch,
        "state_shards": option.split,
        "threads": settings.training.threads if threads is None else threads,
        "why": " ".join([*found.choice.reasons, f"(measured {measured})"]),
    }
    print(json.dumps(said))


if __name__ == "__main__":
    sys.exit(run_main(main))
