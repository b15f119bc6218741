"""A job on 1 to 10,000 workers: time to finish, cost, and what to do about it."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

from planning.fleet.simulation import (
    Hazards,
    SimulatedJob,
    SimulatedOutcome,
    chief_mtbf,
    daly,
    simulate,
    step_time,
    undisturbed,
    young,
)

MOST = 10_000
WORTH = 0.1  # doubling the workers is worth it where it saves this share of the time
Jobs = Callable[[int, int], SimulatedJob]


@dataclass(frozen=True)
class SweepPoint:
    """One number of workers with one batch, simulated.

    Attributes:
        data: What is trained on, in words.
        batch: Examples a step in all workers together.
        workers: In the gang.
        every: Epochs between two checkpoints.
        epoch: Seconds of an epoch, undisturbed.
        step: Mean seconds of a step with its wait for the slowest.
        shared: Of them, those that more workers do not shorten: the exchange, and validation.
        undisturbed: Seconds to the result where nothing goes wrong.
        seconds: Mean seconds to the result; infinite where fewer than half of the runs have one.
        low: Seconds that a tenth of the runs keep below.
        high: Seconds that a tenth of the runs exceed.
        losses: Workers lost in a run, mean.
        finished: Share of the runs that have a result before MAX_ATTEMPTS ends them.
        cost: Money, mean; 0 where no PRICE was told.
    """

    data: str
    batch: int
    workers: int
    every: int
    epoch: float
    step: float
    shared: float
    undisturbed: float
    seconds: float
    low: float
    high: float
    losses: float
    finished: float
    cost: float


def group_sizes(most: int = MOST) -> list[int]:
    """Numbers of workers: powers of two, and the most."""
    return [2**power for power in range(most.bit_length()) if 2**power < most] + [most]


def sweep(
    jobs: Jobs,
    batches: Iterable[int],
    hazards: Hazards,
    price: float,
    *,
    trials: int,
    seed: int,
    most: int = MOST,
    data: str = "",
) -> list[SweepPoint]:
    """Simulate each batch with each number of workers, `most` at most, that it has examples for."""
    return [
        replace(
            point(jobs(batch, workers), batch, hazards, price, trials=trials, seed=seed), data=data
        )
        for batch in batches
        for workers in group_sizes(min(batch, most))
    ]


def point(
    job: SimulatedJob, batch: int, hazards: Hazards, price: float, *, trials: int, seed: int
) -> SweepPoint:
    """Simulate one job."""
    outcome = simulate(job, hazards, trials=trials, seed=seed)
    some = outcome.finished.any()
    return SweepPoint(
        data="",
        batch=batch,
        workers=job.workers,
        every=job.every,
        epoch=job.steps * (job.step.own + job.step.shared),
        step=step_time(job, hazards.stragglers)[0],
        shared=job.step.shared,
        undisturbed=undisturbed(job),
        seconds=outcome.mean,
        low=outcome.seconds_at(10) if some else math.inf,
        high=outcome.seconds_at(90) if some else math.inf,
        losses=float(outcome.losses.mean()),
        finished=outcome.share,
        cost=_cost(outcome, job.workers, price),
    )


def _cost(outcome: SimulatedOutcome, workers: int, price: float) -> float:
    return price * workers * outcome.mean / 3600 if price else 0.0


@dataclass(frozen=True)
class Interval:
    """One distance between checkpoints, simulated.

    Attributes:
        workers: In the gang.
        every: Epochs between two checkpoints.
        seconds: The same in seconds of work.
        overhead: Mean time to the result over the time without losses and checkpoints, less 1.
    """

    workers: int
    every: int
    seconds: float
    overhead: float


def intervals(job: SimulatedJob, hazards: Hazards, *, trials: int, seed: int) -> list[Interval]:
    """Simulate a job with many distances between checkpoints; the same losses for all."""
    epoch = job.steps * step_time(job, hazards.stragglers)[0]
    calm = simulate(
        replace(job, every=job.epochs, commit=0.0), replace(hazards, preemptions=0.0), trials=1
    ).mean
    every = sorted({round(job.epochs ** (i / 16)) for i in range(17)})
    found = []
    for epochs in every:
        outcome = simulate(replace(job, every=epochs), hazards, trials=trials, seed=seed)
        found.append(Interval(job.workers, epochs, epochs * epoch, outcome.mean / calm - 1))
    return found


def advised_workers(points: Sequence[SweepPoint], batch: int) -> SweepPoint:
    """The fewest workers, with this batch, that doubling them is not worth it for."""
    row = sorted((one for one in points if one.batch == batch), key=lambda one: one.workers)
    row = [one for one in row if math.isfinite(one.seconds)] or row[:1]
    for one, twice in pairwise(row):
        if twice.seconds > one.seconds * (1 - WORTH):
            return one
    return row[-1]


def advice(
    points: Sequence[SweepPoint],
    one: SweepPoint,
    tried: Sequence[Interval],
    job: SimulatedJob,
    hazards: Hazards,
    price: float,
) -> list[str]:
    """What a person should know, a sentence each.

    Args:
        points: Of `sweep`.
        one: The advised one of them.
        tried: Of `intervals`, for `job`.
        job: What `one` was simulated of.
        hazards: What goes wrong.
        price: Money per worker and hour.
    """
    workers = f"{one.workers:,} worker" + "s" * (one.workers > 1)
    if not math.isfinite(one.seconds):
        return [f"With BATCH={one.batch:,} most runs never finish{_in_vain(one, job, hazards)}."]
    said = [
        f"Take {workers} and BATCH={one.batch:,}: {duration(one.seconds)}"
        + (f" for {one.cost:.3g}" if price else "")
        + f"; twice as many would save less than {WORTH:.0%}{_why(points, one)}."
    ]
    mtbf = chief_mtbf(hazards)
    if math.isinf(mtbf):
        said.append("No chief is lost without notice, so checkpoints are for the next start alone.")
    else:
        wanted, epoch = daly(job.commit, mtbf), one.epoch
        every = min(job.epochs, max(1, round(wanted / epoch)))
        here = min(tried, key=lambda i: abs(i.every - every))
        best = min(tried, key=lambda i: i.overhead)
        said.append(
            f"Take CHECKPOINT_INTERVAL={every}: a checkpoint takes {1e3 * job.commit:.0f} ms and a"
            f" chief is lost every {duration(mtbf)}, so Daly's distance is {duration(wanted)} of"
            f" work (Young's {duration(young(job.commit, mtbf))}), and an epoch is"
            f" {duration(epoch)}. Simulated, losses and checkpoints cost"
            f" {max(here.overhead, 0.0):.2%} so; the best that was tried, every {best.every},"
            f" {max(best.overhead, 0.0):.2%}."
        )
    said.append(_preempted(points, one, job, hazards, price))
    return said


def _why(points: Sequence[SweepPoint], one: SweepPoint) -> str:
    more = [p for p in points if p.batch == one.batch and p.workers > one.workers]
    if not more and one.workers >= one.batch:
        return ", since no worker would have an example more to spare"
    if not more:
        return ", or were not tried"
    twice = more[0]
    if twice.finished < 0.99:
        return f", since {1 - twice.finished:.0%} of such runs end in vain"
    if twice.shared > 0.3 * twice.step:
        part = f"{twice.shared / twice.step:.0%}"
        return f", since the exchange and validation take {part} of a step then"
    if twice.seconds > 1.2 * twice.undisturbed:
        return (
            f", since losses and stragglers cost {twice.seconds / twice.undisturbed - 1:.0%} then"
        )
    if twice.step > 0.7 * one.step:
        return ", since a worker's part of a step hardly shrinks with its share of the batch"
    return ", since the start takes the most of it"


def _preempted(
    points: Sequence[SweepPoint], one: SweepPoint, job: SimulatedJob, hazards: Hazards, price: float
) -> str:
    calm = simulate(job, replace(hazards, preemptions=0.0), trials=50).mean
    more = max(one.seconds / calm - 1, 0.0)  # two simulations' difference scatters around 0
    money = f" and {one.cost * more / (1 + more):.2g}" if price else ""
    said = (
        f"Losses (PREEMPTION_RATE={hazards.preemptions:g}) cost {more:.1%} of its time{money}:"
        f" {one.losses:.2g} a run"
    )
    vain = [p for p in points if p.batch == one.batch and p.finished < 0.5]
    if vain and hazards.preemptions:
        said += _in_vain(vain[0], job, hazards)
    return said + "."


def _in_vain(lost: SweepPoint, job: SimulatedJob, hazards: Hazards) -> str:
    """Why most runs of so many workers never finish."""
    gap = 3600 / hazards.preemptions / lost.workers
    return (
        f"; with {lost.workers:,} worker{'s' * (lost.workers > 1)} one is lost every"
        f" {duration(gap)} while a start takes {duration(job.start)}, so most runs end after"
        f" MAX_ATTEMPTS={job.attempts} starts without a newer checkpoint"
    )


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if not math.isfinite(seconds):
        return "never"
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s"


def table(rows: Sequence[object]) -> str:
    """Dataclasses as CSV."""
    text = io.StringIO()
    found = [asdict(row) for row in rows]  # type: ignore[call-overload]
    writer = csv.DictWriter(text, list(found[0]), lineterminator="\n")
    writer.writeheader()
    for row in found:
        writer.writerow({n: f"{v:.6g}" if isinstance(v, float) else v for n, v in row.items()})
    return text.getvalue()
