"""A model of the time of a training step, fitted to a few measured steps.

A step of a worker with `rows` examples on T threads takes

    simulate   a + x / rate        x: operations of the busiest thread (WorkloadAnalysis.work)
    exchange   latency + additional peers * message + share * simulate  (the wait for stragglers)
    input      a + b * rows
    other      a + b * rows + host / steps per epoch     (optimizer, metrics; the host's work)

The parameters belong to a setup (the number of threads that compute at once, which share caches and
memory) and to a width of the circuit. Between measured widths, the logarithm of the rate and `a`
are interpolated linearly over the qubits; outside them, the nearest width is used. Each part is
multiplied by the ratio of measured to fitted time, interpolated over the logarithm of the rows. So
a step of a measured number of rows takes the measured time.

A small all-reduce takes one hop (training/step/allreduce.py). A larger one uses a ring of W workers
with 2 (W - 1) sequential hops (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
clusters of workstations", 2009).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from planning.fit import FitPoint, SetupFit, fit_setups
from planning.workload import WorkloadAnalysis
from training.step.constants import hops

MESSAGE_SECONDS = 30e-6
"""Time that a worker spends on the message of one additional peer."""

TRAINING_EXCHANGES_PER_FORWARD = 4
"""State exchanges of a training step per exchange of its forward pass: the forward pass, once
more for the gradient, and two states on the way back."""

BANDWIDTH_BYTES_PER_SECOND = 0.5e9
"""Bandwidth to another worker: an all-to-all of 8 MB takes 16 ms."""


@dataclass(frozen=True)
class PredictedStep:
    """Seconds of one step by its parts (training.step.constants.STEP_PARTS)."""

    simulate: float
    exchange: float
    input: float
    other: float

    @property
    def seconds(self) -> float:
        """Seconds of the whole step."""
        return self.simulate + self.exchange + self.input + self.other


@dataclass
class StepModel:
    """Predicts steps on machines like the measured one.

    Args:
        points: Measured steps of one family, of worker groups and of single workers.
        cores: Cores of the machine.
        bandwidth: Bytes per second between two workers that share a state.
    """

    points: Sequence[FitPoint]
    cores: int
    bandwidth: float = BANDWIDTH_BYTES_PER_SECOND

    def __post_init__(self) -> None:
        self._setups = fit_setups(self.points)

    def step(
        self,
        workload: WorkloadAnalysis,
        *,
        workers: int,
        batch: int,
        threads: int,
        state_shards: int = 1,
        busy_threads: int | None = None,
    ) -> PredictedStep:
        """Predict a step.

        Args:
            workload: Workload of the training.
            workers: Workers that train together.
            batch: Examples per step over all workers.
            threads: Threads per worker.
            state_shards: Workers that share one state.
            busy_threads: Threads that compute at once on one machine. Pass `threads` if each
                worker has a machine of its own; all workers use this machine unless given.
        """
        local = busy_threads is None
        busy = workers * threads if busy_threads is None else busy_threads
        setup = self._nearest(threads, busy, workers if local else 1)
        qubits = workload.qubits
        rows = math.ceil(batch * state_shards / workers)
        # A sharded state is simulated for each example.
        states = 0 if state_shards > 1 else workload.states(rows)
        work = self.work(workload, rows, threads) if states else workload.work(rows, threads)
        waiting = max(1.0, busy / self.cores)  # threads per core
        simulation = setup.part(qubits, "spanning" if states else "simulate")
        simulate = simulation(work * workload.operations / state_shards, rows) * waiting
        reading = setup.part(qubits, "input")(rows, rows) * waiting
        rest = setup.part(qubits, "other")(rows, rows) * waiting
        exchange = self._all_reduce(workload, workers, rows, simulate)
        if state_shards > 1:
            count = TRAINING_EXCHANGES_PER_FORWARD * workload.shard_exchanges[state_shards]
            exchange += count * self.exchange_bytes(workload, rows, state_shards) / self.bandwidth
        rest += setup.host_seconds / math.ceil(workload.train_examples / batch)
        return PredictedStep(simulate, exchange, reading, rest)

    @staticmethod
    def work(workload: WorkloadAnalysis, rows: int, threads: int) -> float:
        """Return the examples that the busiest thread simulates, by the simulator's own choice."""
        states = workload.states(rows)
        return workload.span_work(states, threads) if states else workload.work(rows, threads)

    @staticmethod
    def exchange_bytes(workload: WorkloadAnalysis, rows: int, state_shards: int) -> float:
        """Return the bytes that a worker sends in one exchange of the states of `rows` examples."""
        return rows * workload.state_bytes / state_shards * (state_shards - 1) / state_shards

    def _nearest(self, threads: int, busy_threads: int, workers: int) -> SetupFit:
        """Return the most similar setup: by busy threads, then threads, then workers."""
        busy = min(busy_threads, self.cores)
        return min(
            self._setups,
            key=lambda setup: (
                _log_distance(setup.busy_threads, busy),
                _log_distance(setup.threads, threads),
                _log_distance(setup.workers, workers),
            ),
        )

    def _all_reduce(
        self, workload: WorkloadAnalysis, workers: int, rows: int, simulate: float
    ) -> float:
        """Predict the all-reduce from the measured group with the most workers."""
        groups = [setup for setup in self._setups if setup.workers > 1]
        if workers == 1 or not groups:
            return 0.0
        group = max(groups, key=lambda setup: setup.workers)
        part = group.part(workload.qubits, "exchange")
        line = part.line
        vector_bytes = 4 * workload.weights
        hop = line.at_zero / hops(group.workers, vector_bytes)
        hop += (workers - group.workers) * MESSAGE_SECONDS
        latency = hop * hops(workers, vector_bytes)
        return (max(latency, 0.0) + line.rate * simulate) * part.ratios(rows)


def _log_distance(one: int, other: int) -> float:
    return abs(math.log(one / other))
