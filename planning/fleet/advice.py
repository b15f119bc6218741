"""Advice from a simulated fleet: workers, checkpoint interval, and the cost of losses."""

import math
from collections.abc import Sequence
from dataclasses import replace

from common.text import plural
from planning.fleet.simulation import Hazards, SimulatedJob, chief_mtbf, daly, simulate, young
from planning.fleet.study import WORTHWHILE_SAVING, CheckpointInterval, SweepPoint, duration


def advice(
    points: Sequence[SweepPoint],
    advised: SweepPoint,
    intervals: Sequence[CheckpointInterval],
    job: SimulatedJob,
    hazards: Hazards,
    price: float,
) -> list[str]:
    """Return sentences of advice.

    Args:
        points: Points of `sweep`.
        advised: The advised one of them.
        intervals: Result of `checkpoint_intervals` for `job`.
        job: The simulated job of `advised`.
        hazards: Rates of failures and stragglers.
        price: Price per worker and hour.
    """
    if not math.isfinite(advised.seconds):
        reason = _no_progress(advised, job, hazards)
        return [f"With BATCH={advised.batch:,} most runs never finish{reason}."]
    workers = plural(advised.workers, "worker")
    cost = f" for {advised.cost:.3g}" if price else ""
    return [
        f"Use {workers} and BATCH={advised.batch:,}: {duration(advised.seconds)}{cost}; twice as"
        f" many workers would save less than {WORTHWHILE_SAVING:.0%}{_limit(points, advised)}.",
        _checkpoint_advice(advised, intervals, job, hazards),
        _cost_of_losses(points, advised, job, hazards, price),
    ]


def _checkpoint_advice(
    advised: SweepPoint,
    intervals: Sequence[CheckpointInterval],
    job: SimulatedJob,
    hazards: Hazards,
) -> str:
    mtbf = chief_mtbf(hazards)
    if math.isinf(mtbf):
        return "No chief is lost without notice, so only a later resume needs checkpoints."
    optimum = daly(job.checkpoint_seconds, mtbf)
    epochs = min(job.epochs, max(1, round(optimum / advised.epoch_seconds)))
    nearest = min(intervals, key=lambda one: abs(one.epochs - epochs))
    best = min(intervals, key=lambda one: one.overhead)
    return (
        f"Set CHECKPOINT_INTERVAL={epochs}: a checkpoint takes"
        f" {1e3 * job.checkpoint_seconds:.0f} ms and a chief is lost every {duration(mtbf)}, so"
        f" Daly's optimum is {duration(optimum)} of work (Young's"
        f" {duration(young(job.checkpoint_seconds, mtbf))}), and an epoch is"
        f" {duration(advised.epoch_seconds)}. In the simulation, losses and checkpoints then cost"
        f" {max(nearest.overhead, 0.0):.2%}; the best simulated interval, {best.epochs}, costs"
        f" {max(best.overhead, 0.0):.2%}."
    )


def _limit(points: Sequence[SweepPoint], advised: SweepPoint) -> str:
    """Return why more workers do not help, as the end of a sentence."""
    more = [p for p in points if p.batch == advised.batch and p.workers > advised.workers]
    if not more and advised.workers >= advised.batch:
        return ", because no example is left for another worker"
    if not more:
        return ", or were not simulated"
    double = more[0]
    if double.finished < 0.99:
        return f", because {1 - double.finished:.0%} of such runs fail"
    if double.shared_seconds > 0.3 * double.step_seconds:
        share = f"{double.shared_seconds / double.step_seconds:.0%}"
        return f", because communication and validation then take {share} of a step"
    if double.seconds > 1.2 * double.undisturbed_seconds:
        extra = double.seconds / double.undisturbed_seconds - 1
        return f", because losses and stragglers then cost {extra:.0%}"
    if double.step_seconds > 0.7 * advised.step_seconds:
        return ", because half the examples hardly shorten the step of a worker"
    return ", because the start takes most of the time"


def _cost_of_losses(
    points: Sequence[SweepPoint],
    advised: SweepPoint,
    job: SimulatedJob,
    hazards: Hazards,
    price: float,
) -> str:
    ideal = simulate(job, replace(hazards, preemption_rate=0.0), trials=50).mean
    extra = max(advised.seconds / ideal - 1, 0.0)  # two simulations may differ by noise
    money = f" and {advised.cost * extra / (1 + extra):.2g}" if price else ""
    text = (
        f"Losses (PREEMPTION_RATE={hazards.preemption_rate:g}) cost {extra:.1%} of the time{money}:"
        f" {advised.losses:.2g} per run"
    )
    failing = [p for p in points if p.batch == advised.batch and p.finished < 0.5]
    if failing and hazards.preemption_rate:
        text += _no_progress(failing[0], job, hazards)
    return text + "."


def _no_progress(failing: SweepPoint, job: SimulatedJob, hazards: Hazards) -> str:
    """Return why most runs with this number of workers never finish, as the end of a sentence."""
    gap = 3600 / hazards.preemption_rate / failing.workers
    return (
        f"; with {plural(failing.workers, 'worker')}, one is lost every {duration(gap)} and a start"
        f" takes {duration(job.start_seconds)}, so most runs end after"
        f" MAX_ATTEMPTS={job.max_attempts} attempts without a new checkpoint"
    )
