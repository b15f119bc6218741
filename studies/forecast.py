"""The planner's prediction of a study: time and cost of its trials, before the first one."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from common import events
from common.errors import QfleetError, one_line
from common.settings import Settings
from studies.definition import StudyDefinition

MAX_MEASURED = 4
"""Combinations whose steps are measured; of others only a cached measurement is used."""


@dataclass(frozen=True)
class StudyForecast:
    """A prediction.

    Attributes:
        shortest: Seconds of the shortest predicted trial.
        longest: Seconds of the longest one.
        wall: Seconds of all trials, run side by side.
        worker: Seconds of all their workers.
        predicted: Combinations that the planner predicted; the others count with their mean.
    """

    shortest: float
    longest: float
    wall: float
    worker: float
    predicted: int


def predict(
    definition: StudyDefinition, parallelism: int, *, may_measure: bool
) -> StudyForecast | None:
    """Predict the trials of a study from short measurements of their steps on this machine.

    Args:
        definition: The study.
        parallelism: Trials at a time.
        may_measure: Measure combinations that have no cached measurement.

    Returns:
        The prediction; None if the planner can't make one.
    """
    seconds: list[float] = []
    try:
        seconds += _trial_seconds(definition, may_measure=may_measure)
    except QfleetError as error:
        events.emit("log", f"The planner predicts nothing: {one_line(error)}", level="INFO")
    if not seconds:
        return None
    total = sum(seconds) / len(seconds) * definition.trial_count
    return StudyForecast(
        min(seconds),
        max(seconds),
        total / parallelism,
        total * definition.workers,
        len(seconds),
    )


def _trial_seconds(definition: StudyDefinition, *, may_measure: bool) -> Iterator[float]:
    measured = 0
    for combination in definition.combinations or definition.corners:
        args = definition.trial_args(0, combination)
        settings = Settings.from_args([*args, "TARGET=local"])
        seconds = _predict_cached(settings)
        if seconds is None and may_measure and measured < MAX_MEASURED:
            measured += 1
            seconds = _predict(settings)
        if seconds is not None:
            yield seconds


def _predict_cached(settings: Settings) -> float | None:
    """Return the predicted seconds of a training if its steps were measured before."""
    from planning import measurement_cache
    from planning.machine_profile import QUICK

    workload = measurement_cache.load_workload(settings)
    if workload is None or measurement_cache.load_profile(settings, workload, QUICK) is None:
        return None
    return _predict(settings)


def _predict(settings: Settings) -> float | None:
    from planning.costs import Costs, WorkerOption
    from planning.planner import make_plan

    plan = make_plan(settings, keep_workers=True, quick=True)
    training = settings.training
    costs = Costs(plan.workload, plan.profile, plan.machine, training)
    option = WorkerOption(
        training.workers, training.global_batch, training.threads, training.state_shards
    )
    seconds = costs.forecast(option).run_seconds
    return seconds if math.isfinite(seconds) else None


def duration(seconds: float) -> str:
    """Return a time as text, such as 12 s, 3.4 min or 2.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def used(wall_seconds: float, worker_seconds: float, price_per_worker_hour: float) -> str:
    """Return the time and cost of a study as text."""
    text = f"{duration(wall_seconds)}, {worker_seconds / 3600:.3g} hours of workers"
    if price_per_worker_hour:
        text += f", cost {worker_seconds / 3600 * price_per_worker_hour:.2f}"
    return text
