"""Connections between the workers of a gang, one between each two, for exchanges (exchange.py).

They are made once, when TensorFlow's own exchanges already work: by these the workers tell each
other where they listen, and a number that a stranger can't know. Nothing listens after that. Pods
listen on the gate's port, which their network policy lets through and the gate has left by then;
workers on one machine on any that is free.

A peer that ends closes its connections, whatever ends it; one whose machine vanishes is given up
after a quarter of a minute.
"""

import contextlib
import logging
import secrets
import socket
import struct
import time
from collections.abc import Callable, Sequence

import numpy as np

from qfleet import native
from training.cluster import ClusterSpec
from training.rendezvous import create_listener, enable_keepalive

log = logging.getLogger("qfleet")

# All workers come here at the same time, since they have just exchanged: so long is enough.
CONNECT_TIMEOUT_SECONDS = 5.0
# What a stranger may keep an accepted connection silent for.
SILENCE_SECONDS = 1.0
# The number that all know, and who says it.
_HELLO = struct.Struct("!QI")
# As many as a float64 holds whole: TensorFlow's exchange adds numbers up.
_BITS = 52


class PeerMesh:
    """This worker's connections.

    Args:
        peers: By the other workers' ranks.
        size: Workers in the gang.
    """

    def __init__(self, peers: dict[int, socket.socket], size: int) -> None:
        self._peers = dict(peers)
        # By rank, the connection's file descriptor; -1 at this worker's own place.
        self.numbers = [peers[rank].fileno() if rank in peers else -1 for rank in range(size)]

    def close(self) -> None:
        """Close them all; the peers see it in their next exchange."""
        for peer in self._peers.values():
            peer.close()


def connect_mesh(
    cluster: ClusterSpec, port: int, agreed: Callable[[Sequence[float]], np.ndarray]
) -> PeerMesh | None:
    """Connect with all other workers, which do the same at the same time.

    Args:
        cluster: This worker's place in the gang.
        port: Where to listen, if this worker has its host for itself.
        agreed: The sum of all workers' vectors of the same length, float64, in each.

    Returns:
        The connections; None in all workers where some worker can't reach another one.
    """
    own = port if cluster.here == 1 else 0
    told = [0.0] * (cluster.size + 1)
    with contextlib.ExitStack() as held:
        server = None
        if native.unavailable_reason() is None:
            with contextlib.suppress(OSError):
                server = held.enter_context(create_listener(cluster, own))
                told[cluster.rank] = server.getsockname()[1]
        if cluster.is_chief:
            told[-1] = secrets.randbits(_BITS)
        *ports, secret = map(int, agreed(told))
        peers: dict[int, socket.socket] = {}
        reason = ""
        if all(ports) and server:
            try:
                _meet(cluster, server, ports, secret, peers)
            except OSError as error:
                reason = f"worker {cluster.rank} could not: {error}"
        links = PeerMesh(peers, cluster.size)
        if agreed([len(peers) == cluster.size - 1])[0] == cluster.size:
            for peer in peers.values():
                peer.settimeout(None)
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                enable_keepalive(peer)
            return links
    links.close()
    if all(ports) and (reason or cluster.is_chief):
        log.warning(
            f"the workers can't all connect to each other on ports {sorted(set(ports))}"
            f"{f' ({reason})' * bool(reason)}, so TensorFlow exchanges their gradients, which"
            " takes a millisecond or two longer a step"
        )
    return None


def _meet(
    cluster: ClusterSpec,
    server: socket.socket,
    ports: Sequence[int],
    secret: int,
    peers: dict[int, socket.socket],
) -> None:
    """Connect to those of lower rank, and take connections of those of higher rank."""
    deadline = time.monotonic() + CONNECT_TIMEOUT_SECONDS

    def left() -> float:
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError(f"not all were there within {CONNECT_TIMEOUT_SECONDS:g} seconds")
        return seconds

    for rank in range(cluster.rank):
        host = cluster.workers[rank].rpartition(":")[0].strip("[]")
        peers[rank] = socket.create_connection((host, ports[rank]), timeout=left())
        peers[rank].sendall(_HELLO.pack(secret, cluster.rank))
    while len(peers) < cluster.size - 1:
        server.settimeout(left())
        peer, _ = server.accept()
        peer.settimeout(min(SILENCE_SECONDS, left()))
        rank = _who(peer, secret)
        if cluster.rank < rank < cluster.size and rank not in peers:
            peers[rank] = peer
        else:
            peer.close()


def _who(peer: socket.socket, secret: int) -> int:
    """The rank of who has connected; -1 where it is a stranger."""
    hello = b""
    with contextlib.suppress(OSError):
        while len(hello) < _HELLO.size and (some := peer.recv(_HELLO.size - len(hello))):
            hello += some
    if len(hello) < _HELLO.size:
        return -1
    said, rank = _HELLO.unpack(hello)
    return rank if secrets.compare_digest(str(said), str(secret)) else -1
