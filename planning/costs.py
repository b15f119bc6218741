"""From a step to an epoch, a run, memory and money, for one way to train."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from common.settings import Settings
from planning.machine_profile import MachineProfile
from planning.step_model import PredictedStep, StepModel
from planning.workload import WorkloadAnalysis

KEPT = 4 << 30  # bytes of states that wait between forward and gradient, at most (kernel/ops.cc)
PER_EPOCH = 0.03  # seconds: metrics, events and a checkpoint
IDLE = 450 << 20  # bytes of a worker before its model is built, where none was measured
BUFFERS = 1.2  # a split state with its exchange in pieces, over the state alone


class WorkerOption(NamedTuple):
    """One way to train.

    Attributes:
        workers: In the gang.
        batch: Examples a step in all workers together.
        threads: Of a worker.
        split: Workers that hold one circuit's state together.
    """

    workers: int
    batch: int
    threads: int
    split: int = 1


@dataclass(frozen=True)
class MachineMemory:
    """What the workers run on.

    Attributes:
        cores: Of this machine, or of a pod.
        memory: Bytes that all workers on this machine may take, or that a pod may.
        own: Whether each worker has a machine, a pod, of its own.
    """

    cores: int
    memory: int
    own: bool

    def room(self, workers: int) -> int:
        """Bytes that one of so many workers may take."""
        return self.memory if self.own else self.memory // workers


@dataclass(frozen=True)
class CostForecast:
    """What an option would take.

    Attributes:
        option: The way to train.
        step: Seconds of a step.
        plan: What the simulator does, in a few words.
        epoch: Seconds of an epoch, its validation included.
        start: Seconds from the start of the processes to the first step.
        run: Seconds of the whole run.
        memory: Bytes of a worker.
        fits: Whether a worker has so much.
        epoch_price: Money for an epoch; 0 where no PRICE was told.
        run_price: Money for the run.
    """

    option: WorkerOption
    step: PredictedStep
    plan: str
    epoch: float
    start: float
    run: float
    memory: int
    fits: bool
    epoch_price: float
    run_price: float

    @property
    def rate(self) -> float:
        """Examples a second."""
        return self.option.batch / self.step.seconds


class Costs:
    """What any option would take.

    Args:
        workload: What is trained.
        profile: What was measured.
        machine: What the workers run on.
        settings: EPOCHS, INITIALIZATIONS, INITIALIZATION_EPOCHS and PRICE are read.
    """

    def __init__(
        self,
        workload: WorkloadAnalysis,
        profile: MachineProfile,
        machine: MachineMemory,
        settings: Settings,
    ) -> None:
        self.workload, self.machine, self.settings = workload, machine, settings
        self.model: StepModel = profile.model()
        self._start = max((p.start_seconds for p in profile.points), default=0.0)
        self._build = max((p.build_seconds for p in profile.points), default=0.0)
        self._idle = min(
            (
                p.rss_bytes - states_bytes(workload, p.rows, p.threads, 1, machine.memory, p.qubits)
                for p in profile.points
                if p.rss_bytes
            ),
            default=IDLE,
        )

    def of(self, option: WorkerOption) -> CostForecast:
        """What an option would take."""
        workload, machine, settings = self.workload, self.machine, self.settings
        workers, batch, threads, split = option
        step = self.model.step(
            workload,
            workers=workers,
            batch=batch,
            threads=threads,
            split=split,
            busy=threads if machine.own else None,
        )
        steps = math.ceil(workload.examples / batch)
        forward = workload.forward / workload.operations
        measured = step.simulate * forward + step.exchange + step.input
        validation = math.ceil(workload.validation / batch) * measured
        epoch = steps * step.seconds + validation + PER_EPOCH
        start = self._start + self._build
        starts = (
            settings.training.initialization_count * steps * measured
            if settings.training.initialization_count > 1
            else 0.0
        )
        run = start + settings.training.epochs * epoch + starts
        rows = math.ceil(batch * split / workers)
        memory = self.memory(rows, threads, split, machine.room(workers))
        price = settings.planning.price_per_worker_hour / 3600 * workers
        return CostForecast(
            option,
            step,
            self._plan(rows, split),
            epoch,
            start,
            run,
            memory,
            memory <= machine.room(workers),
            epoch * price,
            run * price,
        )

    def memory(self, rows: int, threads: int, split: int, room: int) -> int:
        """Bytes of a worker that has so many rows."""
        idle = max(self._idle, IDLE // 2)
        return idle + states_bytes(self.workload, rows, threads, split, room)

    def _plan(self, rows: int, split: int) -> str:
        if split > 1:
            return f"split over {split}"
        states = self.workload.states(rows)
        return f"{states} states" if states else "direct"


def states_bytes(
    workload: WorkloadAnalysis,
    rows: int,
    threads: int,
    split: int,
    room: int,
    qubits: int | None = None,
) -> int:
    """Bytes of the states that a worker trains with: two a thread at work, and those that wait.

    Args:
        workload: What is trained.
        rows: Examples of a worker.
        threads: Of a worker.
        split: Workers that hold a state together.
        room: Bytes that a worker may take; states wait within a quarter of it.
        qubits: Of the states; the workload's unless given.
    """
    narrower = workload.qubits - (qubits if qubits is not None else workload.qubits)
    state = workload.state_bytes / 2**narrower / split * (BUFFERS if split > 1 else 1)
    tiles = min(threads, math.ceil(rows / workload.samples)) if workload.qubits < 18 else 1
    at_work = 2 * state * tiles * workload.samples
    return int(at_work + max(state, min(rows * state, KEPT, room / 4)))
