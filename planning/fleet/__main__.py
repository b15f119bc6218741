"""`make fleet`: a job on 1 to 10,000 workers with stragglers, losses and restarts, simulated."""

import dataclasses
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from common import checkpoints, storage
from common.errors import SettingsError, exit_on_signals, run_main
from common.settings import Settings
from common.settings.settings import AUTO
from common.storage import StoragePath
from planning.costs import Costs, MachineMemory, WorkerOption
from planning.fleet import published, study
from planning.fleet.hardware import FLEETS, VECTOR, epoch, exchange_seconds, reach
from planning.fleet.simulation import Hazards, SimulatedJob, StepTiming, chief_mtbf, daly
from planning.fleet.study import duration
from planning.planner import make_plan

WIDTH = 132  # of the table, where a terminal is narrower
PUBLISHED = (1_000, 1_024)  # examples and batch that the reach is told for, as the published epoch
TURNED = "every qubit of each example turned"
SHOWN = (1, 2, 4, 8, 16, 32, 64, 128, 512, 1024, 4096, 10_000)


def main() -> None:
    """Measure a few steps, simulate the fleet, show what came of it, and write it down."""
    settings = Settings.from_args(sys.argv[1:])
    refuse(settings)
    exit_on_signals()
    console = Console(width=max(WIDTH, Console().width))
    folder = storage.path(settings.job.storage) / f"fleet_{datetime.now():%Y-%m-%d_%H-%M-%S}"
    commit = commit_seconds(folder)
    with console.status("measuring") as status:
        found = make_plan(settings, heard=status.update)
    machine = MachineMemory(found.machine.cores, found.machine.memory, own=True)
    began = time.monotonic()
    kinds = {settings.data.data: found.workload}
    if any(found.workload.spans.values()):
        kinds[TURNED] = dataclasses.replace(found.workload, spans={})
    studies = [
        FleetStudy(
            data,
            FleetJobs(Costs(load, found.profile, machine, settings), settings, commit),
            settings,
        )
        for data, load in kinds.items()
    ]
    show(console, settings, studies, time.monotonic() - began)
    show_published(console)
    write(folder, settings, studies)
    console.print(f"plots and tables are in {folder}", soft_wrap=True, highlight=False)


class FleetStudy:
    """All that is simulated of one kind of data.

    Args:
        data: The kind, in words.
        jobs: What is to be done.
        settings: The rates, BATCH, the most WORKERS, PRICE, SEED and QUICK.
    """

    def __init__(self, data: str, jobs: "FleetJobs", settings: Settings) -> None:
        self.data, self.jobs = data, jobs
        self.hazards = Hazards(
            settings.planning.preemption_rate,
            settings.planning.step_time_cv,
            settings.planning.restart_seconds,
            settings.planning.preemption_notice_fraction,
        )
        trials, seed, batch = (
            100 if settings.planning.quick else 400,
            settings.data.seed,
            settings.training.global_batch,
        )
        self.points = study.sweep(
            jobs,
            jobs.batches(batch),
            self.hazards,
            settings.planning.price_per_worker_hour,
            trials=trials,
            seed=seed,
            most=settings.training.workers if "workers" in settings.explicit else study.MOST,
            data=data,
        )
        self.one = study.advised_workers(self.points, batch)
        self.job = jobs(batch, self.one.workers)
        tried = {self.one.workers, *(n for n in (1, 16, 256) if n <= batch)}
        self.tried = {
            workers: study.intervals(
                jobs(batch, workers), self.hazards, trials=10 * trials, seed=seed
            )
            for workers in sorted(tried)
        }

    def advice(self, price: float) -> list[str]:
        """What a person should know."""
        tried = self.tried[self.one.workers]
        return study.advice(self.points, self.one, tried, self.job, self.hazards, price)


