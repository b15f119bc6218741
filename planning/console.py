"""A plan for a person: a table of ways to train, what is recommended, and how sure that is."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from common.settings import Settings
from common.settings.settings import AUTO
from planning.costs import CostForecast
from planning.planner import TrainingPlan

ACCURACY_FILE = Path(__file__).parents[1] / "benchmarks" / "planner.json"
BUSY_CPU_PERCENT = 2  # times the cores: a load that the planner alone does not make


def print_plan(plan: TrainingPlan, settings: Settings, console: Console) -> None:
    """Print a plan."""
    for line in _heading(plan, settings):
        console.print(line, soft_wrap=True)
    console.print(_table(plan, settings))
    for reason in plan.choice.reasons:
        console.print(reason, soft_wrap=True, highlight=False)
    console.print(error_sentence(), soft_wrap=True, highlight=False)


def _heading(plan: TrainingPlan, settings: Settings) -> Iterator[str]:
    workload, machine, profile = plan.workload, plan.machine, plan.profile
    same = ""
    if workload.circuits > 1:
        same = f", {workload.circuits} circuits of which {workload.distinct} differ"
    yield (
        f"{settings.model.model}: {workload.qubits} qubits{same}, {workload.operations:,.0f} operations"
        f" each, {workload.weights} weights; {workload.examples:,} examples of {settings.data.data}"
    )
    where = "a pod" if machine.own else "this machine"
    if profile.seconds:
        measured = f"measured in {profile.seconds:.0f} s"
    else:
        measured = f"measured {_ago(time.time() - profile.taken)} ago and remembered"
    yield f"{where}: {machine.cores} cores, {machine.memory / 2**30:.1f} GiB; {measured}"
    load = os.getloadavg()[0]
    if profile.seconds and not machine.own and load > BUSY_CPU_PERCENT * machine.cores:
        yield (
            f"other programs kept it busy meanwhile (load {load:.0f}): exchanges above all take"
            " less time on a quiet machine"
        )


def _ago(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 1):.0f} s"


def _table(plan: TrainingPlan, settings: Settings) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    names = ["", "workers", "threads", "batch", "plan", "ms a\nstep", "of them\nexchange"]
    names += ["examples\na second", "s an\nepoch", "s a\nrun", "MiB a\nworker"]
    names += (
        ["price of\nan epoch", "price of\na run"] if settings.planning.price_per_worker_hour else []
    )
    for name in names:
        table.add_column(name, justify="left" if name in ("", "plan") else "right", no_wrap=True)
    for one in _rows(plan, settings):
        table.add_row(*_cells(one, plan, settings))
    return table


def _rows(plan: TrainingPlan, settings: Settings) -> list[CostForecast]:
    """The recommended batch with every number of workers; other batches with the recommended."""
    best = plan.choice.best.option
    every = plan.choice.considered
    return [
        one
        for one in every
        if settings.training.batch_per_worker
        or one.option.batch == best.batch
        or one.option.workers == best.workers
        or (
            settings.training.workers not in (AUTO, best.workers)
            and one.option.workers == settings.training.workers
        )
    ]


def _cells(one: CostForecast, plan: TrainingPlan, settings: Settings) -> list[str]:
    option, step = one.option, one.step
    crowded = not plan.machine.own and option.workers * option.threads > plan.machine.cores
    cells = [
        "→" if one is plan.choice.best else "",
        f"{option.workers}{'*' if crowded else ''}",
        str(option.threads),
        str(option.batch),
        one.plan,
        _short(1e3 * step.seconds),
        _short(1e3 * step.exchange) if option.workers > 1 else "",
        _short(one.rate),
        _short(one.epoch),
        _short(one.run),
        f"{one.memory / 2**20:,.0f}" + ("" if one.fits else " too much"),
    ]
    if settings.planning.price_per_worker_hour:
        cells += [_short(one.epoch_price), _short(one.run_price)]
    return cells


def _short(number: float) -> str:
    """Three digits of a small number, the whole of a large one."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def error_sentence() -> str:
    """How far predictions were off in the check that `python -m benchmarks.planner_accuracy` recorded."""
    try:
        said = json.loads(ACCURACY_FILE.read_text(encoding="utf-8"))
        median, worst, count = said["median"], said["worst"], len(said["rows"])
        where = said["machine"]["CPU"]
    except (OSError, ValueError, KeyError):
        return "How far such a plan is off: `python -m benchmarks.planner_accuracy` would say it."
    return (
        f"Such steps were foretold to {100 * median:.0f} % (median; worst {100 * worst:.0f} %) in"
        f" {count} configurations that nothing was fitted to (benchmarks/planner.json, {where})."
    )
