"""What is measured for a plan: few short cases, chosen so that a model can be fitted to them.

Two gangs of probes suffice: one worker that has the machine to itself, and one worker for each core
(at most MOST), which also says what an exchange takes, and how much slower a core is while the
others are busy. Each measures one small and one larger batch; a model of several circuits that are
the same but for names is measured with one of them. Cases take turns, and of each the fastest turn
counts, since whatever else runs on a machine only makes it slower.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from common.errors import PeerLost
from common.settings import Settings
from planning.step_measurement import Case, StandbyGroup, StepMeasurement, measure_group
from planning.step_model import FitPoint, StepModel
from planning.workload import WorkloadAnalysis

MOST = 8  # workers of a measured gang
FLOPS = 60e9  # a second and core, about: how long a case takes, before anything is measured
LONGEST = 0.6  # seconds of an example's step, beyond which a narrower circuit is measured
LARGE_SECONDS, LARGE, SMALLER = 0.1, 96, 6  # the larger batch, and how much smaller the other is
SLOW = 0.12  # seconds of an example's step, beyond which a case is measured once


@dataclass(frozen=True)
class MeasurementEffort:
    """How much is measured: for a plan, or its short form.

    Attributes:
        seconds: Of each turn of a case.
        turns: Of each case.
    """

    seconds: float
    turns: int


FULL, QUICK = MeasurementEffort(0.5, 2), MeasurementEffort(0.5, 1)


@dataclass(frozen=True)
class MachineProfile:
    """What was measured.

    Attributes:
        points: The fastest turn of each case.
        cores: Of a machine.
        seconds: How long it took; 0 where it was remembered.
        taken: When, in seconds since 1970.
    """

    points: Sequence[FitPoint]
    cores: int
    seconds: float
    taken: float

    def model(self) -> StepModel:
        """The model that is fitted to it."""
        return StepModel(self.points, self.cores)


def measure_profile(
    workload: WorkloadAnalysis,
    settings: Settings,
    cores: int,
    effort: MeasurementEffort,
    gangs: Sequence[StandbyGroup] = (),
    heard: Callable[[str], None] = lambda text: None,
) -> MachineProfile:
    """Measure what a plan for a workload needs.

    Args:
        workload: What is to be trained.
        settings: With TARGET=k8s the gangs are pods.
        cores: Of this machine, or of a pod.
        effort: FULL or QUICK.
        gangs: Those of `started`, if some were.
        heard: Told what is being measured.

    Raises:
        QfleetError: A probe could not do it.
    """
    began = time.monotonic()
    points: list[FitPoint] = []
    qubits = measured_size(workload)
    for waiting in gangs:
        waiting.ready()
    set_up = group_set_ups(cores, pods=settings.job.target == "k8s")
    for (workers, threads), waiting in zip_longest(set_up, gangs):
        heard(f"measuring {workers} worker{'s'[: workers > 1]} at {qubits} qubits")
        cases = list(cases_to_fit(workload, settings, qubits, workers, threads, effort))
        slow = _seconds(workload, qubits) > SLOW
        cases_in_turn = cases * (1 if slow else effort.turns)
        try:
            if waiting:
                found = waiting.measure(cases_in_turn)
            else:
                found = measure_group(cases_in_turn, workers=workers, settings=settings)
        except PeerLost:
            heard("a probe was lost: once more")
            found = measure_group(cases_in_turn, workers=workers, settings=settings)
        for first in range(len(cases)):
            turns = [lines for lines in found[first :: len(cases)] if lines]
            best = min(turns, key=lambda lines: lines[0].step_seconds)
            points.append(fit_point(best, workload, workers, pods=settings.job.target == "k8s"))
    return MachineProfile(tuple(points), cores, time.monotonic() - began, time.time())


@contextmanager
def start_groups(settings: Settings, cores: int) -> Iterator[Sequence[StandbyGroup]]:
    """The gangs that `take` will want, starting while it is found out what they are to measure.

    None in a cluster, whose pods cost. Leaving the context ends those that still wait.
    """
    with ExitStack() as stack:
        if settings.job.target == "local":
            numbers = [workers for workers, _ in group_set_ups(cores, pods=False)]
            yield [stack.enter_context(StandbyGroup(workers, settings)) for workers in numbers]
        else:
            yield []


def group_set_ups(cores: int, *, pods: bool) -> Iterator[tuple[int, int]]:
    """Workers, and threads of each, of the gangs that are measured."""
    yield 1, cores
    workers = 2 if pods else min(MOST, cores)
    if workers > 1:
        yield workers, cores if pods else max(1, cores // workers)


def measured_size(workload: WorkloadAnalysis) -> int:
    """Qubits at which a step can be measured within seconds; those of the workload where possible.

    Beyond, what an operation takes is that of the widest that can.
    """
    qubits = workload.qubits
    while _seconds(workload, qubits) > LONGEST and qubits > 4:
        qubits -= 1
    return qubits


def _seconds(workload: WorkloadAnalysis, qubits: int) -> float:
    """About what an example takes a core, at so many qubits."""
    return workload.operations / 2 ** (workload.qubits - qubits) / FLOPS


def cases_to_fit(
    workload: WorkloadAnalysis,
    settings: Settings,
    qubits: int,
    workers: int,
    threads: int,
    effort: MeasurementEffort,
) -> Iterator[Case]:
    """What is measured in one gang: a small and a larger batch, and what the data adds to these."""
    large = max(1, min(LARGE, int(LARGE_SECONDS / _seconds(workload, qubits))))
    small = max(1, large // SMALLER)
    if small == large:
        large *= 2
    small, large = small * threads, large * threads
    slow = _seconds(workload, qubits) > SLOW
    said: dict[str, Any] = {"qubits": qubits, "seconds": effort.seconds}
    if workload.distinct == 1 and settings.model.model == "multi-filter":
        said["filters"] = 1
    for rows in (small, large):
        yield {**said, "batch": rows * workers}
    if workload.states(large) and not slow:
        yield {**said, "batch": large * workers, "data": "excitations"}
    if workers > 1 and effort is FULL and not slow:  # what a core does while the others rest
        yield {**said, "batch": large, "alone": "first"}


def fit_point(
    lines: Sequence[StepMeasurement], workload: WorkloadAnalysis, workers: int, *, pods: bool
) -> FitPoint:
    """A case's lines, one a rank, as a point to fit.

    Args:
        lines: Of one turn of one case.
        workload: What was measured, at any number of qubits.
        workers: In the gang that measured.
        pods: Whether each worker had a machine of its own.
    """
    one = lines[0]
    parts = {
        name: sum(line.step_ms[name] for line in lines) / len(lines) / 1e3 for name in one.step_ms
    }
    rows = math.ceil(one.batch * one.split / one.workers)
    states = workload.states(rows) if one.data == "excitations" else 0
    circuits = workload.circuits if workload.distinct == 1 else 1
    beside = 1 if pods or one.alone == "first" else workers
    return FitPoint(
        family=workload.family,
        qubits=one.qubits,
        operations=workload.operations / 2 ** (workload.qubits - one.qubits) / circuits,
        workers=one.workers,
        threads=one.threads,
        busy=beside * one.threads,
        rows=rows,
        work=workload.span_work(states, one.threads)
        if states
        else workload.work(rows, one.threads),
        spanned=bool(states),
        steps_per_call=one.steps_per_call,
        rss_bytes=max(line.rss_bytes for line in lines),
        start_seconds=max(line.start_seconds for line in lines),
        build_seconds=max(line.build_seconds for line in lines),
        **parts,
    )


def local_cpu_count() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
