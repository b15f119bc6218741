"""Simulation of a training on any number of workers: stragglers, lost workers, checkpoints.

The rules are those of qfleet (docs/planning.md):
    A step waits for its slowest worker and ends with one all-reduce.
    A lost worker ends the attempt; all workers restart `restart_seconds` later.
    A surviving chief keeps the last step boundary, which is the end of a TensorFlow call.
    A chief that receives SIGTERM keeps the next boundary.
    A chief that is lost without notice leaves the last checkpoint (CHECKPOINT_INTERVAL).
    MAX_ATTEMPTS consecutive attempts without a new checkpoint end the run.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from training.step.constants import MAX_CALL_SECONDS, MAX_STEPS_PER_CALL

HOUR_SECONDS = 3600.0


@dataclass(frozen=True)
class StepTiming:
    """One training step without stragglers.

    Attributes:
        own: Seconds of a worker's own work, which a straggler prolongs.
        shared: Seconds of the communication of all workers.
    """

    own: float
    shared: float = 0.0


@dataclass(frozen=True)
class Hazards:
    """Rates of failures and stragglers.

    Attributes:
        preemption_rate: Losses per worker and hour, at random (exponential) times.
        step_time_cv: Coefficient of variation c of a worker's own seconds per step, 0 to 1. They
            are (1 - c) + c E of the mean, with E exponential of mean 1: the shifted exponential of
            Lee et al., IEEE Trans. Inf. Theory 64 (2018) 1514.
        restart_seconds: Seconds from a loss until the next rendezvous is complete.
        notice_fraction: Fraction of the losses that SIGTERM announces.
    """

    preemption_rate: float = 0.0
    step_time_cv: float = 0.0
    restart_seconds: float = 0.0
    notice_fraction: float = 0.0


@dataclass(frozen=True)
class SimulatedJob:
    """A training job.

    Attributes:
        workers: Number of workers; worker 0 is the chief.
        epochs: Epochs of the run, including those of all initializations.
        steps: Steps per epoch.
        step: Time of one step.
        start_seconds: Seconds from the rendezvous to the first step, in each attempt.
        end_seconds: Seconds from the last step to the result.
        checkpoint_interval: Epochs between two checkpoints.
        checkpoint_seconds: Seconds to write a checkpoint.
        max_attempts: Consecutive attempts without a new checkpoint that end the run.
    """

    workers: int
    epochs: int
    steps: int
    step: StepTiming
    start_seconds: float = 0.0
    end_seconds: float = 0.0
    checkpoint_interval: int = 1
    checkpoint_seconds: float = 0.0
    max_attempts: int = 5

    @property
    def epoch_seconds(self) -> float:
        """Seconds of an epoch without stragglers and losses."""
        return self.steps * (self.step.own + self.step.shared)


@dataclass(frozen=True)
class SimulatedOutcome:
    """The outcome of all trials, one entry per trial.

    Attributes:
        seconds: Seconds to the result, or to the end of the last attempt.
        losses: Lost workers.
        repeated: Steps that were repeated.
        resumed: Step that the last attempt resumed from.
        finished: True if there is a result; False if MAX_ATTEMPTS ended the run.
    """

    seconds: np.ndarray
    losses: np.ndarray
    repeated: np.ndarray
    resumed: np.ndarray
    finished: np.ndarray

    @property
    def mean(self) -> float:
        """Mean seconds of the finished runs; infinite if fewer than half of the runs finish."""
        if self.finished_fraction < 0.5:
            return float("inf")
        return float(self.seconds[self.finished].mean())

    @property
    def finished_fraction(self) -> float:
        """Fraction of the runs that finish."""
        return float(self.finished.mean())

    def seconds_at(self, percent: float) -> float:
        """Return a percentile of the seconds of the finished runs."""
        return float(np.percentile(self.seconds[self.finished], percent))


def slowest(workers: int, step_time_cv: float) -> tuple[float, float]:
    """Return mean and standard deviation of the largest of W shifted exponentials of mean 1.

    The order statistic (Renyi 1953): the largest of W exponentials is the sum of E_i / i over
    i = 1 ... W, so its mean is the harmonic number and its variance the sum of 1 / i^2.
    """
    i = np.arange(1, workers + 1, dtype=np.float64)
    mean = 1 - step_time_cv + step_time_cv * float((1 / i).sum())
    return mean, step_time_cv * float(np.sqrt((1 / i**2).sum()))


def step_time(job: SimulatedJob, step_time_cv: float) -> tuple[float, float]:
    """Return mean and standard deviation, in seconds, of a step that waits for the slowest."""
    mean, deviation = slowest(job.workers, step_time_cv)
    return job.step.own * mean + job.step.shared, job.step.own * deviation


def undisturbed_seconds(job: SimulatedJob) -> float:
    """Return the seconds to the result without stragglers and losses."""
    checkpoints = job.epochs // job.checkpoint_interval * job.checkpoint_seconds
    training = job.epochs * job.epoch_seconds
    return job.start_seconds + (training + checkpoints) + job.end_seconds


class _Schedule:
    """Conversion between completed steps and seconds of work, with checkpoints, at a mean rate."""

    def __init__(self, job: SimulatedJob, step_seconds: float) -> None:
        self._step = step_seconds
        self._block = float(job.checkpoint_interval * job.steps)  # steps between two checkpoints
        self._cycle = self._block * step_seconds + job.checkpoint_seconds
        self._epoch = job.steps
        self._call = _steps_per_call(step_seconds)

    def seconds(self, steps: np.ndarray) -> np.ndarray:
        """Return the seconds of work before a step boundary."""
        blocks = np.floor(steps / self._block)
        return blocks * self._cycle + (steps - blocks * self._block) * self._step

    def steps(self, seconds: np.ndarray) -> np.ndarray:
        """Return the steps completed after seconds of work, including parts of a step."""
        blocks = np.floor(seconds / self._cycle)
        rest = (seconds - blocks * self._cycle) / self._step
        return blocks * self._block + np.minimum(rest, self._block)

    def checkpointed(self, seconds: np.ndarray) -> np.ndarray:
        """Return the steps in the last checkpoint written after seconds of work."""
        return np.floor(seconds / self._cycle) * self._block

    def boundary(self, steps: np.ndarray, *, after: np.ndarray) -> np.ndarray:
        """Return the boundary between two calls before these steps, or after them."""
        epochs = np.floor(steps / self._epoch) * self._epoch
        calls = (steps - epochs) / self._call
        calls = np.where(after, np.ceil(calls), np.floor(calls))
        return np.minimum(epochs + calls * self._call, epochs + self._epoch)


@dataclass(frozen=True)
class Kill:
    """A given loss: of worker `rank`, `seconds` after the start of the run."""

    seconds: float
    rank: int


def simulate(
    job: SimulatedJob,
    hazards: Hazards,
    *,
    trials: int = 200,
    seed: int = 0,
    kills: Sequence[Kill] | None = None,
) -> SimulatedOutcome:
    """Simulate a job many times: attempt by attempt, all trials at once.

    The waits for stragglers are summed over an attempt by the central limit theorem, so an attempt
    takes the same time for one worker and for 10,000.

    Args:
        job: The job.
        hazards: Rates of failures and stragglers.
        trials: Number of runs.
        seed: Seed of the random numbers.
        kills: The losses, instead of random ones.
    """
    rng = np.random.default_rng(seed)
    mean, deviation = step_time(job, hazards.step_time_cv)
    schedule, total = _Schedule(job, mean), float(job.epochs * job.steps)
    now, kept, repeated = np.zeros(trials), np.zeros(trials), np.zeros(trials)
    losses, fruitless = np.zeros(trials, int), np.zeros(trials, int)
    running, finished = np.ones(trials, bool), np.zeros(trials, bool)
    while running.any():
        if kills is None:
            left, chief, noticed = _random_losses(rng, job.workers, hazards, trials)
        else:
            left, chief, noticed = _next_kill(kills, now)
        work = schedule.seconds(np.full(trials, total)) - schedule.seconds(kept)
        noise = deviation * np.sqrt(total - kept) * rng.standard_normal(trials)
        slowdown = np.maximum(1 + noise / np.maximum(work, 1e-12), 0.1)
        needed = job.start_seconds + work * slowdown + job.end_seconds
        ends = running & (left >= needed)
        lost = running & ~ends
        now[ends] += needed[ends]
        finished |= ends
        # Progress of the lost attempts, and the part of it that is in storage.
        worked = np.clip(np.where(lost, left, 0) - job.start_seconds, 0, work * slowdown) / slowdown
        at = schedule.seconds(kept) + worked
        reached = schedule.steps(at)
        saved = schedule.boundary(reached, after=chief & noticed)
        saved = np.where(chief & ~noticed, schedule.checkpointed(at), saved)
        saved = np.where(worked > 0, np.maximum(saved, kept), kept)
        repeated += np.where(lost, np.maximum(reached - saved, 0), 0)
        fruitless = np.where(saved > kept, 0, fruitless + 1)
        now[lost] += left[lost] + hazards.restart_seconds
        kept, losses = np.where(lost, saved, kept), losses + lost
        running = lost & (fruitless < job.max_attempts)
    return SimulatedOutcome(now, losses, repeated, kept, finished)


Losses = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Of each trial: the seconds to the next loss (infinite if there is none), and two booleans: the
chief is lost, and it is lost with notice."""


