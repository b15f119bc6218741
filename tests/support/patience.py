"""Time limits of tests: longer where the machine is slow or busy.

A limit ends a test that hangs. It is not the subject of a test, and ends no test that works.
"""

import os
import time
from collections.abc import Callable

VARIABLE = "TEST_PATIENCE"
REFERENCE_SECONDS = 0.04
"""Time of the measured loop on an idle machine."""


def factor() -> float:
    """Return the factor of all limits, at least 2.

    The first process measures the speed and the load. Processes that it starts use the same factor.
    """
    if VARIABLE not in os.environ:
        began = time.perf_counter()
        sum(number * number for number in range(1_000_000))
        speed = max(1.0, (time.perf_counter() - began) / REFERENCE_SECONDS)
        load = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # the tests use all CPUs
        os.environ[VARIABLE] = f"{speed + load:.2f}"
    return float(os.environ[VARIABLE])


def seconds(limit: float) -> float:
    """Return a time limit for this machine.

    Args:
        limit: What suffices on an idle machine, in seconds.
    """
    return limit * factor()


def wait_until(condition: Callable[[], object], limit: float = 20.0, pause: float = 0.02) -> None:
    """Wait until a condition holds.

    Args:
        condition: Called until it returns a true value.
        limit: What suffices on an idle machine, in seconds.
        pause: Time between two calls, in seconds.

    Raises:
        AssertionError: The condition did not hold in time.
    """
    end = time.monotonic() + seconds(limit)
    while not condition():
        assert time.monotonic() < end, f"it did not happen in {seconds(limit):.0f} s"
        time.sleep(pause)
