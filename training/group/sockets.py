"""TCP sockets between workers: who may connect, and when a vanished machine is noticed."""

import socket

from training.cluster.spec import ClusterSpec

MIN_BACKLOG = 256
"""Connections that may wait for `accept`; unauthenticated peers must not fill the queue."""

KEEPALIVE_IDLE_SECONDS = 5
KEEPALIVE_INTERVAL_SECONDS = 5
KEEPALIVE_PROBES = 2
KEEPALIVE_SECONDS = KEEPALIVE_IDLE_SECONDS + KEEPALIVE_INTERVAL_SECONDS * KEEPALIVE_PROBES


def create_listener(cluster: ClusterSpec, port: int) -> socket.socket:
    """Return a listening socket; it accepts only this machine where all workers run on it."""
    host = "127.0.0.1" if cluster.chief_host in ("127.0.0.1", "localhost") else ""
    return socket.create_server((host, port), backlog=max(cluster.size, MIN_BACKLOG))


def enable_keepalive(peer: socket.socket, timeout_seconds: int = KEEPALIVE_SECONDS) -> None:
    """Make the loss of the peer's machine an error.

    Args:
        peer: The connection.
        timeout_seconds: Time without an answer of the machine after which it is lost.
    """
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    probes = max(
        KEEPALIVE_PROBES, (timeout_seconds - KEEPALIVE_IDLE_SECONDS) // KEEPALIVE_INTERVAL_SECONDS
    )
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", probes),
        # No keepalive probes are sent while sent data is not acknowledged.
        ("TCP_USER_TIMEOUT", 1000 * timeout_seconds),
    ):
        if hasattr(socket, name):  # macOS has other names, or none
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
