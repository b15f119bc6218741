"""Measurements for a plan: a few short cases, chosen so that a step model can be fitted to them.

Two groups of workers are sufficient. One worker uses the whole machine. Then one worker per core
(at most MAX_WORKERS) measures the all-reduce, and how much slower a core is while the others are
busy. Each group measures a small and a larger batch; a batch that the user chose takes the place of
the nearer one. Of many equal circuits, one is measured. Cases take turns, and the fastest turn of
each counts: other programs only make steps slower.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import zip_longest

from common.errors import PeerLost
from common.settings import VARIATIONAL_TASKS, Settings, TrainingSettings
from common.text import plural
from planning.benchmark_group import StandbyGroup, measure_group
from planning.fit import FitPoint
from planning.step_measurement import Case, StepMeasurement
from planning.step_model import StepModel
from planning.workload import WorkloadAnalysis

MAX_WORKERS = 8
"""Most workers of a measured group."""

FLOPS_PER_CORE_SECOND = 60e9
"""Rough speed of a core, for an estimate before anything is measured."""

MAX_EXAMPLE_SECONDS = 0.6
"""A narrower circuit is measured where the step of one example takes longer."""

LARGE_BATCH, LARGE_BATCH_SECONDS = 96, 0.1
"""Examples per thread of the larger batch, and the longest time of its step."""

BATCH_RATIO = 6
"""The larger batch over the smaller one."""

MAX_BATCH_SECONDS = 0.5
"""A batch that the user chose is measured unless its step takes longer."""

MAX_EQUAL_CIRCUITS = 4
"""Most equal circuits that are measured together. Of more, one is measured."""

SLOW_EXAMPLE_SECONDS = 0.12
"""A case is measured once where the step of one example takes longer."""

Report = Callable[[str], object]


@dataclass(frozen=True)
class MeasurementEffort:
    """Extent of the measurements.

    Attributes:
        seconds: Duration of one turn of a case.
        turns: Turns per case.
    """

    seconds: float
    turns: int


FULL, QUICK = MeasurementEffort(0.5, 2), MeasurementEffort(0.5, 1)


@dataclass(frozen=True)
class MachineProfile:
    """Measured steps of one machine.

    Attributes:
        points: The fastest turn of each case.
        cores: Cores of the machine.
        seconds: Duration of the measurement; 0 if the profile comes from the cache.
        created: Unix time of the measurement.
    """

    points: Sequence[FitPoint]
    cores: int
    seconds: float
    created: float

    def model(self) -> StepModel:
        """Fit a step model."""
        return StepModel(self.points, self.cores)


def measure_profile(
    workload: WorkloadAnalysis,
    settings: Settings,
    cores: int,
    effort: MeasurementEffort,
    standby: Sequence[StandbyGroup] = (),
    report: Report = lambda text: None,
    *,
    gpus: int = 0,
) -> MachineProfile:
    """Measure the steps that a plan for a workload needs.

    Args:
        workload: Workload of the training.
        settings: With TARGET=k8s, the workers are pods.
        cores: Cores of this machine, or of a pod.
        effort: FULL or QUICK.
        standby: Groups of `start_groups`, if they were started.
        report: Called with a line of progress.
        gpus: GPUs that the workers use; 0 for none.

    Raises:
        QfleetError: A worker could not measure a case.
    """
    started = time.monotonic()
    points: list[FitPoint] = []
    pods = settings.job.target == "k8s"
    circuits = circuits_to_measure(workload, settings)
    is_fixed = settings.data.task in VARIATIONAL_TASKS
    qubits = workload.qubits if is_fixed else measured_qubits(workload)
    slow = _example_seconds(workload, qubits) > SLOW_EXAMPLE_SECONDS
    for group in standby:
        group.wait_until_ready()
    setups = group_setups(cores, pods=pods, gpus=gpus)
    for (workers, threads), group in zip_longest(setups, standby):
        report(f"measuring {plural(workers, 'worker')} at {plural(qubits, 'qubit')}")
        cases = list(cases_to_fit(workload, settings, qubits, workers, threads, effort))
        if is_fixed:
            cases = [{**case, "data": settings.data.data} for case in cases]
        repeated = cases * (1 if slow else effort.turns)
        try:
            if group:
                measured = group.measure(repeated)
            else:
                measured = measure_group(repeated, workers=workers, settings=settings)
        except PeerLost:
            report("a benchmark worker was lost; measuring again")
            measured = measure_group(repeated, workers=workers, settings=settings)
        for first in range(len(cases)):
            turns = [ranks for ranks in measured[first :: len(cases)] if ranks]
            best = min(turns, key=lambda ranks: ranks[0].step_seconds)
            points.append(fit_point(best, workload, workers, circuits, pods=pods))
    return MachineProfile(tuple(points), cores, time.monotonic() - started, time.time())


@contextmanager
def start_groups(settings: Settings, cores: int, gpus: int = 0) -> Iterator[Sequence[StandbyGroup]]:
    """Start the groups of `measure_profile` while their cases are computed.

    None are started in a cluster, whose pods have a price, and before DEVICE is known. The end of
    the context stops the groups that were not used.
    """
    with ExitStack() as stack:
        if settings.job.target == "local" and settings.model.device != "auto":
            numbers = [workers for workers, _ in group_setups(cores, pods=False, gpus=gpus)]
            yield [stack.enter_context(StandbyGroup(workers, settings)) for workers in numbers]
        else:
            yield []


def group_setups(cores: int, *, pods: bool, gpus: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the number of workers, and the threads per worker, of each measured group."""
    yield 1, cores
    workers = 2 if pods else min(MAX_WORKERS, gpus or cores)
    if workers > 1:
        yield workers, cores if pods else max(1, cores // workers)


def measured_qubits(workload: WorkloadAnalysis) -> int:
    """Return the width to measure: that of the workload, or the widest that takes only seconds."""
    qubits = workload.qubits
    if workload.network_width is not None:
        return qubits
    while _example_seconds(workload, qubits) > MAX_EXAMPLE_SECONDS and qubits > 4:
        qubits -= 1
    return qubits


def _example_seconds(workload: WorkloadAnalysis, qubits: int) -> float:
    """Estimate the time of one example on one core at a width."""
    return workload.operations / 2 ** (workload.qubits - qubits) / FLOPS_PER_CORE_SECOND


def cases_to_fit(
    workload: WorkloadAnalysis,
    settings: Settings,
    qubits: int,
    workers: int,
    threads: int,
    effort: MeasurementEffort,
) -> Iterator[Case]:
    """Yield the cases of one group: a small and a larger batch, of data like the workload's.

    Args:
        workload: Workload of the training.
        settings: MODEL, and the batch if it is explicit.
        qubits: Width to measure.
        workers: Workers of the group.
        threads: Threads per worker.
        effort: FULL or QUICK.
    """
    seconds = _example_seconds(workload, qubits)
    large = max(1, min(LARGE_BATCH, int(LARGE_BATCH_SECONDS / seconds)))
    small = max(1, large // BATCH_RATIO)
    if small == large:
        large *= 2
    usual = small * threads, large * threads
    most = int(MAX_BATCH_SECONDS / seconds) * threads
    slow = seconds > SLOW_EXAMPLE_SECONDS
    case: dict[str, object] = {"qubits": qubits, "seconds": effort.seconds}
    if settings.data.task not in VARIATIONAL_TASKS:
        repeated = workload.placement == "reupload"
        case["angles"] = workload.features if repeated else min(workload.features, qubits)
        if workload.placement == "amplitude":
            case["angles"] = 2**qubits
        case |= {"placement": workload.placement, "classes": workload.classes}
    if circuits_to_measure(workload, settings) < workload.circuits:
        case["filters"] = 1
    if workload.repeats or workload.has_spanning_states:
        case["data"] = "excitations"
    for rows in _with_chosen(usual, chosen_rows(settings.training, workers), most):
        yield {**case, "batch": rows * workers}
    if workers > 1 and effort is FULL and not slow:  # a core while the others are idle
        for rows in _with_chosen(usual, chosen_rows(settings.training, 1), most):
            yield {**case, "batch": rows, "independent": "first"}


def circuits_to_measure(workload: WorkloadAnalysis, settings: Settings) -> int:
    """Return the number of circuits that the measured model has: all, or one of many equal ones."""
    many = workload.distinct_circuits == 1 and workload.circuits > MAX_EQUAL_CIRCUITS
    return 1 if many and settings.model.model == "multi-filter" else workload.circuits


def chosen_rows(training: TrainingSettings, workers: int) -> int | None:
    """Return the examples per step of one of `workers`, by an explicit batch.

    None without one, and with sharded states, which the cases do not have.
    """
    batch = training.explicit_batch
    return math.ceil(batch / workers) if batch and training.state_shards == 1 else None


def _with_chosen(usual: tuple[int, int], chosen: int | None, most: int) -> tuple[int, int]:
    """Return two numbers of examples, with the chosen one in place of the nearer of the usual."""
    small, large = usual
    if chosen is None or chosen > max(most, large):
        return usual
    return (chosen, large) if chosen**2 < small * large else (small, chosen)


def fit_point(
    ranks: Sequence[StepMeasurement],
    workload: WorkloadAnalysis,
    workers: int,
    circuits: int,
    *,
    pods: bool,
) -> FitPoint:
    """Return the point of one turn of one case.

    Args:
        ranks: The measurements of all workers.
        workload: The measured workload, at any width.
        workers: Workers of the group.
        circuits: Circuits of the measured model.
        pods: True if each worker had a machine of its own.
    """
    first = ranks[0]
    parts = {
        name: sum(one.step_ms[name] for one in ranks) / len(ranks) / 1e3 for name in first.step_ms
    }
    rows = math.ceil(first.batch * first.state_shards / first.workers)
    states = workload.states(rows) if first.data == "excitations" else 0
    work = workload.span_work(states, first.threads) if states else 0.0
    share = circuits / workload.circuits / 2 ** (workload.qubits - first.qubits)
    concurrent = 1 if pods or first.independent == "first" else workers
    return FitPoint(
        family=workload.family,
        qubits=first.qubits,
        operations=workload.operations * share,
        workers=first.workers,
        threads=first.threads,
        busy_threads=concurrent * first.threads,
        rows=rows,
        work=work if states else workload.work(rows, first.threads),
        spanned=bool(states),
        host_seconds=sum(one.host_seconds for one in ranks) / len(ranks),
        rss_bytes=max(one.rss_bytes for one in ranks),
        start_seconds=max(one.start_seconds for one in ranks),
        build_seconds=max(one.build_seconds for one in ranks),
        **parts,
    )
