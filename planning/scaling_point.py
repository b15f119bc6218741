"""The measurements of one number of workers on one kind of work, as one row of a table."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from planning.step_measurement import Case, StepMeasurement
from training.step.constants import STEP_PARTS


@dataclass(frozen=True)
class ScalingPoint:
    """One number of workers on one kind of work. Rates are in examples per second.

    Attributes:
        kind: "weak" (fixed examples per worker) or "strong" (fixed examples over all workers).
        qubits: Width of the circuit.
        workers: Workers that train together.
        batch: Examples per step over all workers.
        cores: Distinct cores of all workers.
        oversubscribed: True if the workers have more threads than cores.
        examples_per_second: Rate of the workers that train together.
        independent_rate: Rate of as many independent workers together, with `batch` / `workers`
            examples each.
        share_rate: Rate of one worker with its share of the batch, while the others are idle.
        single_rate: Rate of one worker with the whole batch (strong) or its own batch (weak).
        efficiency: examples_per_second / independent_rate, median of the turns.
        speedup: examples_per_second / single_rate, median of the turns.
        step_ms: Milliseconds per step by STEP_PARTS, mean of the workers.
        wait_ms: Milliseconds per step that a worker waits for a slower one in the all-reduce.
        independent_step_ms: `step_ms` of the independent workers.
        cpu_utilization: CPU seconds per second of each worker.
        independent_cpu_utilization: The least CPU seconds per second of an independent worker;
            about its threads where no other program uses the machine.
        rss_mib: Peak resident memory of each worker in MiB.
        steps_per_call: Steps per call of a TensorFlow function.
        predicted_rate: `examples_per_second` as the plan predicts it; None at another width.
    """

    kind: str
    qubits: int
    workers: int
    batch: int
    cores: int
    oversubscribed: bool
    examples_per_second: float
    independent_rate: float
    share_rate: float
    single_rate: float
    efficiency: float
    speedup: float
    step_ms: Mapping[str, float]
    wait_ms: float
    independent_step_ms: Mapping[str, float]
    cpu_utilization: Sequence[float]
    independent_cpu_utilization: float
    rss_mib: Sequence[int]
    steps_per_call: int
    predicted_rate: float | None = None

    @property
    def efficiency_without_wait(self) -> float:
        """The efficiency if no worker had to wait for a slower one."""
        step_ms = sum(self.step_ms.values())
        return self.efficiency * step_ms / (step_ms - self.wait_ms)

    @property
    def label(self) -> str:
        """The quantity that is the same for all numbers of workers."""
        if self.kind == "weak":
            return f"{self.batch // self.workers} examples per worker"
        return f"global batch {self.batch}"


Turns = Sequence[Sequence[StepMeasurement]]
"""Measurements of one case by turn and rank."""

RepeatedMeasurements = dict[tuple[str, int], list[list[StepMeasurement]]]
"""(independent, batch) -> measurements by turn and rank."""


def turns_by_case(
    cases: Sequence[Case], measured: Sequence[list[StepMeasurement]], qubits: int
) -> RepeatedMeasurements:
    """Group measurements of one width by case, as scaling_points needs them."""
    turns: RepeatedMeasurements = {}
    for case, ranks in zip(cases, measured, strict=True):
        if case["qubits"] == qubits:
            turns.setdefault((case.get("independent", ""), case["batch"]), []).append(ranks)
    return turns


def scaling_points(
    kind: str, qubits: int, batch: int, workers: int, turns: RepeatedMeasurements
) -> Iterator[ScalingPoint]:
    """Yield the point of a group, and with a group of two also that of one worker."""
    together = turns["", batch]
    share = -(-batch // workers)
    single = share if kind == "weak" else batch
    if workers == 1:
        yield _single_worker(kind, qubits, batch, together)
        return
    if workers == 2:
        yield _single_worker(kind, qubits, single, turns["first", single])
    rates = [ranks[0].examples_per_second for ranks in together]
    independent = turns["all", share]
    independent_rates = [sum(one.examples_per_second for one in ranks) for ranks in independent]
    single_rates = [ranks[0].examples_per_second for ranks in turns["first", single]]
    measured = [one for ranks in together for one in ranks]
    median = statistics.median
    yield ScalingPoint(
        kind=kind,
        qubits=qubits,
        workers=workers,
        batch=batch,
        cores=_count_cores(together[0]),
        oversubscribed=_is_oversubscribed(together[0]),
        examples_per_second=median(rates),
        independent_rate=median(independent_rates),
        share_rate=median(ranks[0].examples_per_second for ranks in turns["first", share]),
        single_rate=median(single_rates),
        efficiency=median(a / b for a, b in zip(rates, independent_rates, strict=True)),
        speedup=median(a / b for a, b in zip(rates, single_rates, strict=True)),
        step_ms=_mean_ms(measured),
        wait_ms=statistics.fmean(one.wait_ms for one in measured),
        independent_step_ms=_mean_ms([one for ranks in independent for one in ranks]),
        cpu_utilization=_cpu_utilization(together),
        independent_cpu_utilization=min(_cpu_utilization(independent)),
        rss_mib=[round(rss / 2**20) for rss in _median_by_rank(together, _rss_bytes)],
        steps_per_call=measured[0].steps_per_call,
    )


def _single_worker(kind: str, qubits: int, batch: int, turns: Turns) -> ScalingPoint:
    measured = [ranks[0] for ranks in turns]
    rate = statistics.median(one.examples_per_second for one in measured)
    step_ms = _mean_ms(measured)
    cpu_utilization = _cpu_utilization([[one] for one in measured])
    first = measured[0]
    return ScalingPoint(
        kind=kind,
        qubits=qubits,
        workers=1,
        batch=batch,
        cores=len(first.cores),
        oversubscribed=first.threads > len(first.cores),
        examples_per_second=rate,
        independent_rate=rate,
        share_rate=rate,
        single_rate=rate,
        efficiency=1.0,
        speedup=1.0,
        step_ms=step_ms,
        wait_ms=0.0,
        independent_step_ms=step_ms,
        cpu_utilization=cpu_utilization,
        independent_cpu_utilization=cpu_utilization[0],
        rss_mib=[round(max(one.rss_bytes for one in measured) / 2**20)],
        steps_per_call=first.steps_per_call,
    )


def _mean_ms(measured: Sequence[StepMeasurement]) -> dict[str, float]:
    return {part: statistics.fmean(one.step_ms[part] for one in measured) for part in STEP_PARTS}


def _cpu_utilization(turns: Turns) -> list[float]:
    """Return CPU seconds per second by rank."""
    return _median_by_rank(turns, lambda one: one.cpu_seconds / one.seconds)


def _rss_bytes(measurement: StepMeasurement) -> float:
    return measurement.rss_bytes


def _median_by_rank(turns: Turns, value: Callable[[StepMeasurement], float]) -> list[float]:
    """Return the median of a value over the turns, by rank."""
    return [statistics.median(map(value, ranks)) for ranks in zip(*turns, strict=True)]


def _by_node(ranks: Sequence[StepMeasurement]) -> dict[str, tuple[int, set[int]]]:
    """Return node -> threads of its workers, and the cores that they may run on."""
    nodes: dict[str, tuple[int, set[int]]] = {}
    for one in ranks:
        threads, cores = nodes.get(one.node, (0, set()))
        nodes[one.node] = threads + one.threads, cores | set(one.cores)
    return nodes


def _count_cores(ranks: Sequence[StepMeasurement]) -> int:
    return sum(len(cores) for _, cores in _by_node(ranks).values())


def _is_oversubscribed(ranks: Sequence[StepMeasurement]) -> bool:
    return any(threads > len(cores) for threads, cores in _by_node(ranks).values())
