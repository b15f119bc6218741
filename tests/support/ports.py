"""Ports of tests: a port that is chosen and released may soon be that of another process."""

import atexit
import contextlib

from common.processes import free_ports

_held = contextlib.ExitStack()
atexit.register(_held.close)


def own_ports(count: int) -> list[int]:
    """Return free ports that no process gets until this one ends, except the servers of the test.

    Args:
        count: How many different ports.
    """
    return _held.enter_context(free_ports(count))


def own_port() -> int:
    """Return one such port."""
    return own_ports(1)[0]
