"""Random schedules of faults, reproducible from a seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

WORKERS = (2, 3, 4)
MAX_FAULTS = 4
START_SHARE = 0.4
"""Probability that the first fault comes while the job starts."""
RECOVERY_SHARE = 0.5
"""Probability that a later fault comes while the job recovers from the one before it."""
SEVERAL_SHARE = 0.25
"""Probability that a fault has several workers at once."""


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault.

    Attributes:
        name: Its name in schedules and reports.
        of_workers: True for a fault of one or several workers; False for one of the storage or
            network that all of them have.
        durations: Shortest and longest duration in seconds of a fault that ends by itself.
    """

    name: str
    of_workers: bool = True
    durations: tuple[float, float] = (0.0, 0.0)

    def limited(self, longest_seconds: float) -> "FaultKind":
        """Return this kind with durations of at most `longest_seconds`."""
        shortest, longest = (min(seconds, longest_seconds) for seconds in self.durations)
        return replace(self, durations=(shortest, longest))


@dataclass(frozen=True)
class Fault:
    """One fault of a schedule.

    Attributes:
        kind: Name of its kind.
        at: Seconds after the start of the job.
        ranks: The workers; empty for a fault of all.
        seconds: Its duration; 0 where it is an instant.
    """

    kind: str
    at: float
    ranks: tuple[int, ...] = ()
    seconds: float = 0.0

    def __str__(self) -> str:
        where = f" of {', '.join(map(str, self.ranks))}" if self.ranks else ""
        lasting = f" for {self.seconds:.0f} s" if self.seconds else ""
        return f"{self.kind}{where}{lasting} at {self.at:.1f} s"


@dataclass(frozen=True)
class Schedule:
    """The faults of one job.

    Attributes:
        job: Number of the job in its campaign, from 0.
        workers: WORKERS of the job.
        faults: 1 to MAX_FAULTS faults, by time.
    """

    job: int
    workers: int
    faults: tuple[Fault, ...]


def draw(
    seed: int, job: int, kinds: Sequence[FaultKind], start_seconds: float, calm_seconds: float
) -> Schedule:
    """Draw the schedule of a job.

    Faults come at any moment: in the start, in training, in a recovery, and after the end of an
    undisturbed job, which a disturbed one has not reached by then.

    Args:
        seed: Seed of the campaign.
        job: Number of the job, from 0.
        kinds: Kinds of faults to draw from.
        start_seconds: Seconds of an undisturbed job to its first epoch.
        calm_seconds: Seconds of an undisturbed job to its end.
    """
    numbers = random.Random(f"{seed}/{job}")
    workers = numbers.choice(WORKERS)
    at, faults = 0.0, []
    for index in range(numbers.randint(1, MAX_FAULTS)):
        near = RECOVERY_SHARE if index else START_SHARE
        if numbers.random() < near:
            at += numbers.uniform(0.0, start_seconds)
        else:
            at += numbers.uniform(0.0, calm_seconds)
        kind = numbers.choice(kinds)
        ranks: tuple[int, ...] = ()
        if kind.of_workers:
            count = 1 if numbers.random() >= SEVERAL_SHARE else numbers.randint(2, workers)
            ranks = tuple(sorted(numbers.sample(range(workers), count)))
        seconds = round(numbers.uniform(*kind.durations), 1)
        faults.append(Fault(kind.name, round(at, 2), ranks, seconds))
    return Schedule(job, workers, tuple(faults))
