"""Console output of a plan: the considered options as a table, the recommendation, its accuracy."""

import os
import time
from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table

from common.settings import Settings
from common.settings.circuit_file import short_model
from common.settings.groups.training import TrainingSettings
from common.settings.settings import AUTO
from common.text import plural
from planning.accuracy import error_sentence
from planning.costs import CostForecast
from planning.planner import TrainingPlan
from qfleet.devices.calibration import short_name

BUSY_LOAD_PER_CORE = 2
"""System load per core that planning itself does not cause."""


def print_plan(plan: TrainingPlan, settings: Settings, console: Console, *, prices: bool) -> None:
    """Print a plan, with prices if it has them."""
    for line in _heading(plan, settings):
        console.print(line, soft_wrap=True, markup=False)
    console.print(_table(plan, settings.training, prices=prices))
    for reason in plan.recommendation.reasons:
        console.print(reason, soft_wrap=True, highlight=False)
    console.print(error_sentence(), soft_wrap=True, highlight=False)


def _heading(plan: TrainingPlan, settings: Settings) -> Iterator[str]:
    workload, machine, profile = plan.workload, plan.machine, plan.profile
    circuits = ""
    if workload.circuits > 1:
        circuits = f", {workload.circuits} circuits ({workload.distinct_circuits} distinct)"
    yield (
        f"{short_model(settings.model.model)}: {plural(workload.qubits, 'qubit')}{circuits},"
        f" {workload.operations:,.0f} operations per example, {plural(workload.weights, 'weight')};"
        f" {plural(workload.train_examples, 'example')} of {settings.data.data}"
    )
    if workload.fidelity is not None:
        yield (
            f"NOISE={short_name(settings.model.noise)}: predicted fidelity of the circuits"
            f" {workload.fidelity:.2f}, before the readout"
        )
    name = "pod" if machine.dedicated else "this machine"
    if profile.seconds:
        source = f"measured in {profile.seconds:.0f} s"
    else:
        source = f"cached measurements, {_age(time.time() - profile.created)} old"
    memory = f"{machine.memory_bytes / 2**30:.1f} GiB"
    yield f"{name}: {plural(machine.cores, 'core')}, {memory}, device {plan.device}; {source}"
    load = os.getloadavg()[0]
    if profile.seconds and not machine.dedicated and load > BUSY_LOAD_PER_CORE * machine.cores:
        yield (
            f"Other programs used this machine during the measurement (load {load:.0f}): steps, and"
            " above all communication, take less time on an idle machine."
        )


def _age(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 1):.0f} s"


def _table(plan: TrainingPlan, training: TrainingSettings, *, prices: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    names = ["", "workers", "threads", "batch", "method", "ms per\nstep", "communi-\ncation, ms"]
    names += ["examples\nper s", "s per\nepoch", "s per\nrun", "MiB per\nworker"]
    names += ["price per\nepoch", "price per\nrun"] if prices else []
    for name in names:
        justify = "left" if name in ("", "method") else "right"
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for forecast in _shown_forecasts(plan, training):
        table.add_row(*_cells(forecast, plan, prices=prices))
    return table


def _shown_forecasts(plan: TrainingPlan, training: TrainingSettings) -> list[CostForecast]:
    """Return the recommended batch with all numbers of workers, and all batches with the best."""
    best = plan.recommendation.best.option
    workers = {best.workers} if training.workers == AUTO else {best.workers, training.workers}
    return [
        forecast
        for forecast in plan.recommendation.considered
        if forecast.option.batch == best.batch or forecast.option.workers in workers
    ]


def _cells(forecast: CostForecast, plan: TrainingPlan, *, prices: bool) -> list[str]:
    option, step, machine = forecast.option, forecast.step, plan.machine
    oversubscribed = not machine.dedicated and option.workers * option.threads > machine.cores
    cells = [
        "→" if forecast is plan.recommendation.best else "",
        f"{option.workers}{'*' if oversubscribed else ''}",
        str(option.threads),
        str(option.batch),
        forecast.method,
        _number(1e3 * step.seconds),
        _number(1e3 * step.exchange) if option.workers > 1 else "",
        _number(forecast.examples_per_second),
        _number(forecast.epoch_seconds),
        _number(forecast.run_seconds),
        f"{forecast.memory_bytes / 2**20:,.0f}" + ("" if forecast.fits else " too much"),
    ]
    if prices:
        cells += [_number(forecast.epoch_price), _number(forecast.run_price)]
    return cells


def _number(value: float) -> str:
    """Format a number with three digits, or with all digits before the point if it is large."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
