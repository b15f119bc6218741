"""Fixtures for all tests, the law of tiers, limits that scale, and reports of failures."""

import signal
from collections.abc import Iterator

import pytest

from tests.support import patience
from tests.support.machine import describe_machine
from tests.support.ports import own_port

pytest_plugins = ["tests.support.storage_emulator", "tests.support.collection"]

collect_ignore = [
    "adapters",  # their environment is that of `make test-adapters`
    "keras",  # a process per backend: tests/support/keras3_run.py
]

TIERS = {
    "default": "runs before every commit",
    "native": "builds the C++ engine in other ways: sanitizers, other processors",
    "infra": "runs setup.sh and the Google Cloud scripts",
    "exhaustive": "takes long and rarely finds what the default tier misses",
    "e2e": "needs the Kubernetes cluster of `make cluster`",
    "nightly": "takes minutes: other moments and lengths of faults",
    "tfq": "compares with TensorFlow Quantum, in its environment",
}
FOLDERS = {
    "native": "native",
    "infra": "infra",
    "exhaustive": "exhaustive",
    "slurm": "exhaustive",
    "e2e": "e2e",
    "tfq": "tfq",
}


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers of the tiers, and react to SIGINT.

    A shell's background job ignores it, and so would every process that a test starts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, meaning in TIERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    patience.factor()  # measured once, before other processes start


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the marker of one tier on every test, and scale its time limit."""
    tiers = [tier_of(item) for item in items]
    for item, tier in zip(items, tiers, strict=True):
        for node in item.iter_parents():
            node.own_markers[:] = [mark for mark in node.own_markers if mark.name not in TIERS]
        item.add_marker(tier)
        marker = item.get_closest_marker("timeout")
        if config.getoption("timeout") is None:  # --timeout=0 is for debuggers
            limit = marker.args[0] if marker else float(config.getini("timeout"))
            item.add_marker(pytest.mark.timeout(patience.seconds(limit)), append=False)


def tier_of(item: pytest.Item) -> str:
    """Return the tier of the closest marker: of the parameter, function, file, else of the folder.

    A test function's own markers end with those of its parameter.
    """
    for node in item.iter_parents():
        if tiers := [mark.name for mark in node.own_markers if mark.name in TIERS]:
            return tiers[-1]
    return FOLDERS.get(item.nodeid.split("/")[1], "default")


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
