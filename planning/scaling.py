"""`make plan SCALING=1`: measure the speedup of more workers, and explain its limits.

Each number of workers is one group of processes, which measures in turns: all workers together; all
workers independently at the same time, with as many examples per step and without communication;
one worker while the others are idle, with its share of the batch and with the whole batch. Turns
are repeated, so that a machine whose speed drifts does not look like scaling. The speedup is W
times a product of three ratios:

    speedup = W * (rate / rate of W independent workers)                efficiency: communication
                * (rate of W independent workers / (W * one of them))   memory contention
                * (one worker with its share / one with all examples)   small batch per worker
"""

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from common import storage
from common.commands import command
from common.errors import QfleetError, SettingsError
from common.processes import cpu_sets
from common.settings import Settings, TrainingSettings
from common.settings.circuit_file import short_model
from common.settings.settings import AUTO
from common.storage import StoragePath
from common.text import plural
from planning.benchmark_group import measure_group
from planning.bottlenecks import headline
from planning.costs import Costs, WorkerOption
from planning.measurement_cache import cpu_model
from planning.planner import TrainingPlan
from planning.scaling_point import ScalingPoint, scaling_points, turns_by_case
from planning.step_measurement import Case, StepMeasurement
from training.process import logging_setup

log = logging.getLogger("qfleet")


@dataclass(frozen=True)
class ScalingCases:
    """Extent of the measurements.

    Attributes:
        workers: Numbers of workers.
        qubits: Widths of the circuit.
        weak: Examples per step and worker.
        strong: Examples per step over all workers.
        rounds: Turns per case.
        seconds: Approximate duration of a turn.
    """

    workers: Sequence[int]
    qubits: Sequence[int]
    weak: Sequence[int]
    strong: Sequence[int]
    rounds: int
    seconds: float


FULL = ScalingCases((1, 2, 4, 8), (8, 10, 12, 14, 16), (64,), (64, 256), rounds=7, seconds=0.5)
# Two workers with 32 examples each have 64 in total, so both kinds of scaling share measurements.
QUICK = ScalingCases((1, 2), (8, 12), (32,), (64,), rounds=2, seconds=0.4)


def measure_scaling(cases: ScalingCases, settings: Settings, plan: TrainingPlan) -> None:
    """Measure, and write the report into a folder in STORAGE.

    Args:
        cases: Extent of the measurements.
        settings: Settings of `selected_cases`.
        plan: Predicts the rates, at its width.
    """
    logging_setup.start_console(0, verbose=settings.job.verbose)
    folder = storage.path(settings.job.storage) / f"scaling_{datetime.now():%Y-%m-%d_%H-%M-%S}"
    conditions = _conditions(settings, cases)
    storage.write_json(folder / "conditions.json", conditions)  # fails now if it is not writable
    _measure_all(cases, settings, folder, conditions, plan)
    log.info(f"Report written to {folder}/report.md")


def predicted_rate(plan: TrainingPlan, training: TrainingSettings, point: ScalingPoint) -> float:
    """Return the examples per second that a plan predicts for a point of its width."""
    # The measured examples rotate every qubit.
    workload = plan.workload.without_spanning_states()
    costs = Costs(workload, plan.profile, plan.machine, training)
    option = WorkerOption(point.workers, point.batch, training.threads or 1, 1)
    return costs.forecast(option).examples_per_second


def selected_cases(settings: Settings, *, quick: bool) -> tuple[ScalingCases, Settings]:
    """Return the cases, with explicit settings in place of the defaults, and their settings.

    Args:
        settings: Settings of the command.
        quick: Measure few cases.

    Raises:
        SettingsError: A setting can't be used here.
    """
    training, explicit = settings.training, settings.explicit
    if training.state_shards > 1:
        raise SettingsError(
            f"STATE_SHARDS={training.state_shards} can't be used here: scaling compares with"
            " independent workers, which hold whole states; omit STATE_SHARDS"
        )
    if AUTO in (training.workers, training.batch):
        raise SettingsError(
            "scaling measures what WORKERS=auto and BATCH=auto choose from: set WORKERS and BATCH"
            " to numbers, or omit them"
        )
    cases, changes = QUICK if quick else FULL, dict[str, Any]()
    if "workers" in explicit:
        changes["workers"] = [*_doublings(training.workers)]
    if "qubits" in explicit:
        changes["qubits"] = (settings.model.qubits,)
    if training.batch:
        changes |= {"strong": (training.batch,), "weak": ()}
    cases = ScalingCases(**vars(cases) | changes)
    for batch in cases.strong:
        if batch < max(cases.workers):
            raise SettingsError(
                f"BATCH={batch} is less than {max(cases.workers)} workers, so some would have no"
                " examples: raise BATCH, or set WORKERS to the largest number to measure"
            )
    return cases, settings.replace(**_replaced_settings(settings, cases))


