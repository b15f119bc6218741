"""Real gangs with workers killed at told moments, beside the simulation of the same.

`python -m planning.fleet.validation` runs a few. A simulation is fed with what its real run shows: how
long a start takes, an epoch, and noticing a kill, on the mean; the time from the last epoch to the
end; and the work that each attempt did until its kill. What it says is when the run ends, and which
step the last attempt went on from: so what a loss costs, by the rules of survival.
"""

import contextlib
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import mean

import psutil

from planning.fleet.simulation import (
    Hazards,
    Kill,
    SimulatedJob,
    SimulatedOutcome,
    StepTiming,
    simulate,
)

ROOT = Path(__file__).parents[2]
RESTART_SECONDS = "the gang starts again"


@dataclass(frozen=True)
class ValidationTask:
    """What the real gangs train: `args` as for `make training`, and what they amount to."""

    args: tuple[str, ...]
    epochs: int
    steps: int
    every: int

    @classmethod
    def of(
        cls, epochs: int, every: int, examples: int = 4096, batch: int = 128
    ) -> "ValidationTask":
        """A QCNN of 12 qubits in two workers of one thread each."""
        args = {
            "MODEL": "qcnn", "QUBITS": 12, "EXAMPLES": examples, "VALIDATION": 64, "TEST": 64,
            "BATCH": batch, "STARTS": 1, "EPOCHS": epochs, "WORKERS": 2, "THREADS": 1,
            "PROFILER_PORT": 0, "CHECKPOINT_EVERY": every,
        }  # fmt: skip
        said = tuple(f"{name}={value}" for name, value in args.items())
        return cls(said, epochs, -(-examples // batch), every)


@dataclass(frozen=True)
class KilledRun:
    """What one real run did; moments are seconds since it was started.

    Attributes:
        lines: The moments of the epochs' lines, a list an attempt.
        kills: The moments workers were killed, and their ranks; one an attempt.
        noticed: The moments the gang said that it starts again.
        resumed: Steps done when each later attempt went on.
        seconds: Until it ended.
    """

    lines: list[list[float]]
    kills: list[Kill] = field(default_factory=list)
    noticed: list[float] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def epoch(self) -> float:
        """Mean seconds from an epoch's line to the next."""
        return mean(b - a for attempt in self.lines for a, b in pairwise(attempt))

    @property
    def starts(self) -> list[float]:
        """Seconds of each attempt's start: what its first epoch takes beyond the others, too."""
        begun = [0.0, *self.noticed]
        return [own[0] - self.epoch - began for own, began in zip(self.lines, begun, strict=True)]

    @property
    def restart(self) -> float:
        """Mean seconds from a kill until the gang started again."""
        took = [at - kill.seconds for at, kill in zip(self.noticed, self.kills, strict=True)]
        return mean(took) if took else 0.0

    def simulated(self, task: ValidationTask) -> SimulatedOutcome:
        """The same kills, simulated."""
        start, end = mean(self.starts), self.seconds - self.lines[-1][-1]
        step = StepTiming(self.epoch / task.steps)
        job = SimulatedJob(2, task.epochs, task.steps, step, start, end, task.every)
        kills, at = [], 0.0
        begun = [0, *self.resumed]
        for kill, attempt, resumed in zip(self.kills, self.lines, begun, strict=False):
            # In steps, not seconds: whatever else runs makes some epochs longer than others.
            whole = [moment for moment in attempt if moment < kill.seconds]
            begun_epoch = min((kill.seconds - whole[-1]) / self.epoch, 0.9)
            worked = (len(whole) + begun_epoch) * task.steps - resumed % task.steps
            at += start + worked * step.own
            kills.append(Kill(at, kill.rank))
            at += self.restart
        return simulate(job, Hazards(restart=self.restart), trials=1, kills=kills)


def run_with_kills(
    folder: Path, task: ValidationTask, kills: Sequence[tuple[int, int]] = ()
) -> KilledRun:
    """Train in real workers, and kill some of them.

    Args:
        folder: STORAGE.
        task: What is trained.
        kills: Which worker (1) to kill once so many epochs' lines (0) have come in an attempt; one
            an attempt.

    Raises:
        RuntimeError: It did not end well.
    """
    said = folder.with_suffix(".log")
    began = time.monotonic()
    with said.open("w") as stream:
        gang = subprocess.Popen(
            [sys.executable, "-u", "-m", "training", f"STORAGE={folder}", *task.args],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        run = _watch(gang, said, began, list(kills), task.steps)
    finally:
        _end(gang)
    if gang.returncode:
        raise RuntimeError(f"the gang ended with {gang.returncode}:\n{said.read_text()}")
    return run


def _watch(
    gang: subprocess.Popen, said: Path, began: float, kills: list[tuple[int, int]], steps: int
) -> KilledRun:
    run = KilledRun([[]])
    seen = 0
    while True:
        ended = gang.poll() is not None
        now = time.monotonic() - began
        text = said.read_text()
        whole = text.splitlines()[: text.count("\n")]
        for line in whole[seen:]:
            if line.startswith("epoch "):
                run.lines[-1].append(now)
            elif RESTART_SECONDS in line:
                run.noticed.append(now)
                run.lines.append([])
            elif found := re.search(r"goes on at step (\d+) of epoch (\d+)", line):
                run.resumed.append((int(found[2]) - 1) * steps + int(found[1]))
        seen = len(whole)
        if kills and len(run.lines[-1]) >= kills[0][0] and len(run.kills) == len(run.noticed):
            rank = kills.pop(0)[1]
            _worker(gang.pid, rank).send_signal(signal.SIGKILL)
            run.kills.append(Kill(time.monotonic() - began, rank))
        if ended:
            return replace(run, seconds=now)
        time.sleep(0.005)


def _worker(gang: int, rank: int) -> psutil.Process:
    """The living worker of that rank, told by its TF_CONFIG."""
    for child in psutil.Process(gang).children():
        with contextlib.suppress(KeyError, psutil.Error):
            if json.loads(child.environ()["TF_CONFIG"])["task"]["index"] == rank:
                return child
    raise RuntimeError(f"worker {rank} is not there")


def _end(gang: subprocess.Popen) -> None:
    if gang.poll() is None:
        children = psutil.Process(gang.pid).children(recursive=True)
        for process in (psutil.Process(gang.pid), *children):
            with contextlib.suppress(psutil.Error):
                process.kill()
        gang.wait()


# After how many epochs in an attempt which worker is killed; checkpoints are every 10 epochs.
CASES = ((), ((16, 1),), ((17, 0),), ((6, 1), (12, 0)), ((13, 0), (5, 1), (12, 0)))


def rows() -> Iterator[str]:
    """A line of a table for each of the CASES."""
    task = ValidationTask.of(epochs=40, every=10)
    yield "| killed at s: worker | real s | simulated s | error | went on at step | simulated |"
    yield "|---|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as name:
        for number, kills in enumerate(CASES):
            run = run_with_kills(Path(name) / str(number), task, kills)
            outcome = run.simulated(task)
            told = ", ".join(f"{kill.seconds:.1f}: {kill.rank}" for kill in run.kills) or "none"
            foretold = float(outcome.seconds[0])
            yield (
                f"| {told} | {run.seconds:.1f} | {foretold:.1f} | {foretold / run.seconds - 1:+.1%}"
                f" | {run.resumed[-1] if run.resumed else '-'} |"
                f" {f'{outcome.resumed[0]:.0f}' if run.resumed else '-'} |"
            )


if __name__ == "__main__":
    for row in rows():
        print(row, flush=True)
