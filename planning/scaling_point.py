"""One number of workers on one kind of work: what was measured, as numbers of one row."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planning.step_measurement import MEASURED_PARTS, Case, StepMeasurement


@dataclass(frozen=True)
class ScalingPoint:
    """One number of workers on one kind of work.

    Attributes:
        kind: weak (examples in each worker are fixed) or strong (examples in all).
        qubits: Width of the circuit.
        workers: Workers in the gang.
        batch: Examples a step in all workers.
        cores: Distinct cores under all workers' threads.
        crowded: Whether the workers' threads outnumber the cores.
        rate: Examples a second of the gang.
        alone: The same of as many independent workers together, with `batch` / `workers` each.
        share: The same of one worker by itself with its share of the batch, nobody beside it.
        single: The same of one worker by itself: with the whole batch, or where weak, its own.
        efficiency: rate / alone, median of the rounds.
        ratio: rate / single, median of the rounds.
        step_ms: The gang's milliseconds a step by PARTS, mean of the workers.
        wait_ms: Those of the exchange in which a worker only waited for a slower one.
        alone_ms: The same of the independent workers.
        cpu: Processor seconds a second of each worker in the gang.
        alone_cpu: The same of the independent workers, the one that got least; about `threads`
            where nothing else ran on the machine.
        rss_mib: The most memory that each worker held, MiB.
        steps_per_call: Steps in one call into TensorFlow.
    """

    kind: str
    qubits: int
    workers: int
    batch: int
    cores: int
    crowded: bool
    rate: float
    alone: float
    share: float
    single: float
    efficiency: float
    ratio: float
    step_ms: Mapping[str, float]
    wait_ms: float
    alone_ms: Mapping[str, float]
    cpu: Sequence[float]
    alone_cpu: float
    rss_mib: Sequence[int]
    steps_per_call: int

    @property
    def unwaited(self) -> float:
        """The efficiency if no worker had to wait for a slower one."""
        step = sum(self.step_ms.values())
        return self.efficiency * step / (step - self.wait_ms)

    @property
    def work(self) -> str:
        """What stays the same over numbers of workers, in words."""
        if self.kind == "weak":
            return f"{self.batch // self.workers} examples a worker"
        return f"global batch {self.batch}"


RepeatedMeasurements = dict[tuple[str, int], list[list[StepMeasurement]]]


def by_case(
    cases: Sequence[Case], found: Sequence[list[StepMeasurement]], qubits: int
) -> RepeatedMeasurements:
    """(alone, batch) -> what was measured in each turn, by rank."""
    turns: RepeatedMeasurements = {}
    for case, lines in zip(cases, found, strict=True):
        if case["qubits"] == qubits:
            turns.setdefault((case.get("alone", ""), case["batch"]), []).append(lines)
    return turns


def scaling_points(
    kind: str, qubits: int, batch: int, workers: int, turns: RepeatedMeasurements
) -> Iterator[ScalingPoint]:
    """The point of a gang; and that of one worker, which was measured with a gang of two."""
    together = turns["", batch]
    share = -(-batch // workers)
    single = share if kind == "weak" else batch
    if workers == 1:
        yield _single(kind, qubits, batch, together)
        return
    if workers == 2:
        yield _single(kind, qubits, single, turns["first", single])
    rates = [lines[0].examples_per_second for lines in together]
    independent = [_sum(lines) for lines in turns["all", share]]
    alone_lines = [line for lines in turns["all", share] for line in lines]
    one = [lines[0].examples_per_second for lines in turns["first", single]]
    lines = [line for turn in together for line in turn]
    median = statistics.median
    yield ScalingPoint(
        kind=kind,
        qubits=qubits,
        workers=workers,
        batch=batch,
        cores=_cores(together[0]),
        crowded=_crowded(together[0]),
        rate=median(rates),
        alone=median(independent),
        share=median(turn[0].examples_per_second for turn in turns["first", share]),
        single=median(one),
        efficiency=median(a / b for a, b in zip(rates, independent, strict=True)),
        ratio=median(a / b for a, b in zip(rates, one, strict=True)),
        step_ms=_mean_ms(lines),
        wait_ms=statistics.fmean(line.wait_ms for line in lines),
        alone_ms=_mean_ms(alone_lines),
        cpu=_cpu(together),
        alone_cpu=min(_cpu(turns["all", share])),
        rss_mib=[round(most / 2**20) for most in _by_rank(together, lambda line: line.rss_bytes)],
        steps_per_call=lines[0].steps_per_call,
    )


def _single(
    kind: str, qubits: int, batch: int, turns: Sequence[list[StepMeasurement]]
) -> ScalingPoint:
    lines = [turn[0] for turn in turns]
    rate = statistics.median(line.examples_per_second for line in lines)
    parts = _mean_ms(lines)
    return ScalingPoint(
        kind=kind, qubits=qubits, workers=1, batch=batch, cores=len(lines[0].cores),
        crowded=lines[0].threads > len(lines[0].cores), rate=rate, alone=rate, share=rate,
        single=rate, efficiency=1.0, ratio=1.0, step_ms=parts, wait_ms=0.0, alone_ms=parts,
        cpu=(cpu := _cpu([[line] for line in lines])), alone_cpu=cpu[0],
        rss_mib=[round(max(line.rss_bytes for line in lines) / 2**20)],
        steps_per_call=lines[0].steps_per_call,
    )  # fmt: skip


def _sum(lines: Sequence[StepMeasurement]) -> float:
    return sum(line.examples_per_second for line in lines)


def _mean_ms(lines: Sequence[StepMeasurement]) -> dict[str, float]:
    return {part: statistics.fmean(line.step_ms[part] for line in lines) for part in MEASURED_PARTS}


def _cpu(turns: Sequence[list[StepMeasurement]]) -> list[float]:
    """Processor seconds a second, by rank."""
    return _by_rank(turns, lambda line: line.cpu_seconds / line.seconds)


def _by_rank(turns: Sequence[list[StepMeasurement]], value: Any) -> list[float]:
    """The median over the turns of something that each worker says."""
    return [statistics.median(map(value, lines)) for lines in zip(*turns, strict=True)]


def _places(lines: Sequence[StepMeasurement]) -> dict[str, tuple[int, set[int]]]:
    """By node: threads of the workers there, and the cores that they may run on."""
    places: dict[str, tuple[int, set[int]]] = {}
    for line in lines:
        threads, cores = places.get(line.node, (0, set()))
        places[line.node] = threads + line.threads, cores | set(line.cores)
    return places


def _cores(lines: Sequence[StepMeasurement]) -> int:
    """Distinct cores under all workers."""
    return sum(len(cores) for _, cores in _places(lines).values())


def _crowded(lines: Sequence[StepMeasurement]) -> bool:
    """Whether some machine has fewer cores than its workers have threads."""
    return any(threads > len(cores) for threads, cores in _places(lines).values())
