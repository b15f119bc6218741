"""Fixtures for all tests, and the assignment of tests to tiers."""

import gc
import signal
import socket

import pytest

from common.errors import GC_THRESHOLD
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test with its tier."""
    for item in items:
        tier = tier_of(item.nodeid)
        if tier != DEFAULT:
            item.add_marker(tier)


@pytest.fixture
def free_port() -> int:
    """Return a port of this machine on which nothing listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return holder.getsockname()[1]
