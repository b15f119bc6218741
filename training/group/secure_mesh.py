"""The peer mesh where no network policy protects workers: connections prove the group's secret.

Each worker listens on the port of its address. It connects to those of higher rank, and accepts
those of lower rank. The proofs are those of the rendezvous (peer_channel.py), with a key of each
listener. After the last one, each pair exchanges one byte, so that none sends a vector before the
other is done with the handshakes. The data itself is neither signed nor encrypted.
"""

import contextlib
import hmac
import selectors
import socket
import time
from collections.abc import Iterator, Mapping

from common.errors import PeerLost, RendezvousTimeout
from training.cluster.spec import ClusterSpec
from training.group.channel import ChiefHandshake, PeerChannel, ProtocolError, connect_to_chief
from training.group.peer_mesh import MAX_HALF_OPEN, PeerMesh
from training.group.sockets import create_listener, enable_keepalive

CONNECT_TIMEOUT_SECONDS = 30.0
"""Time until all are connected; a worker may still import TensorFlow when others listen."""

RETRY_SECONDS = 0.1
READY = b"R"


def connect_secure_mesh(
    cluster: ClusterSpec, secret: bytes, timeout_seconds: float = CONNECT_TIMEOUT_SECONDS
) -> PeerMesh:
    """Connect to all other workers, which call this at about the same time.

    Args:
        cluster: All workers, and the rank of this one.
        secret: Secret of the group, from its rendezvous.
        timeout_seconds: Time until all are connected.

    Raises:
        RendezvousTimeout: The port of this worker is taken.
        PeerLost: A worker can't be reached, or does not know the secret.
    """
    deadline = time.monotonic() + timeout_seconds
    channels: dict[int, PeerChannel] = {}
    with contextlib.ExitStack() as on_error:
        on_error.callback(_close, channels)
        with _listen(cluster) as server:
            try:
                for rank in range(cluster.rank + 1, cluster.size):
                    channels[rank] = _dial(cluster, rank, secret, deadline)
                arrivals = _Arrivals(server, _key(secret, cluster.rank))
                with contextlib.closing(arrivals):
                    while len(channels) < cluster.size - 1:
                        for rank, channel in arrivals.next(_remaining(deadline)):
                            if rank in range(cluster.rank) and rank not in channels:
                                channels[rank] = channel
                            else:
                                channel.close()
                _exchange_ready(channels, deadline)
            except (OSError, ProtocolError) as error:
                missing = set(range(cluster.size)) - channels.keys() - {cluster.rank}
                who = cluster.describe(sorted(missing)) or "a worker"
                raise PeerLost(f"no connection to {who}: {error}; all workers restart") from None
        on_error.pop_all()
    for channel in channels.values():
        channel.socket.settimeout(None)
        channel.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        enable_keepalive(channel.socket)
    return PeerMesh({rank: one.socket for rank, one in channels.items()}, cluster.size)


def _close(channels: Mapping[int, PeerChannel]) -> None:
    for channel in channels.values():
        channel.close()


def _listen(cluster: ClusterSpec) -> socket.socket:
    port = int(cluster.workers[cluster.rank].rpartition(":")[2])
    try:
        return create_listener(cluster, port)
    except OSError as error:
        raise RendezvousTimeout(
            f"worker {cluster.rank} can't listen on port {port} for the other workers:"
            f" {error.strerror}"
        ) from None


def _dial(cluster: ClusterSpec, rank: int, secret: bytes, deadline: float) -> PeerChannel:
    """Connect to a worker of higher rank, which may not listen yet."""
    host, _, port = cluster.workers[rank].rpartition(":")
    address = host.strip("[]"), int(port)
    while True:
        try:
            return connect_to_chief(address, cluster.rank, _key(secret, rank), _remaining(deadline))
        except (OSError, ProtocolError):
            if time.monotonic() + RETRY_SECONDS > deadline:
                raise
            time.sleep(RETRY_SECONDS)


def _key(secret: bytes, rank: int) -> bytes:
    """Return the key of the worker that listens: proofs for one are of no use at another."""
    return hmac.new(secret, f"mesh {rank}".encode(), "sha256").hexdigest().encode()


def _remaining(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("workers are missing")
    return seconds


def _exchange_ready(channels: dict[int, PeerChannel], deadline: float) -> None:
    """Return when every peer has completed its handshakes."""
    for channel in channels.values():
        channel.socket.settimeout(_remaining(deadline))
        channel.socket.sendall(READY)
    for channel in channels.values():
        channel.socket.settimeout(_remaining(deadline))
        # The byte may have arrived with the proof.
        if (channel.unread or channel.socket.recv(1)) != READY:
            raise ConnectionError("it closed the connection")


class _Arrivals:
    """Accepts connections, and reads their proofs as the bytes arrive: none holds up another.

    Args:
        server: The listening socket.
        key: Key of this worker.
    """

    def __init__(self, server: socket.socket, key: bytes) -> None:
        self._server, self._key = server, key
        self._open: dict[socket.socket, tuple[PeerChannel, ChiefHandshake]] = {}
        self._selector = selectors.DefaultSelector()
        server.setblocking(False)
        self._selector.register(server, selectors.EVENT_READ)

    def next(self, timeout_seconds: float) -> Iterator[tuple[int, PeerChannel]]:
        """Wait for something to arrive; yield authenticated connections with their rank."""
        for key, _ in self._selector.select(timeout_seconds):
            if key.fileobj is self._server:
                self._accept()
            elif isinstance(peer := key.fileobj, socket.socket) and peer in self._open:
                yield from self._read(peer)

    def close(self) -> None:
        """Close connections without a complete handshake."""
        for peer in [*self._open]:
            self._forget(peer).close()
        self._selector.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            peer, _ = self._server.accept()
            channel = PeerChannel(peer)
            self._open[peer] = channel, ChiefHandshake(channel, self._key)
            self._selector.register(peer, selectors.EVENT_READ)
        if len(self._open) > MAX_HALF_OPEN:  # the oldest one has had the most time
            self._forget(next(iter(self._open))).close()

    def _read(self, peer: socket.socket) -> Iterator[tuple[int, PeerChannel]]:
        channel, handshake = self._open[peer]
        try:
            channel.read()
            message = channel.next()
            if message is None and not channel.is_closed:
                return
            rank = -1 if message is None else handshake.accept(message)
        except (OSError, ProtocolError):
            rank = -1
        self._forget(peer)
        if rank < 0:
            channel.close()
        else:
            yield rank, channel

    def _forget(self, peer: socket.socket) -> PeerChannel:
        if peer in self._selector.get_map():
            self._selector.unregister(peer)
        return self._open.pop(peer)[0]
