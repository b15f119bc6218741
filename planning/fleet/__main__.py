"""`make fleet`: simulate a job on 1 to 10,000 workers with stragglers, losses and restarts."""

import dataclasses
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console

from common import storage
from common.errors import SettingsError, exit_on_signals, run_main
from common.settings import Settings
from common.settings.groups.training import TrainingSettings
from common.settings.options import FleetOptions
from common.settings.settings import AUTO
from common.storage import StoragePath
from planning.costs import Costs
from planning.fleet import published, study
from planning.fleet.fleet_console import print_published, print_studies
from planning.fleet.fleet_study import FleetStudy
from planning.fleet.hardware import FLEETS, epoch, reach
from planning.fleet.jobs import FleetJobs, measure_checkpoint_seconds
from planning.fleet.simulation import chief_mtbf, daly
from planning.options import require_measurable
from planning.planner import make_plan

MIN_WIDTH = 132
"""Width of the table on a narrower terminal."""

PUBLISHED_EXAMPLES, PUBLISHED_BATCH = 1_000, 1_024
"""Examples and batch of the plot of reachable qubits, as in the published epoch."""

ROTATED = "every qubit of each example rotated"


def main() -> None:
    """Measure a few steps, simulate the fleet, print and write the results."""
    settings, options = Settings.with_options(sys.argv[1:], "fleet", FleetOptions)
    require_measurable(settings.job.target)
    check_settings(settings.training)
    exit_on_signals()
    console = Console(width=max(MIN_WIDTH, Console().width))
    folder = storage.path(settings.job.storage) / f"fleet_{datetime.now():%Y-%m-%d_%H-%M-%S}"
    checkpoint_seconds = measure_checkpoint_seconds(folder)
    with console.status("measuring") as status:
        plan = make_plan(settings, report=status.update, quick=options.quick)
    machine = dataclasses.replace(plan.machine, dedicated=True)
    started = time.monotonic()
    workloads = {settings.data.data: plan.workload}
    if plan.workload.has_spanning_states:
        workloads[ROTATED] = plan.workload.without_spanning_states()
    studies = []
    for data, workload in workloads.items():
        costs = Costs(workload, plan.profile, machine, settings.training)
        jobs = FleetJobs(costs, settings, checkpoint_seconds)
        studies.append(FleetStudy(data, jobs, settings, options))
    print_studies(console, settings, options, studies, time.monotonic() - started)
    print_published(console)
    write(folder, options.price_per_worker_hour, studies)
    console.print(f"Plots and tables written to {folder}", soft_wrap=True, highlight=False)


def check_settings(training: TrainingSettings) -> None:
    """Check for settings that the simulation can't use.

    Raises:
        SettingsError: STATE_SHARDS is set, or WORKERS or BATCH is auto.
    """
    if training.state_shards > 1:
        raise SettingsError(
            f"STATE_SHARDS={training.state_shards} can't be used here: each simulated worker holds"
            " whole states; omit STATE_SHARDS, and see the plot of reachable qubits"
        )
    if AUTO in (training.workers, training.batch):
        raise SettingsError(
            "the simulation uses all numbers of workers: omit WORKERS or set it to the largest"
            " number, and set BATCH to a number"
        )


@dataclasses.dataclass(frozen=True)
class FleetReach:
    """A row of reach.csv: an epoch with some qubits on a fleet."""

    fleet: str
    qubits: int
    seconds: float
    compute: float
    exchange: float
    state_shards: int
    memory: float
    within_an_hour: bool


def compute_reach(examples: int, batch: int) -> list[FleetReach]:
    """Return the data of the plot of reachable qubits."""
    rows = []
    for fleet in FLEETS:
        most = reach(fleet, 3600.0, examples, batch)
        for qubits in range(8, 46):
            cost = epoch(fleet, qubits, examples, batch)
            if cost is not None:
                within = qubits <= most
                rows.append(FleetReach(fleet.name, qubits, **vars(cost), within_an_hour=within))
    return rows


def write(folder: StoragePath, price: float, studies: Sequence[FleetStudy]) -> None:
    """Write tables and plots, each atomically."""
    from planning.fleet import fleet_plots  # importing matplotlib takes a second

    points = [point for one in studies for point in one.points]
    last = studies[-1]  # the data that is not spanned by few states, if both are simulated
    optimum = daly(last.job.checkpoint_seconds, chief_mtbf(last.hazards))
    tables: dict[str, Sequence[object]] = {
        "fleet": points,
        "checkpoints": [row for rows in last.intervals.values() for row in rows],
        "reach": compute_reach(PUBLISHED_EXAMPLES, PUBLISHED_BATCH),
        "published": published.cases(),
    }
    for name, rows in tables.items():
        storage.write_atomic(folder / f"{name}.csv", study.table(rows).encode())
    figures = {
        "fleet": fleet_plots.workers(points, price),
        "checkpoints": fleet_plots.checkpoints(last.intervals, optimum),
        "reach": fleet_plots.reachable_fleets(PUBLISHED_EXAMPLES, PUBLISHED_BATCH),
    }
    with tempfile.TemporaryDirectory() as name:
        for title, figure in figures.items():
            figure.savefig(Path(name) / f"{title}.png", dpi=110, metadata={"Software": None})
            storage.write_atomic(folder / f"{title}.png", Path(name) / f"{title}.png")


if __name__ == "__main__":
    sys.exit(run_main(main))
