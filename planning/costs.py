"""Time, memory and price of a training, derived from the predicted step."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from common.settings.groups.training import TrainingSettings
from planning.machine_profile import MachineProfile
from planning.step_model import PredictedStep, StepModel
from planning.workload import WorkloadAnalysis
from qfleet.engine.memory import MAX_WAITING_STATE_BYTES

EPOCH_OVERHEAD_SECONDS = 0.01
"""Metrics, events and a checkpoint of one epoch, which are not counted as steps."""

IDLE_WORKER_BYTES = 450 << 20
"""Memory of a worker before its model is built, where it was not measured."""

SHARDED_STATE_FACTOR = 1.2
"""Memory of a state shard with its exchange buffers, relative to the shard."""

SHARED_TILE_QUBITS = 18
"""From this width on, all threads work on one tile."""


class WorkerOption(NamedTuple):
    """One way to train.

    Attributes:
        workers: Number of workers.
        batch: Examples per step over all workers.
        threads: Threads per worker.
        state_shards: Workers that share the state of one circuit.
    """

    workers: int
    batch: int
    threads: int
    state_shards: int = 1


@dataclass(frozen=True)
class MachineMemory:
    """The machine of the workers, or the machines.

    Attributes:
        cores: Cores of this machine, or of a pod.
        memory_bytes: Memory available to all workers on this machine, or to a pod.
        dedicated: True if each worker has a machine (a pod) of its own.
        gpus: GPUs of this machine that hold the states of all workers; 0 for none.
    """

    cores: int
    memory_bytes: int
    dedicated: bool
    gpus: int = 0

    def bytes_per_worker(self, workers: int) -> int:
        """Return the memory available to each of `workers` workers."""
        return self.memory_bytes if self.dedicated else self.memory_bytes // workers

    def fair_threads(self, workers: int) -> int:
        """Return the threads of each worker if all cores are divided among `workers` workers."""
        return self.cores if self.dedicated else max(1, self.cores // workers)


@dataclass(frozen=True)
class CostForecast:
    """Predicted costs of an option.

    Attributes:
        option: The way to train.
        step: Time of one step.
        method: The simulation method: "direct", "11 states", "2 shards", or "network 2^10" with the
            size of the largest tensor.
        epoch_seconds: Seconds per epoch, including its validation.
        start_seconds: Seconds from the start of the processes to the first step.
        run_seconds: Seconds of the whole run.
        memory_bytes: Memory of each worker.
        fits: True if each worker has that much memory.
        epoch_price: Price of an epoch; 0 without PRICE_PER_WORKER_HOUR.
        run_price: Price of the run.
    """

    option: WorkerOption
    step: PredictedStep
    method: str
    epoch_seconds: float
    start_seconds: float
    run_seconds: float
    memory_bytes: int
    fits: bool
    epoch_price: float
    run_price: float

    @property
    def examples_per_second(self) -> float:
        """Examples per second over all workers."""
        return self.option.batch / self.step.seconds


class Costs:
    """Predicts the costs of options.

    Args:
        workload: Workload of the training.
        profile: Measured steps.
        machine: Machine of the workers.
        training: EPOCHS and INITIALIZATIONS are used.
        price_per_worker_hour: Price of one worker; 0 omits prices.
    """

    def __init__(
        self,
        workload: WorkloadAnalysis,
        profile: MachineProfile,
        machine: MachineMemory,
        training: TrainingSettings,
        price_per_worker_hour: float = 0.0,
    ) -> None:
        self.workload, self.machine, self.training = workload, machine, training
        self.model: StepModel = profile.model()
        self._price_per_worker_second = price_per_worker_hour / 3600
        points = profile.points
        start_seconds = max((p.start_seconds for p in points), default=0.0)
        self._start_seconds = start_seconds + max((p.build_seconds for p in points), default=0.0)
        idle = [
            p.rss_bytes - self._states_bytes(p.rows, p.threads, 1, machine.memory_bytes, p.qubits)
            for p in points
            if p.rss_bytes
        ]
        self._idle_bytes = max(min(idle, default=IDLE_WORKER_BYTES), IDLE_WORKER_BYTES // 2)

    def forecast(self, option: WorkerOption) -> CostForecast:
        """Predict the costs of an option."""
        workload, machine = self.workload, self.machine
        workers, batch, threads, shards = option
        step = self.model.step(
            workload,
            workers=workers,
            batch=batch,
            threads=threads,
            state_shards=shards,
            busy_threads=threads if machine.dedicated else None,
        )
        if machine.gpus:  # a GPU computes for one worker after another
            step = replace(step, simulate=step.simulate * math.ceil(workers / machine.gpus))
        epoch_seconds, selection_seconds = self._epoch_seconds(step, batch)
        run_seconds = self._start_seconds + self.training.epochs * epoch_seconds + selection_seconds
        rows = math.ceil(batch * shards / workers)
        available = machine.bytes_per_worker(workers)
        memory_bytes = self._idle_bytes + self._states_bytes(rows, threads, shards, available)
        price = self._price_per_worker_second * workers
        return CostForecast(
            option,
            step,
            self._method(rows, shards),
            epoch_seconds,
            self._start_seconds,
            run_seconds,
            memory_bytes,
            memory_bytes <= available,
            epoch_seconds * price,
            run_seconds * price,
        )

    def _states_bytes(
        self, rows: int, threads: int, shards: int, available: int, qubits: int | None = None
    ) -> int:
        """Return the bytes of states in this machine's memory; see `states_bytes`."""
        if self.machine.gpus:
            return 0
        return states_bytes(self.workload, rows, threads, shards, available, qubits)

    def _epoch_seconds(self, step: PredictedStep, batch: int) -> tuple[float, float]:
        """Return the seconds of one epoch, and of selecting the best initialization.

        `training.epochs` contains the epochs of all initializations. The selection additionally
        evaluates the training split once per initialization.
        """
        workload = self.workload
        steps = math.ceil(workload.train_examples / batch)
        forward = workload.forward_flops / workload.operations
        evaluation = step.simulate * forward + step.exchange + step.input
        validation = math.ceil(workload.validation_examples / batch) * evaluation
        epoch_seconds = steps * step.seconds + validation + EPOCH_OVERHEAD_SECONDS
        initializations = self.training.initialization_count
        return epoch_seconds, initializations * steps * evaluation if initializations > 1 else 0.0

    def _method(self, rows: int, state_shards: int) -> str:
        if state_shards > 1:
            return f"{state_shards} shards"
        if self.workload.network_width is not None:
            return f"network 2^{self.workload.network_width}"
        states = self.workload.states(rows)
        return f"{states} states" if states else "direct"


def states_bytes(
    workload: WorkloadAnalysis,
    rows: int,
    threads: int,
    state_shards: int,
    available_bytes: int,
    qubits: int | None = None,
) -> int:
    """Return the bytes of a worker's states: two per busy thread, and those that wait.

    Args:
        workload: Workload of the training.
        rows: Examples of the worker.
        threads: Threads of the worker.
        state_shards: Workers that share one state.
        available_bytes: Memory of the worker; states wait within a quarter of it.
        qubits: Width of the states; that of the workload unless given.
    """
    if workload.network_width is not None:
        return threads * workload.state_bytes
    narrower = workload.qubits - (qubits if qubits is not None else workload.qubits)
    factor = SHARDED_STATE_FACTOR if state_shards > 1 else 1
    state = workload.state_bytes / 2**narrower / state_shards * factor
    tiles = 1
    if workload.qubits < SHARED_TILE_QUBITS:
        tiles = min(threads, math.ceil(rows / workload.tile_examples))
    active = 2 * state * tiles * workload.tile_examples
    return int(active + max(state, min(rows * state, MAX_WAITING_STATE_BYTES, available_bytes / 4)))