def refuse(settings: Settings) -> None:
    """Say what has no meaning here.

    Raises:
        SettingsError: It has none.
    """
    if settings.training.state_shards > 1:
        raise SettingsError(
            f"STATE_SHARDS={settings.training.state_shards}: the simulated fleet holds a whole state in each worker; leave"
            " STATE_SHARDS out, and see the plot of the qubits within reach for split ones"
        )
    if AUTO in (settings.training.workers, settings.training.batch):
        raise SettingsError(
            "the simulated fleet tries all numbers of workers itself: leave WORKERS out or say the"
            " most, and give BATCH as a number"
        )


class FleetJobs:
    """The planner's costs as jobs: batch, workers -> what they have to do.

    A worker is a machine like this one (or a pod), with all its cores unless THREADS says less.

    Args:
        costs: Fitted to this workload; workers have machines of their own.
        settings: What is trained.
        commit: Seconds that a checkpoint takes.
    """

    def __init__(self, costs: Costs, settings: Settings, commit: float) -> None:
        self._costs, self._settings, self.commit = costs, settings, commit
        self.threads = settings.training.threads or costs.machine.cores
        self.examples = costs.workload.examples
        # Of as few rows as there may be: what is fitted grows with the wait for the slower one.
        self.hop = costs.of(WorkerOption(2, 2, self.threads)).step.exchange
        self.vector = max(VECTOR, 4 * (costs.workload.weights + 4))

    def batches(self, batch: int) -> list[int]:
        """The batch that is asked for, and larger ones that the examples suffice for."""
        return [b for b in (batch, 16 * batch, 256 * batch) if b == batch or b <= self.examples]

    def __call__(self, batch: int, workers: int) -> SimulatedJob:
        """The whole run, its validation spread over its steps."""
        steps = -(-self.examples // batch)
        rows = -(-self.examples // steps)  # of a step; the last of an epoch may have fewer
        seen = self._costs.of(WorkerOption(workers, batch, self.threads))
        alone = self._costs.of(WorkerOption(1, -(-rows // workers), self.threads)).step
        rest = max(seen.epoch - steps * seen.step.seconds, 0.0) / steps
        own = alone.simulate + alone.input + alone.other
        shared = exchange_seconds(workers, self.hop, self.vector) + rest
        settings = self._settings
        return SimulatedJob(
            workers, settings.training.epochs, steps, StepTiming(own, shared), seen.start,
            every=min(settings.checkpointing.checkpoint_interval, settings.training.epochs), commit=self.commit,
            attempts=settings.fault_tolerance.max_attempts,
        )  # fmt: skip


def commit_seconds(folder: StoragePath) -> float:
    """Seconds that a QCNN's checkpoint takes in this storage: the median of five."""
    arrays = {f"{kind}/{i}": np.zeros(21, np.float32) for kind in "mo" for i in range(6)}
    taken = []
    try:
        for step in range(5):
            began = time.perf_counter()
            checkpoints.save(folder / "trial", step, arrays, {"step": step}, keep=2)
            taken.append(time.perf_counter() - began)
    finally:
        for path in storage.children(folder / "trial" / "checkpoints"):
            storage.delete(path)
        with suppress(OSError, AttributeError):
            for path in (folder / "trial" / "checkpoints", folder / "trial", folder):
                path.rmdir()
    return float(np.median(taken))


def show(console: Console, settings: Settings, studies: Sequence[FleetStudy], took: float) -> None:
    """Print what was assumed, the table, and the advice."""
    first = studies[0]
    said = [
        f"{settings.model.model}: {settings.model.qubits} qubits, {first.jobs.examples:,} examples,"
        f" {settings.training.epochs} epochs; a worker has {first.jobs.threads} cores like these",
        f"lost: {settings.planning.preemption_rate:g} times per worker and hour, {settings.planning.preemption_notice_fraction:.0%} of them"
        f" announced; {settings.planning.restart_seconds:g} s until the gang has met again, {first.job.start:.0f} s"
        f" until it trains; steps scatter by {settings.planning.step_time_cv:.0%}; a checkpoint takes"
        f" {1e3 * first.jobs.commit:.0f} ms",
        f"simulated in {took:.1f} s",
    ]
    if len(studies) > 1:
        said.append(
            f"The examples of {first.data} span few states, which each worker evolves whatever its"
            " share of a batch: so both are shown, that data and examples that turn every qubit."
        )
    for line in said:
        console.print(line, soft_wrap=True, highlight=False)
    for found in studies:
        console.print(f"\n{found.data}", highlight=False)
        console.print(_table(found, settings))
        for line in found.advice(settings.planning.price_per_worker_hour):
            console.print(line, soft_wrap=True, highlight=False)


def _table(found: FleetStudy, settings: Settings) -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 1))
    names = ["", "batch", "workers", "step ms", "shared ms", "undisturbed", "mean", "10 %", "90 %"]
    for name in [
        *names,
        "losses",
        "finish",
        *(["cost"] if settings.planning.price_per_worker_hour else []),
    ]:
        table.add_column(name, justify="right", no_wrap=True)
    for p in found.points:
        if p.workers in SHOWN or p is found.one:
            cells = ["→" if p is found.one else "", f"{p.batch:,}", f"{p.workers:,}"]
            cells += [f"{1e3 * part:,.{0 if part > 0.1 else 1}f}" for part in (p.step, p.shared)]
            cells += [duration(s) for s in (p.undisturbed, p.seconds, p.low, p.high)]
            cells += [f"{p.losses:.2g}", f"{p.finished:.0%}"]
            table.add_row(
                *cells, *([f"{p.cost:.3g}"] if settings.planning.price_per_worker_hour else [])
            )
    return table


def show_published(console: Console) -> None:
    """Print the published cases beside ours."""
    table = Table(box=box.SIMPLE, padding=(0, 1))
    for name in ("published case", "there", "by our model", "vCPU s a circuit", "ours"):
        table.add_column(name)
    for case in published.cases():
        told = duration(case.published) if case.published else "no time is given"
        each = f"{case.circuit:,.0f}" if case.circuit else ""
        table.add_row(case.what, told, duration(case.ours), each, f"{case.our_circuit:,.2g}")
    console.print(table)
    console.print("Source and reading: docs/fleet.md.", highlight=False)


@dataclasses.dataclass(frozen=True)
class FleetReach:
    """A line of reach.csv: a fleet, and an epoch of so many qubits on it."""

    fleet: str
    qubits: int
    seconds: float
    compute: float
    exchange: float
    split: int
    memory: float
    within_an_hour: bool


def measure_reach(examples: int, batch: int) -> list[FleetReach]:
    """What the plot of the qubits within reach shows."""
    found = []
    for fleet in FLEETS:
        most = reach(fleet, 3600.0, examples, batch)
        for qubits in range(8, 46):
            one = epoch(fleet, qubits, examples, batch)
            if one is not None:
                found.append(
                    FleetReach(fleet.name, qubits, **vars(one), within_an_hour=qubits <= most)
                )
    return found


def write(folder: StoragePath, settings: Settings, studies: Sequence[FleetStudy]) -> None:
    """Write tables and plots, each whole or not at all."""
    from planning.fleet import fleet_plots  # matplotlib only now: it takes a second

    examples, batch = PUBLISHED
    points = [point for found in studies for point in found.points]
    last = studies[-1]  # where both are simulated, that of which more is to be seen
    wanted = daly(last.job.commit, chief_mtbf(last.hazards))
    tables: dict[str, Sequence[object]] = {
        "fleet": points,
        "checkpoints": [one for found in last.tried.values() for one in found],
        "reach": measure_reach(examples, batch),
        "published": published.cases(),
    }
    for name, rows in tables.items():
        storage.write_atomic(folder / f"{name}.csv", study.table(rows).encode())
    figures = {
        "fleet": fleet_plots.workers(points, settings.planning.price_per_worker_hour),
        "checkpoints": fleet_plots.checkpoints(last.tried, wanted),
        "reach": fleet_plots.reachable_fleets(examples, batch),
    }
    with tempfile.TemporaryDirectory() as name:
        for title, figure in figures.items():
            figure.savefig(Path(name) / f"{title}.png", dpi=110, metadata={"Software": None})
            storage.write_atomic(folder / f"{title}.png", Path(name) / f"{title}.png")


if __name__ == "__main__":
    sys.exit(run_main(main))
