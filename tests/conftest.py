"""Fixtures that every test can ask for."""

import gc
import socket

import pytest

from common.errors import GC_THRESHOLD

pytest_plugins = ["tests.support.storage_emulator"]

gc.set_threshold(GC_THRESHOLD)  # as run_main does: a fifth of the time of tests that compile


@pytest.fixture
def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return holder.getsockname()[1]
