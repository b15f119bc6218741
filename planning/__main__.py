"""`make plan`: how to train, before it is done: time, memory and cost, and what is recommended."""

import sys

from rich.console import Console

from common.errors import exit_on_signals, run_main
from common.settings import Settings
from planning import plan_file
from planning.console import print_plan
from planning.planner import make_plan


def main() -> None:
    """Plan, show the plan, and with APPLY write what it recommends as settings."""
    settings = Settings.from_args(sys.argv[1:])
    exit_on_signals()
    if settings.planning.apply:
        plan_file.check()
    console = Console(width=None if sys.stdout.isatty() else 120)
    with console.status("planning") as status:
        heard = status.update if console.is_terminal else console.print
        # The short form takes what was measured before.
        found = make_plan(settings, heard=heard, fresh=not settings.planning.quick)
    print_plan(found, settings, console)
    chosen = plan_file.apply_plan(settings, found.choice.best.option, found.machine)
    if settings.planning.apply:
        path = plan_file.write(chosen)
        console.print(f"written to {path}", soft_wrap=True)
        console.print(f"next:  make training CONFIG={path}", soft_wrap=True)
    else:
        said = " ".join(plan_file.to_cli_args(chosen))
        console.print(f"next:  make training {said}", soft_wrap=True)
        console.print(f"       APPLY=1 writes that to {plan_file.FILE}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(run_main(main))
