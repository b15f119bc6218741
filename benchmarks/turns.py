"""The times of calls that take turns, so that a busy machine slows all of them."""

import statistics
import time
from collections.abc import Callable, Sequence


def median_seconds(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Return the median seconds of each call."""
    return [statistics.median(seconds) for seconds in _seconds(calls, rounds)]


def least_seconds(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Return the least seconds of each call."""
    return [min(seconds) for seconds in _seconds(calls, rounds)]


def _seconds(calls: Sequence[Callable[[], object]], rounds: int) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, seconds in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    return times
