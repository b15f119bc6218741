"""A gang of any size, simulated: stragglers, lost workers, restarts, checkpoints.

The rules are qfleet's own (ARCHITECTURE.md, "How it survives"):
    a step waits for its slowest worker, and ends with one exchange
    a lost worker ends the gang's attempt; all start again RESTART seconds later
    a chief that lives keeps the newest step boundary that it knew: one call into TensorFlow
    a chief that goes with notice (SIGTERM) keeps the next boundary
    a chief that is lost without notice leaves the newest checkpoint, every CHECKPOINT_INTERVAL epochs
    MAX_ATTEMPTS starts in a row that leave no newer checkpoint end the run
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planning.step_model import calls

HOUR = 3600.0


@dataclass(frozen=True)
class StepTiming:
    """One training step of a gang, undisturbed.

    Attributes:
        own: Seconds of a worker's own work, which a straggler stretches.
        shared: Seconds of what all do together: the exchange.
    """

    own: float
    shared: float = 0.0


@dataclass(frozen=True)
class Hazards:
    """What goes wrong, and how often.

    Attributes:
        preemptions: Losses per worker and hour, at random (exponential) times.
        stragglers: Coefficient of variation of a worker's own seconds in a step, 0 to 1. They are
            (1 - c) + c E of the mean, with E exponential of mean 1: the shifted exponential of
            Lee et al., IEEE Trans. Inf. Theory 64 (2018) 1514.
        restart: Seconds from a loss until the whole gang has met again.
        notice: Share of the losses that SIGTERM announces.
    """

    preemptions: float = 0.0
    stragglers: float = 0.0
    restart: float = 0.0
    notice: float = 0.0


@dataclass(frozen=True)
class SimulatedJob:
    """What is to be done by how many.

    Attributes:
        workers: Workers in the gang; worker 0 is the chief.
        epochs: Epochs of the run, starts included.
        steps: Steps in an epoch.
        step: One of them.
        start: Seconds from the gang's meeting to the first step, in each attempt.
        end: Seconds from the last step to the result.
        every: Epochs between two checkpoints.
        commit: Seconds that writing a checkpoint takes.
        attempts: Starts without a newer checkpoint that end the run.
    """

    workers: int
    epochs: int
    steps: int
    step: StepTiming
    start: float = 0.0
    end: float = 0.0
    every: int = 1
    commit: float = 0.0
    attempts: int = 5


@dataclass(frozen=True)
class SimulatedOutcome:
    """What became of the trials, one entry each.

    Attributes:
        seconds: Until the result, or until the run gave up.
        losses: Workers lost.
        repeated: Steps that were done more than once.
        resumed: Steps that the last attempt went on from.
        finished: Whether there is a result; else MAX_ATTEMPTS ended the run.
    """

    seconds: np.ndarray
    losses: np.ndarray
    repeated: np.ndarray
    resumed: np.ndarray
    finished: np.ndarray

    @property
    def mean(self) -> float:
        """Mean seconds of the runs that finish; infinite where fewer than half do."""
        return float(self.seconds[self.finished].mean()) if self.share >= 0.5 else float("inf")

    @property
    def share(self) -> float:
        """Share of the runs that finish."""
        return float(self.finished.mean())

    def seconds_at(self, percent: float) -> float:
        """A percentile of the seconds of the runs that finish."""
        return float(np.percentile(self.seconds[self.finished], percent))


def slowest(workers: int, stragglers: float) -> tuple[float, float]:
    """Mean and standard deviation of the largest of W shifted exponentials of mean 1.

    The order statistic (Renyi 1953): the largest of W exponentials is the sum of E_i / i over
    i = 1 ... W, so its mean is the harmonic number and its variance the sum of 1 / i^2.
    """
    i = np.arange(1, workers + 1, dtype=np.float64)
    return 1 - stragglers + stragglers * float((1 / i).sum()), stragglers * float(
        np.sqrt((1 / i**2).sum())
    )


def step_time(job: SimulatedJob, stragglers: float) -> tuple[float, float]:
    """Mean and standard deviation, in seconds, of a step with its wait for the slowest worker."""
    mean, spread = slowest(job.workers, stragglers)
    return job.step.own * mean + job.step.shared, job.step.own * spread


def undisturbed(job: SimulatedJob) -> float:
    """Seconds to the result where nothing goes wrong."""
    step = job.step.own + job.step.shared
    work = job.epochs * job.steps * step + (job.epochs // job.every) * job.commit
    return job.start + work + job.end


class _Path:
    """Steps done <-> seconds of work, checkpoints included, at the mean pace."""

    def __init__(self, job: SimulatedJob, step: float) -> None:
        self._step = step
        self._block = float(job.every * job.steps)  # steps between two checkpoints
        self._cycle = self._block * step + job.commit
        self._epoch = job.steps
        self._call = calls(step)

    def seconds(self, steps: np.ndarray) -> np.ndarray:
        """Seconds of work that lie before a step boundary."""
        blocks = np.floor(steps / self._block)
        return blocks * self._cycle + (steps - blocks * self._block) * self._step

    def steps(self, seconds: np.ndarray) -> np.ndarray:
        """Steps done after so many seconds of work, parts of one included."""
        blocks = np.floor(seconds / self._cycle)
        rest = (seconds - blocks * self._cycle) / self._step
        return blocks * self._block + np.minimum(rest, self._block)

    def committed(self, seconds: np.ndarray) -> np.ndarray:
        """Steps in the newest checkpoint that was written by then."""
        return np.floor(seconds / self._cycle) * self._block

    def boundary(self, steps: np.ndarray, *, after: np.ndarray) -> np.ndarray:
        """The boundary between two calls that lies before these steps, or after them."""
        begun = np.floor(steps / self._epoch) * self._epoch
        calls = (steps - begun) / self._call
        calls = np.where(after, np.ceil(calls), np.floor(calls))
        return np.minimum(begun + calls * self._call, begun + self._epoch)


@dataclass(frozen=True)
class Kill:
    """A loss that is told beforehand: at `seconds` since the run began, of worker `rank`."""

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
    """Run a job many times: attempt by attempt, all trials at once.

    The waits for stragglers are summed over an attempt by the central limit theorem, so that an
    attempt costs the same for one worker and for 10,000.

    Args:
        job: What is to be done.
        hazards: What goes wrong.
        trials: How often the run is tried.
        seed: Same seed, same outcome.
        kills: The losses, instead of random ones.
    """
    rng = np.random.default_rng(seed)
    mean, spread = step_time(job, hazards.stragglers)
    path, total = _Path(job, mean), float(job.epochs * job.steps)
    rate = hazards.preemptions * job.workers / HOUR
    now, kept, repeated = np.zeros(trials), np.zeros(trials), np.zeros(trials)
    losses, in_vain = np.zeros(trials, int), np.zeros(trials, int)
    running, finished = np.ones(trials, bool), np.zeros(trials, bool)
    while running.any():
        if kills is None:
            left = rng.exponential(1 / rate, trials) if rate else np.full(trials, np.inf)
            chief = rng.random(trials) * job.workers < 1
            noticed = rng.random(trials) < hazards.notice
        else:
            left, chief = _next(kills, now)
            noticed = np.zeros(trials, bool)
        work = path.seconds(np.full(trials, total)) - path.seconds(kept)
        noise = spread * np.sqrt(total - kept) * rng.standard_normal(trials)
        pace = np.maximum(1 + noise / np.maximum(work, 1e-12), 0.1)
        needs = job.start + work * pace + job.end
        ends = running & (left >= needs)
        lost = running & ~ends
        now[ends] += needs[ends]
        finished |= ends
        # Those that were lost: how far had they come, and what of it is in storage?
        worked = np.clip(np.where(lost, left, 0) - job.start, 0, work * pace) / pace
        at = path.seconds(kept) + worked
        reached = path.steps(at)
        saved = path.boundary(reached, after=chief & noticed)
        saved = np.where(chief & ~noticed, path.committed(at), saved)
        saved = np.where(worked > 0, np.maximum(saved, kept), kept)
        repeated += np.where(lost, np.maximum(reached - saved, 0), 0)
        in_vain = np.where(saved > kept, 0, in_vain + 1)
        now[lost] += left[lost] + hazards.restart
        kept, losses = np.where(lost, saved, kept), losses + lost
        running = lost & (in_vain < job.attempts)
    return SimulatedOutcome(now, losses, repeated, kept, finished)


def _next(kills: Sequence[Kill], now: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Seconds to the next kill, and whether it is the chief's; infinite where none is left."""
    at = np.array([kill.seconds for kill in kills] + [np.inf])
    chief = np.array([kill.rank == 0 for kill in kills] + [False])
    ahead = np.where(at > now[:, None], at, np.inf)
    first = ahead.argmin(axis=1)
    return ahead.min(axis=1) - now, chief[first]


def chief_mtbf(hazards: Hazards) -> float:
    """Mean seconds between two losses that cost more than a restart: of a chief, unannounced.

    The gang is lost W times as often, but its chief then keeps the newest step.
    """
    rate = hazards.preemptions * (1 - hazards.notice)
    return HOUR / rate if rate else float("inf")


def young(commit: float, mtbf: float) -> float:
    """Seconds of work between two checkpoints that lose least: Young, CACM 17 (1974) 530."""
    return float(np.sqrt(2 * commit * mtbf))


def daly(commit: float, mtbf: float) -> float:
    """The same to higher order: Daly, Future Generation Computer Systems 22 (2006) 303, eq. 37."""
    if commit >= 2 * mtbf:
        return mtbf
    ratio = commit / (2 * mtbf)
    return float(np.sqrt(2 * commit * mtbf) * (1 + np.sqrt(ratio) / 3 + ratio / 9) - commit)
