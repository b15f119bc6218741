"""Validation of the fleet simulation: `python -m benchmarks.fleet_validation` (5 minutes).

It trains in real groups of two workers, kills workers at given epochs, and simulates the same. A
simulation takes from its real run: the mean time of a start, of an epoch, and from a kill to the
restart; the time from the last epoch to the end; and the work of each attempt before its kill. It
predicts the end of the run and the step that the last attempt resumed from, and so the cost of a
loss.
"""

import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import mean

from common.environments import ROOT
from common.events import Event
from common.processes import ManagedProcess, find_child
from planning.fleet.simulation import (
    Hazards,
    Kill,
    SimulatedJob,
    SimulatedOutcome,
    StepTiming,
    simulate,
)
from training.cluster.spec import TF_CONFIG

EVENT_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True)
class ValidationTask:
    """The training of the real workers: `args` as for `make training`, and their consequences."""

    args: tuple[str, ...]
    epochs: int
    steps: int
    checkpoint_interval: int

    @classmethod
    def of(
        cls, epochs: int, checkpoint_interval: int, examples: int = 4096, batch: int = 128
    ) -> "ValidationTask":
        """Return the training of a QCNN of 12 qubits in two workers of one thread each."""
        args = {
            "MODEL": "qcnn", "QUBITS": 12, "TRAIN_EXAMPLES": examples, "VALIDATION_EXAMPLES": 64,
            "TEST_EXAMPLES": 64, "BATCH": batch, "INITIALIZATIONS": 1, "EPOCHS": epochs,
            "WORKERS": 2, "THREADS": 1, "PROFILER_PORT": 0,
            "CHECKPOINT_INTERVAL": checkpoint_interval,
        }  # fmt: skip
        arguments = tuple(f"{name}={value}" for name, value in args.items())
        return cls(arguments, epochs, -(-examples // batch), checkpoint_interval)


@dataclass(frozen=True)
class KilledRun:
    """A real run. Times are seconds since its start.

    Attributes:
        epochs: Times of the ends of epochs, a list per attempt.
        kills: Times and ranks of killed workers, at most one per attempt.
        restarts: Times at which the launcher restarted all workers.
        resumed: Completed steps at the start of each later attempt.
        seconds: Time of the end.
    """

    epochs: list[list[float]]
    kills: list[Kill] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def epoch_seconds(self) -> float:
        """Mean seconds from the end of an epoch to the next."""
        return mean(b - a for attempt in self.epochs for a, b in pairwise(attempt))

    @property
    def start_seconds(self) -> list[float]:
        """Seconds of each attempt's start, including the additional time of its first epoch."""
        started = [0.0, *self.restarts]
        return [
            attempt[0] - self.epoch_seconds - start
            for attempt, start in zip(self.epochs, started, strict=True)
        ]

    @property
    def restart_seconds(self) -> float:
        """Mean seconds from a kill to the restart."""
        pairs = zip(self.restarts, self.kills, strict=True)
        seconds = [restart - kill.seconds for restart, kill in pairs]
        return mean(seconds) if seconds else 0.0

    def simulate(self, task: ValidationTask) -> SimulatedOutcome:
        """Simulate the same kills."""
        start, end = mean(self.start_seconds), self.seconds - self.epochs[-1][-1]
        step = StepTiming(self.epoch_seconds / task.steps)
        job = SimulatedJob(2, task.epochs, task.steps, step, start, end, task.checkpoint_interval)
        kills, now = [], 0.0
        first_steps = [0, *self.resumed]
        for kill, attempt, resumed in zip(self.kills, self.epochs, first_steps, strict=False):
            # In steps, not seconds: other programs make some epochs longer.
            whole = [ended for ended in attempt if ended < kill.seconds]
            partial = min((kill.seconds - whole[-1]) / self.epoch_seconds, 0.9)
            worked = (len(whole) + partial) * task.steps - resumed % task.steps
            now += start + worked * step.own
            kills.append(Kill(now, kill.rank))
            now += self.restart_seconds
        hazards = Hazards(restart_seconds=self.restart_seconds)
        return simulate(job, hazards, trials=1, kills=kills)


def run_with_kills(
    folder: Path, task: ValidationTask, kills: Sequence[tuple[int, int]] = ()
) -> KilledRun:
    """Train in real workers and kill some of them.

    Args:
        folder: STORAGE.
        task: The training.
        kills: (epochs of an attempt, rank) of each worker to kill; at most one per attempt.

    Raises:
        RuntimeError: The training failed.
    """
    command = [sys.executable, "-m", "training", f"STORAGE={folder}", *task.args]
    with ManagedProcess(command, cwd=ROOT, stdout="discard", stderr="capture") as launcher:

        def kill(rank: int) -> None:
            worker = find_child(launcher.pid, lambda environment: _rank(environment) == rank)
            if worker is None:
                raise RuntimeError(f"worker {rank} is not running")
            worker.send_signal(signal.SIGKILL)

        def next_event() -> Event:
            event = launcher.next_event(EVENT_TIMEOUT_SECONDS)
            if event is None:
                raise RuntimeError(f"no event for {EVENT_TIMEOUT_SECONDS:g} s")
            return event

        run = record_run(next_event, kill, list(kills), task.steps)
    if launcher.exit_code:
        raise RuntimeError(f"training failed: {launcher.describe_exit()}\n{launcher.stderr_text}")
    return run


def record_run(
    next_event: Callable[[], Event],
    kill: Callable[[int], None],
    kills: list[tuple[int, int]],
    steps: int,
) -> KilledRun:
    """Record the events of a training and kill workers.

    Args:
        next_event: Waits for the next event of the launcher; the last one is of kind "exit".
        kill: Kills the worker of a rank.
        kills: As in `run_with_kills`; kills that were carried out are removed.
        steps: Steps per epoch.
    """
    started = time.monotonic()
    run = KilledRun([[]])
    while True:
        event = next_event()
        now = time.monotonic() - started
        if event.kind == "exit":
            return replace(run, seconds=now)
        if event.kind == "epoch" and not event.rank:
            run.epochs[-1].append(now)
        elif event.kind == "restarting":
            run.restarts.append(now)
            run.epochs.append([])
        elif event.kind == "run_resumed" and not event.rank:
            run.resumed.append((event.integer("epoch") - 1) * steps + event.integer("step"))
        due = kills and len(run.epochs[-1]) >= kills[0][0]
        if due and len(run.kills) == len(run.restarts):
            rank = kills.pop(0)[1]
            kill(rank)
            run.kills.append(Kill(time.monotonic() - started, rank))


def _rank(environment: Mapping[str, str]) -> int:
    return int(json.loads(environment[TF_CONFIG])["task"]["index"])


# (epochs of an attempt, rank of the worker to kill); checkpoints are written every 10 epochs.
CASES = ((), ((16, 1),), ((17, 0),), ((6, 1), (12, 0)), ((13, 0), (5, 1), (12, 0)))


def rows() -> Iterator[str]:
    """Yield the lines of a table with a row for each of the CASES."""
    task = ValidationTask.of(epochs=40, checkpoint_interval=10)
    yield "| kills, s: rank | measured s | simulated s | error | resumed at step | simulated |"
    yield "|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as name:
        for number, kills in enumerate(CASES):
            run = run_with_kills(Path(name) / str(number), task, kills)
            outcome = run.simulate(task)
            killed = ", ".join(f"{kill.seconds:.1f}: {kill.rank}" for kill in run.kills) or "none"
            predicted = float(outcome.seconds[0])
            error = predicted / run.seconds - 1
            resumed = str(run.resumed[-1]) if run.resumed else "-"
            simulated = f"{outcome.resumed[0]:.0f}" if run.resumed else "-"
            yield (
                f"| {killed} | {run.seconds:.1f} | {predicted:.1f} | {error:+.1%} | {resumed} |"
                f" {simulated} |"
            )


if __name__ == "__main__":
    for row in rows():
        print(row, flush=True)
