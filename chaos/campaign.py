"""A campaign: calm jobs for reference, then jobs with random faults, one after the other."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from chaos.schedule import Fault, FaultKind, Schedule, draw
from common import checkpoints
from common.checkpoints import Checkpoint
from common.errors import RunError
from common.events import Event
from common.runs import Run
from common.storage import StoragePath

POLL_SECONDS = 0.1

MAX_TRIES = 3
"""Tries of a job that ends before its first fault."""

SURVIVED_SECONDS = 3.0
"""An attempt that makes progress this long after a fault was not ended by it."""

SUCCEEDED = "Succeeded"


class Job(Protocol):
    """A running training job."""

    def poll(self) -> list[Event]:
        """Return the new events of all its processes since the last call, by time."""

    def apply(self, fault: Fault) -> bool:
        """Make a fault happen; False where its target does not exist at this moment."""

    def undo(self, fault: Fault) -> None:
        """End a fault that lasts."""

    def outcome(self) -> str:
        """Return "Succeeded", why it failed, or an empty string while it runs."""

    def close(self) -> None:
        """End the job and all that belongs to it, except its run in storage."""


class Place(Protocol):
    """A place where jobs run: this machine or a cluster.

    Attributes:
        name: Its name in reports.
        kinds: The faults that are possible there.
        limit_seconds: Longest time of a job.
    """

    name: str
    kinds: Sequence[FaultKind]
    limit_seconds: float

    def open_root(self) -> AbstractContextManager[StoragePath]:
        """Provide STORAGE, as this process reads it."""

    def start(self, run: str, workers: int) -> Job:
        """Start a job."""


@dataclass
class JobResult:
    """The course of one job; an entry of the report.

    Attributes:
        schedule: Its faults.
        outcome: "Succeeded" or the reason why not.
        equal: True if its final state equals that of the calm job, bit for bit.
        all_metrics: True if metrics.jsonl has a line for each epoch.
        applied: Faults that found their target.
        seconds: Time from start to end.
        recoveries: Seconds from a fault to the first progress of the next attempt.
        attempts: Starts of all workers together.
        repeated_epochs: Epochs that were computed more than once.
        silence: Longest time in seconds without an event or log line of the job.
        start_seconds: Time to the first epoch; None if there was none.
    """

    schedule: Schedule
    outcome: str = ""
    equal: bool = False
    all_metrics: bool = False
    applied: list[Fault] = field(default_factory=list)
    seconds: float = 0.0
    recoveries: list[float] = field(default_factory=list)
    attempts: int = 0
    repeated_epochs: int = 0
    silence: float = 0.0
    start_seconds: float | None = None

    @property
    def passed(self) -> bool:
        """True if the job ended as it would have without faults."""
        return self.outcome == SUCCEEDED and self.equal and self.all_metrics


@dataclass(frozen=True)
class Reference:
    """An undisturbed job.

    Attributes:
        state: Its last checkpoint.
        epochs: The epochs of its metrics.
        start_seconds: Time to its first epoch.
        seconds: Time to its end.
    """

    state: Checkpoint
    epochs: list[int]
    start_seconds: float
    seconds: float


class Campaign:
    """Runs jobs with faults.

    Args:
        place: Where.
        seed: Seed of all schedules.
        log: Prints a line.
    """

    def __init__(self, place: Place, seed: int, log: Callable[[str], None] = print) -> None:
        self._place, self._seed, self._log = place, seed, log
        self._references: dict[int, Reference] = {}
        self._times: tuple[float, float] | None = None  # of draw()

    def run(self, first: int, jobs: int) -> Iterator[JobResult]:
        """Run jobs `first` to `first + jobs - 1`, and yield the result of each.

        Raises:
            RunError: A calm job failed.
        """
        for index in range(first, first + jobs):
            run, result = self._disturbed(index)
            calm = self._reference(result.schedule.workers)
            if result.outcome == SUCCEEDED:
                state, epochs = self._final_state(run)
                result.equal = same_state(calm.state, state)
                result.all_metrics = epochs == calm.epochs
            self._log(f"job {index}: {describe(result)}")
            yield result

    def _disturbed(self, index: int) -> tuple[str, JobResult]:
        """Run job `index`, and return the name of its run and its result.

        A job that ends before its first fault was calm, and faster than the one whose times placed
        the faults. They are placed again, by its own times.
        """
        if not self._times:  # those of one calm job place the faults of all
            calm = self._reference(2)
            self._times = calm.start_seconds, calm.seconds
        for tries in range(MAX_TRIES):
            schedule = draw(self._seed, index, self._place.kinds, *self._times)
            self._reference(schedule.workers)
            faults = "; ".join(map(str, schedule.faults))
            self._log(f"job {index}: {schedule.workers} workers; {faults}")
            run = f"chaos-{self._seed}-{index}" + f"-{tries}" * (tries > 0)
            result = watch(self._place.start(run, schedule.workers), schedule, self._place)
            if result.applied or result.outcome != SUCCEEDED or result.start_seconds is None:
                break
            self._log(f"job {index}: ended before its first fault")
            self._times = result.start_seconds, result.seconds
        return run, result

    def _reference(self, workers: int) -> Reference:
        if workers not in self._references:
            name = f"calm-{self._seed}-{workers}"
            calm = Schedule(0, workers, ())
            result = watch(self._place.start(name, workers), calm, self._place)
            if result.outcome != SUCCEEDED:
                raise RunError(f"the undisturbed job {name} did not finish: {result.outcome}")
            state, epochs = self._final_state(name)
            if state is None:
                raise RunError(f"the undisturbed job {name} left no checkpoint")
            seconds = result.seconds
            start = seconds if result.start_seconds is None else result.start_seconds
            self._references[workers] = Reference(state, epochs, start, seconds)
            self._log(
                f"{name}: {workers} workers, {seconds:.1f} s, first epoch after {start:.1f} s"
            )
        return self._references[workers]

    def _final_state(self, name: str) -> tuple[Checkpoint | None, list[int]]:
        """Return the last checkpoint of a run, and the epochs of its metrics."""
        with self._place.open_root() as root:
            run = Run.at(root, name)
            return checkpoints.newest(run.path), [row["epoch"] for row in run.metrics()]


def watch(job: Job, schedule: Schedule, place: Place) -> JobResult:
    """Apply the faults of a schedule to a job, and observe it until its end.

    A fault whose target does not exist yet happens as soon as it does, and later ones wait for it.
    """
    result = JobResult(schedule)
    observer = _Observer(result)
    began = time.monotonic()
    planned = list(schedule.faults)
    lasting: list[tuple[float, Fault]] = []  # their ends
    try:
        while not result.outcome:
            now = time.monotonic() - began
            while planned and planned[0].at <= now and job.apply(planned[0]):
                fault = planned.pop(0)
                observer.take_fault(fault, now)
                if fault.seconds:
                    lasting.append((now + fault.seconds, fault))
            for ended in [entry for entry in lasting if entry[0] <= now]:
                lasting.remove(ended)
                job.undo(ended[1])
            outcome = job.outcome()  # before the last events are read
            observer.take_events(job.poll(), time.monotonic() - began)
            if not outcome and now > place.limit_seconds:
                outcome = f"not finished after {place.limit_seconds:.0f} s"
            result.outcome = outcome
            time.sleep(POLL_SECONDS)
        result.seconds = time.monotonic() - began
        observer.take_end(result.seconds)
    finally:
        for _, fault in lasting:
            job.undo(fault)
        job.close()
    return result


class _Observer:
    """Fills a result from faults and events; times are seconds since the start of the job."""

    def __init__(self, result: JobResult) -> None:
        self._result = result
        self._last_event = 0.0
        self._faults: list[float] = []  # those that may have ended the current attempt
        self._restart: float | None = None  # the fault from which this attempt recovers
        self._highest_epoch = 0

    def take_fault(self, fault: Fault, now: float) -> None:
        self._result.applied.append(fault)
        self._faults.append(now + fault.seconds)  # no job recovers before it ends

    def take_events(self, received: Sequence[Event], now: float) -> None:
        if received:
            self.take_end(now)
        for event in received:
            if event.kind in ("run_started", "run_resumed"):
                self._take_attempt(event.integer("attempt"))
            elif event.kind in ("epoch", "progress"):
                self._take_progress(event, now)

    def take_end(self, now: float) -> None:
        """Measure the silence before `now`."""
        self._result.silence = max(self._result.silence, now - self._last_event)
        self._last_event = now

    def _take_attempt(self, attempt: int) -> None:
        if attempt > self._result.attempts:
            self._result.attempts = attempt
            if self._faults and self._restart is None:
                self._restart = self._faults[0]
            self._faults.clear()

    def _take_progress(self, event: Event, now: float) -> None:
        if self._restart is not None:
            self._result.recoveries.append(now - self._restart)
            self._restart = None
        # Training that continues this long after a fault has survived it without a restart.
        self._faults = [fault for fault in self._faults if now - fault < SURVIVED_SECONDS]
        if event.kind == "epoch":
            if self._result.start_seconds is None:
                self._result.start_seconds = now
            epoch = event.integer("epoch")
            self._result.repeated_epochs += epoch <= self._highest_epoch
            self._highest_epoch = max(self._highest_epoch, epoch)


def same_state(one: Checkpoint, other: Checkpoint | None) -> bool:
    """Return True if weights and optimizer of two checkpoints are equal, bit for bit."""
    if other is None or one.step != other.step:
        return False
    own, others = _state(one), _state(other)
    return own.keys() == others.keys() and all(
        _same_bits(array, others[name]) for name, array in own.items()
    )


def _state(checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """Return the arrays of the model and the optimizer; the others are sums of metrics."""
    return {
        name: array
        for name, array in checkpoint.arrays.items()
        if name.startswith(("model/", "optimizer/"))
    }


def _same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


def describe(result: JobResult) -> str:
    """Return one line about a result."""
    if result.outcome != SUCCEEDED:
        return f"NOT FINISHED: {result.outcome}"
    state = "equal weights" if result.equal else "DIFFERENT WEIGHTS"
    if not result.all_metrics:
        state += ", METRICS OF SOME EPOCHS MISSING"
    recoveries = ", ".join(f"{seconds:.1f}" for seconds in result.recoveries) or "none"
    return (
        f"finished in {result.seconds:.0f} s, {state}, {result.attempts} attempts,"
        f" seconds to recover: {recoveries}, longest silence {result.silence:.0f} s"
    )
