"""WORKERS=auto and BATCH=auto: `python -m planning.auto SETTING=value ...`.

It plans with cached measurements, or measures for a short time, and emits an event `plan` with the
chosen settings and the reason. Programs that start jobs run it as a process
(common/runs/auto_settings.py), because they do not need the dependencies of planning.
"""

import sys

from common import events
from common.errors import exit_on_signals, run_main
from common.settings import Settings
from common.settings.settings import AUTO
from planning.plan_file import recommended_threads
from planning.planner import make_plan


def main() -> None:
    """Emit the chosen settings."""
    settings = Settings.from_args(sys.argv[1:])
    exit_on_signals()
    training = settings.training
    if training.batch != AUTO:
        # The default batch counts as explicit: training would use it.
        settings = Settings.from_args([*settings.to_args(), f"BATCH={training.global_batch}"])
    plan = make_plan(settings, keep_workers=True, quick=True)
    option = plan.recommendation.best.option
    seconds = plan.profile.seconds
    source = f"measured in {seconds:.0f} s" if seconds else "cached measurements"
    threads = recommended_threads(option, plan.machine)
    events.emit(
        "plan",
        settings={
            "workers": option.workers,
            "batch": option.batch,
            "state_shards": option.state_shards,
            "threads": training.threads if threads is None else threads,
            "device": plan.device if plan.machine.gpus else settings.model.device,
        },
        reason=" ".join([*plan.recommendation.reasons, f"({source})"]),
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
