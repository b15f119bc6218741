"""`make plan`: predict time, memory and cost of a training, and recommend how to train."""

import contextlib
import sys

from rich.console import Console

from common.commands import command
from common.data import check
from common.errors import exit_on_signals, run_main
from common.settings import Settings
from common.settings.forward_checks import require_trainable
from common.settings.options import PlanOptions
from common.waiting import Waiting
from planning import plan_file, scaling
from planning.console import print_plan
from planning.options import require_measurable
from planning.planner import make_plan


def main() -> None:
    """Plan, print the plan, with APPLY write its settings, and with SCALING measure workers."""
    settings, options = Settings.with_options(sys.argv[1:], "plan", PlanOptions)
    require_measurable(settings.job.target)
    require_trainable(settings.model, settings.data)
    check(settings)
    quick = options.quick
    scaled = scaling.selected_cases(settings, quick=quick) if options.scaling else None
    exit_on_signals()
    if options.apply:
        plan_file.check()
    console = Console(width=None if sys.stdout.isatty() else 120)
    wait = contextlib.nullcontext() if console.is_terminal else Waiting("the plan")
    with console.status("planning") as status, wait:
        report = status.update if console.is_terminal else console.print
        # Only the short form uses cached measurements.
        price = options.price_per_worker_hour
        plan = make_plan(settings, price, report=report, fresh=not quick, quick=quick)
    print_plan(plan, settings, console, prices=price > 0)
    values = plan_file.apply_plan(settings, plan.recommendation.best.option, plan.machine)
    if options.apply:
        path = plan_file.write(values)
        console.print(f"Settings written to {path}.", soft_wrap=True)
        steps = [f"{command('train')} CONFIG={path}"]
    else:
        arguments = " ".join(plan_file.to_cli_args(settings, values))
        steps = [
            f"{command('train')} {arguments}",
            f"{command('plan')} APPLY=1 (writes {plan_file.FILE})",
        ]
    console.print("Next steps:")
    for step in steps:
        console.print(f"  {step}", soft_wrap=True)
    if scaled:
        scaling.measure_scaling(*scaled, plan)


if __name__ == "__main__":
    sys.exit(run_main(main))
