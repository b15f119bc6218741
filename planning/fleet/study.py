"""A job on 1 to 10,000 workers: simulated time to finish and cost."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

from planning.fleet.simulation import (
    Hazards,
    SimulatedJob,
    simulate,
    step_time,
    undisturbed_seconds,
)

MAX_WORKERS = 10_000

WORTHWHILE_SAVING = 0.1
"""Fraction of the time that twice the workers must save."""

Jobs = Callable[[int, int], SimulatedJob]
"""(batch, workers) -> job."""


@dataclass(frozen=True)
class SweepPoint:
    """One number of workers with one batch, simulated.

    Attributes:
        data: Description of the data.
        batch: Examples per step over all workers.
        workers: Number of workers.
        checkpoint_interval: Epochs between two checkpoints.
        epoch_seconds: Seconds of an epoch without stragglers and losses.
        step_seconds: Mean seconds of a step that waits for the slowest worker.
        shared_seconds: Part of them that more workers do not shorten: communication, validation.
        undisturbed_seconds: Seconds to the result without stragglers and losses.
        seconds: Mean seconds to the result; infinite if fewer than half of the runs finish.
        low_seconds: 10th percentile of the seconds.
        high_seconds: 90th percentile of the seconds.
        losses: Mean number of lost workers per run.
        finished: Fraction of the runs that finish before MAX_ATTEMPTS ends them.
        cost: Mean cost; 0 without PRICE_PER_WORKER_HOUR.
    """

    data: str
    batch: int
    workers: int
    checkpoint_interval: int
    epoch_seconds: float
    step_seconds: float
    shared_seconds: float
    undisturbed_seconds: float
    seconds: float
    low_seconds: float
    high_seconds: float
    losses: float
    finished: float
    cost: float


def group_sizes(most: int = MAX_WORKERS) -> list[int]:
    """Return numbers of workers: powers of two, and the largest number."""
    return [2**power for power in range(most.bit_length()) if 2**power < most] + [most]


def sweep(
    jobs: Jobs,
    batches: Iterable[int],
    hazards: Hazards,
    price: float,
    *,
    trials: int,
    seed: int,
    most: int = MAX_WORKERS,
    data: str = "",
) -> list[SweepPoint]:
    """Simulate each batch with each number of workers that it has examples for.

    Args:
        jobs: The job for a batch and a number of workers.
        batches: Batches to simulate.
        hazards: Rates of failures and stragglers.
        price: Price per worker and hour.
        trials: Simulated runs per point.
        seed: Seed of the simulation.
        most: Largest number of workers.
        data: Description of the data.
    """
    points = [
        simulate_point(jobs(batch, workers), batch, hazards, price, trials=trials, seed=seed)
        for batch in batches
        for workers in group_sizes(min(batch, most))
    ]
    return [replace(point, data=data) for point in points]


def simulate_point(
    job: SimulatedJob, batch: int, hazards: Hazards, price: float, *, trials: int, seed: int
) -> SweepPoint:
    """Simulate one job."""
    outcome = simulate(job, hazards, trials=trials, seed=seed)
    any_finished = outcome.finished.any()
    return SweepPoint(
        data="",
        batch=batch,
        workers=job.workers,
        checkpoint_interval=job.checkpoint_interval,
        epoch_seconds=job.epoch_seconds,
        step_seconds=step_time(job, hazards.step_time_cv)[0],
        shared_seconds=job.step.shared,
        undisturbed_seconds=undisturbed_seconds(job),
        seconds=outcome.mean,
        low_seconds=outcome.seconds_at(10) if any_finished else math.inf,
        high_seconds=outcome.seconds_at(90) if any_finished else math.inf,
        losses=float(outcome.losses.mean()),
        finished=outcome.finished_fraction,
        cost=price * job.workers * outcome.mean / 3600 if price else 0.0,
    )


@dataclass(frozen=True)
class CheckpointInterval:
    """One interval between checkpoints, simulated.

    Attributes:
        workers: Number of workers.
        epochs: Epochs between two checkpoints.
        seconds: Seconds of work between two checkpoints.
        overhead: Additional mean time, relative to a run without losses and checkpoints.
    """

    workers: int
    epochs: int
    seconds: float
    overhead: float


def checkpoint_intervals(
    job: SimulatedJob, hazards: Hazards, *, trials: int, seed: int
) -> list[CheckpointInterval]:
    """Simulate a job with many intervals between checkpoints, and the same losses for all."""
    epoch_seconds = job.steps * step_time(job, hazards.step_time_cv)[0]
    ideal = simulate(
        replace(job, checkpoint_interval=job.epochs, checkpoint_seconds=0.0),
        replace(hazards, preemption_rate=0.0),
        trials=1,
    ).mean
    intervals = []
    for epochs in sorted({round(job.epochs ** (i / 16)) for i in range(17)}):
        outcome = simulate(
            replace(job, checkpoint_interval=epochs), hazards, trials=trials, seed=seed
        )
        overhead = outcome.mean / ideal - 1
        seconds = epochs * epoch_seconds
        intervals.append(CheckpointInterval(job.workers, epochs, seconds, overhead))
    return intervals


def advised_workers(points: Sequence[SweepPoint], batch: int) -> SweepPoint:
    """Return the fewest workers, with this batch, that are not worth doubling."""
    row = sorted((one for one in points if one.batch == batch), key=lambda one: one.workers)
    row = [one for one in row if math.isfinite(one.seconds)] or row[:1]
    for one, double in pairwise(row):
        if double.seconds > one.seconds * (1 - WORTHWHILE_SAVING):
            return one
    return row[-1]


def duration(seconds: float) -> str:
    """Format seconds with a unit; "never" if they are infinite."""
    if not math.isfinite(seconds):
        return "never"
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s"


def table(rows: Sequence[object]) -> str:
    """Return dataclass instances as CSV."""
    text = io.StringIO()
    records = [asdict(row) for row in rows]  # type: ignore[call-overload]
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    for record in records:
        writer.writerow({n: f"{v:.6g}" if isinstance(v, float) else v for n, v in record.items()})
    return text.getvalue()