def _random_losses(rng: np.random.Generator, workers: int, hazards: Hazards, trials: int) -> Losses:
    """Draw the next loss of each trial."""
    rate = hazards.preemption_rate * workers / HOUR_SECONDS
    left = rng.exponential(1 / rate, trials) if rate else np.full(trials, np.inf)
    chief = rng.random(trials) * workers < 1
    return left, chief, rng.random(trials) < hazards.notice_fraction


def _next_kill(kills: Sequence[Kill], now: np.ndarray) -> Losses:
    """Return the next of the given losses."""
    at = np.array([kill.seconds for kill in kills] + [np.inf])
    chief = np.array([kill.rank == 0 for kill in kills] + [False])
    ahead = np.where(at > now[:, None], at, np.inf)
    first = ahead.argmin(axis=1)
    return ahead.min(axis=1) - now, chief[first], np.zeros(len(now), bool)


def chief_mtbf(hazards: Hazards) -> float:
    """Return the mean seconds between two losses of a chief without notice.

    Losses of any worker are W times as frequent, but a surviving chief keeps the last step.
    """
    rate = hazards.preemption_rate * (1 - hazards.notice_fraction)
    return HOUR_SECONDS / rate if rate else float("inf")


def young(checkpoint_seconds: float, mtbf: float) -> float:
    """Return the optimal seconds of work between checkpoints: Young, CACM 17 (1974) 530."""
    return float(np.sqrt(2 * checkpoint_seconds * mtbf))


def daly(checkpoint_seconds: float, mtbf: float) -> float:
    """Return Young's optimum to higher order: Daly, FGCS 22 (2006) 303, eq. 37."""
    if checkpoint_seconds >= 2 * mtbf:
        return mtbf
    ratio = checkpoint_seconds / (2 * mtbf)
    factor = 1 + np.sqrt(ratio) / 3 + ratio / 9
    return float(np.sqrt(2 * checkpoint_seconds * mtbf) * factor - checkpoint_seconds)


def _steps_per_call(step_seconds: float) -> int:
    """Return the steps per call that training chooses for steps of this time."""
    if step_seconds <= 0:
        return MAX_STEPS_PER_CALL
    return min(MAX_STEPS_PER_CALL, max(1, int(MAX_CALL_SECONDS / step_seconds)))