def _replaced_settings(settings: Settings, cases: ScalingCases) -> dict[str, str | int | None]:
    replaced: dict[str, str | int | None] = {
        "batch": None,
        "partitions": max(settings.data.partitions, *cases.workers),
    }
    if "cpu" not in settings.explicit:
        replaced["cpu"] = str(settings.training.threads or 1)
    return replaced


def _doublings(most: int) -> Iterator[int]:
    workers = 1
    while workers < most:
        yield workers
        workers *= 2
    yield most


def _measure_all(
    cases: ScalingCases,
    settings: Settings,
    folder: StoragePath,
    conditions: dict[str, object],
    plan: TrainingPlan,
) -> None:
    """Measure all numbers of workers; write the report after each."""
    from planning.scaling_report import write  # matplotlib: one second, before any measurement

    points: list[ScalingPoint] = []
    left_out: dict[int, str] = {}
    try:
        # One worker is measured with a group of two, and separately only without larger groups.
        for workers in [count for count in cases.workers if count > 1] or cases.workers:
            try:
                measured = _measure_workers(cases, workers, settings)
            except QfleetError as error:
                # A larger group may not fit; smaller ones are still reported.
                if not points:
                    raise
                log.warning(f"{workers} workers are left out: {error}")
                left_out[workers], measured = str(error), []
            for point in measured:
                if point.qubits == plan.workload.qubits:
                    rate = predicted_rate(plan, settings.training, point)
                    point = replace(point, predicted_rate=rate)
                points.append(point)
                if point.workers == workers:
                    log.info(headline(point))
            write(folder, points, left_out, conditions)  # complete if the next group is interrupted
    finally:
        if not points:
            storage.delete(folder)


def _measure_workers(cases: ScalingCases, workers: int, settings: Settings) -> list[ScalingPoint]:
    """Measure all points of one number of workers in one group of processes."""
    local = settings.job.target == "local"
    cpus = cpu_sets(workers, settings.training.threads or 1)
    distinct = len({cpu for own in cpus for cpu in own})
    oversubscribed = local and sum(map(len, cpus)) > distinct
    kinds = [("weak", batch * workers) for batch in cases.weak]
    kinds += [("strong", batch) for batch in cases.strong]
    group_cases: list[Case] = [
        {"qubits": qubits, "seconds": cases.seconds, **case}
        for qubits in cases.qubits
        for turn in range(1 if oversubscribed else cases.rounds)
        for case in turn_cases(kinds, workers, backwards=turn % 2 == 1)
    ]
    location = "on this machine" if local else "in the cluster"
    sharing = f"; they share {plural(distinct, 'core')}" if oversubscribed else ""
    count = plural(len(group_cases), "measurement")
    log.info(f"{plural(workers, 'worker')} {location}, {count}{sharing}")
    measured = measure_group(
        group_cases,
        workers=workers,
        cpus=cpus if local else None,
        settings=settings,
        on_measurement=_ProgressLog(workers, len(group_cases)),
    )
    return [
        point
        for qubits in cases.qubits
        for kind, batch in kinds
        for point in scaling_points(
            kind, qubits, batch, workers, turns_by_case(group_cases, measured, qubits)
        )
    ]


class _ProgressLog:
    """Logs each measurement of the chief."""

    def __init__(self, workers: int, cases: int) -> None:
        self._workers, self._cases, self._started = workers, cases, time.monotonic()

    def __call__(self, measurement: StepMeasurement) -> None:
        if measurement.rank:
            return
        mode = {
            "": f"{self._workers} together",
            "all": f"{self._workers} independent",
            "first": "one worker",
        }[measurement.independent]
        log.info(
            f"{measurement.case + 1:4}/{self._cases}  {time.monotonic() - self._started:4.0f} s"
            f"  {measurement.qubits} qubits  batch {measurement.batch:<4} {mode:14}"
            f" {measurement.examples_per_second:10,.0f} examples/s"
        )


def turn_cases(
    kinds: Sequence[tuple[str, int]], workers: int, *, backwards: bool
) -> list[dict[str, int | str]]:
    """Return the distinct cases of one turn, workers together next to independent ones."""
    cases: list[dict[str, int | str]] = []
    for kind, batch in kinds:
        share = -(-batch // workers)
        single = share if kind == "weak" else batch
        cases += [{"batch": batch}, {"batch": share, "independent": "all"}]
        cases += [{"batch": share, "independent": "first"}]
        cases += [{"batch": single, "independent": "first"}]
    if workers == 1:
        cases = [case for case in cases if "independent" not in case]
    distinct = [case for number, case in enumerate(cases) if case not in cases[:number]]
    return distinct[::-1] if backwards else distinct


def _conditions(settings: Settings, cases: ScalingCases) -> dict[str, object]:
    """Return the conditions of the measurement for the report."""
    local = settings.job.target == "local"
    return {
        "command": " ".join([command("plan"), *sys.argv[1:]]),
        "when": datetime.now().isoformat(timespec="seconds"),
        "target": settings.job.target,
        "processor": cpu_model() if local else "",
        "model": short_model(settings.model.model),
        "threads": settings.training.threads or 1,
        **vars(cases),
    }
