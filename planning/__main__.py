"""`make plan`: how to train, before it is done: time, memory and cost, and what is recommended."""

import sys

from rich.console import Console

from common.errors import end_on_signals, run_main
from common.settings import Settings
from planning import written
from planning.planner import plan
from planning.shown import show


def main() -> None:
    """Plan, show the plan, and with APPLY write what it recommends as settings."""
    settings = Settings.from_args(sys.argv[1:])
    end_on_signals()
    if settings.apply:
        written.check()
    console = Console(width=None if sys.stdout.isatty() else 120)
    with console.status("planning") as status:
        heard = status.update if console.is_terminal else console.print
        # The short form takes what was measured before.
        found = plan(settings, heard=heard, fresh=not settings.quick)
    show(found, settings, console)
    chosen = written.chosen(settings, found.choice.best.option, found.machine)
    if settings.apply:
        path = written.write(chosen)
        console.print(f"written to {path}", soft_wrap=True)
        console.print(f"next:  make training CONFIG={path}", soft_wrap=True)
    else:
        said = " ".join(written.as_arguments(chosen))
        console.print(f"next:  make training {said}", soft_wrap=True)
        console.print(f"       APPLY=1 writes that to {written.FILE}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(run_main(main))
