"""Fixtures for all tests; marks tests with their tier, scales limits, and reports failures."""

import gc
import signal
from collections.abc import Iterator

import pytest

from common.errors import GC_THRESHOLD
from tests.support import patience
from tests.support.machine import describe_machine
from tests.support.ports import own_port
from tests.tiers import DEFAULT, MARKERS, tier_of

pytest_plugins = ["tests.support.storage_emulator"]

# They need environments of their own: make test-adapters, make test-mitiq.
collect_ignore = ["adapters", "mitiq"]

gc.set_threshold(GC_THRESHOLD)  # as run_main does: saves a fifth of the time of compiling tests


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers of the tiers, and react to SIGINT.

    A shell's background job ignores it, and so would every process that a test starts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    patience.factor()  # measured once, before other processes start


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test with its tier, and scale its time limit."""
    for item in items:
        tier = tier_of(item.nodeid)
        if tier != DEFAULT:
            item.add_marker(tier)
        marker = item.get_closest_marker("timeout")
        if config.getoption("timeout") is None:  # --timeout=0 is for debuggers
            limit = marker.args[0] if marker else float(config.getini("timeout"))
            item.add_marker(pytest.mark.timeout(patience.seconds(limit)), append=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[pytest.TestReport]:
    """Add what the machine was doing to the report of a failure."""
    report: pytest.TestReport = yield
    if report.failed:
        report.sections.append(("machine", describe_machine(call.duration)))
    return report


@pytest.fixture
def free_port() -> int:
    """Return a port of this machine that no other process gets, and on which nothing listens."""
    return own_port()
