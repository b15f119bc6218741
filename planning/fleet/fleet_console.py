"""Console output of `make fleet`."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from common.settings import Settings
from common.settings.circuit_file import short_model
from common.settings.options import FleetOptions
from common.text import plural
from planning.fleet import published
from planning.fleet.fleet_study import FleetStudy
from planning.fleet.study import SweepPoint, duration

SHOWN_WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 512, 1024, 4096, 10_000)


def print_studies(
    console: Console,
    settings: Settings,
    options: FleetOptions,
    studies: Sequence[FleetStudy],
    seconds: float,
) -> None:
    """Print the assumptions, and the table and the advice of each study.

    Args:
        console: Where to print.
        settings: Settings of the simulated job.
        options: Its losses and step times.
        studies: One study per kind of data.
        seconds: Duration of the simulation.
    """
    price, first = options.price_per_worker_hour, studies[0]
    lines = [
        f"{short_model(settings.model.model)}: {plural(settings.model.qubits, 'qubit')},"
        f" {plural(first.jobs.examples, 'example')}, {plural(settings.training.epochs, 'epoch')};"
        f" {plural(first.jobs.threads, 'core')} like those of this machine per worker",
        f"losses: {options.preemption_rate:g} per worker and hour,"
        f" {options.preemption_notice_fraction:.0%} with notice; {options.restart_seconds:g} s"
        f" until the next rendezvous, {first.job.start_seconds:.0f} s until the first step; step"
        f" time varies by {options.step_time_cv:.0%}; a checkpoint takes"
        f" {1e3 * first.jobs.checkpoint_seconds:.0f} ms",
        f"simulated in {seconds:.1f} s",
    ]
    if len(studies) > 1:
        lines.append(
            f"Few states span the examples of {first.data}, and each worker simulates all of these"
            " states. Both are shown: this data, and examples that rotate every qubit."
        )
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)
    for one in studies:
        console.print(f"\n{one.data}", highlight=False)
        console.print(_table(one.points, one.advised, prices=price > 0))
        for line in one.advice(price):
            console.print(line, soft_wrap=True, highlight=False)


def _table(points: Sequence[SweepPoint], advised: SweepPoint, *, prices: bool) -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 1))
    names = ["", "batch", "workers", "step ms", "shared ms", "undisturbed", "mean", "10 %", "90 %"]
    names += ["losses", "finished", *(["cost"] if prices else [])]
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for p in points:
        if p.workers in SHOWN_WORKERS or p is advised:
            cells = ["→" if p is advised else "", f"{p.batch:,}", f"{p.workers:,}"]
            parts = (p.step_seconds, p.shared_seconds)
            cells += [f"{1e3 * part:,.{0 if part > 0.1 else 1}f}" for part in parts]
            times = (p.undisturbed_seconds, p.seconds, p.low_seconds, p.high_seconds)
            cells += [duration(seconds) for seconds in times]
            cells += [f"{p.losses:.2g}", f"{p.finished:.0%}"]
            table.add_row(*cells, *([f"{p.cost:.3g}"] if prices else []))
    return table


def print_published(console: Console) -> None:
    """Print the published cases and our predictions for them."""
    table = Table(box=box.SIMPLE, padding=(0, 1))
    names = ("published case", "published", "our model", "vCPU s per circuit", "our model")
    for name in names:
        table.add_column(name)
    for case in published.cases():
        seconds = duration(case.published) if case.published else "no time given"
        each = f"{case.circuit:,.0f}" if case.circuit else ""
        table.add_row(
            case.what, seconds, duration(case.predicted), each, f"{case.predicted_circuit:,.2g}"
        )
    console.print(table)
    console.print("Source and discussion: docs/benchmarks.md.", highlight=False)
