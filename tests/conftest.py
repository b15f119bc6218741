"""Fixtures that every test can ask for."""

import socket

import pytest

pytest_plugins = ["tests.emulator"]


@pytest.fixture
def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return holder.getsockname()[1]
