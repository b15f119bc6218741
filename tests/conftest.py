"""Fixtures that every test can ask for."""

import gc
import socket

import pytest

pytest_plugins = ["tests.emulator"]

# As in run_main: what TensorFlow and Cirq leave is looked through less often. A fifth of the time.
gc.set_threshold(10_000)


@pytest.fixture
def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return holder.getsockname()[1]
