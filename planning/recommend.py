"""The recommended option of a plan."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from common.errors import SettingsError
from common.settings.settings import AUTO
from planning import reasons
from planning.costs import CostForecast, Costs
from planning.options import options
from planning.reasons import MIN_LOCAL_SPEEDUP, MIN_PRICED_SPEEDUP

NEAR_BEST_FRACTION = 0.05
"""Throughput that is given up for a smaller batch."""


@dataclass(frozen=True)
class Recommendation:
    """A recommended option.

    Attributes:
        best: Forecast of the recommended option.
        considered: Forecasts of all options, including the recommended one.
        reasons: Sentences that explain the recommendation.
    """

    best: CostForecast
    considered: Sequence[CostForecast]
    reasons: Sequence[str]


def recommend(costs: Costs, *, keep_workers: bool = False) -> Recommendation:
    """Choose the batch, and then the fewest workers that are worth their price.

    Args:
        costs: Predicts the costs of each option.
        keep_workers: Consider only WORKERS, if it is a number.

    Raises:
        SettingsError: No option fits into memory.
    """
    training, machine = costs.training, costs.machine
    forecasts = [costs.forecast(o) for o in options(costs.workload, training, machine)]
    if keep_workers and training.workers != AUTO:
        forecasts = [one for one in forecasts if one.option.workers == training.workers]
    if training.state_shards == 1:
        whole = [one for one in forecasts if one.option.state_shards == 1]
        forecasts = whole if any(one.fits for one in whole) else forecasts
    fitting = [one for one in forecasts if one.fits]
    if not fitting:
        raise SettingsError(
            reasons.fits_with_other_settings(costs) or reasons.fits_nowhere(costs, forecasts)
        )
    fastest = _with_best_threads(fitting)
    batch = _smallest_batch(fastest)
    candidates = [one for one in fastest if one.option.batch == batch]
    candidates.sort(key=lambda one: one.option.workers)
    speedup = MIN_PRICED_SPEEDUP if machine.dedicated else MIN_LOCAL_SPEEDUP
    best = _fewest_workers(candidates, speedup)
    sentences = [
        reasons.explain_workers(costs, candidates, best),
        *reasons.explain_batch(costs, best, fastest),
        *reasons.explain_state_shards(costs, best),
    ]
    considered = sorted(_with_best_threads(forecasts), key=lambda one: one.option)
    return Recommendation(best, considered, sentences)


def _with_best_threads(forecasts: Iterable[CostForecast]) -> list[CostForecast]:
    """Return the fastest forecast per number of workers and batch, one that fits if any does."""
    best: dict[tuple[int, int], CostForecast] = {}
    for one in forecasts:
        key = (one.option.workers, one.option.batch)
        other = best.get(key)
        if other is None or (not one.fits, one.epoch_seconds) < (
            not other.fits,
            other.epoch_seconds,
        ):
            best[key] = one
    return list(best.values())


def _smallest_batch(forecasts: Sequence[CostForecast]) -> int:
    """Return the smallest batch whose throughput is near the best."""
    rates: dict[int, float] = {}
    for one in forecasts:
        batch = one.option.batch
        rates[batch] = max(rates.get(batch, 0.0), one.examples_per_second)
    sufficient = (1 - NEAR_BEST_FRACTION) * max(rates.values())
    return min(batch for batch, rate in rates.items() if rate >= sufficient)


def _fewest_workers(candidates: Sequence[CostForecast], speedup: float) -> CostForecast:
    """Return the forecast with the fewest workers, unless each doubling gains `speedup`."""
    best = candidates[0]
    for one in candidates[1:]:
        doublings = math.log2(one.option.workers / best.option.workers)
        if best.epoch_seconds / one.epoch_seconds >= speedup**doublings:
            best = one
    return best
