"""A full mesh of TCP connections between the workers, for the all-reduce and state shards.

Each worker connects to those of higher rank, and accepts those of lower rank. So the chief, whose
rendezvous may still listen for late workers, needs no port. Both sides prove the group's secret
(channel.py), with a key of each listener. After the last proof, each pair exchanges one byte, so
that none sends a vector before the other is done with the handshakes. The data itself is neither
signed nor encrypted. Listeners are closed once the mesh is complete.

With TARGET=slurm, workers listen on the port of their address. Elsewhere TensorFlow listens there,
so its collectives sum the ports of the mesh. Pods listen on the rendezvous port, which their
network policy allows. Workers on one machine listen on any free port.

A process that ends closes its connections. A machine that vanishes is noticed within 15 seconds.
"""

import contextlib
import hmac
import logging
import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from common.errors import PeerLost, RendezvousTimeout
from qfleet import native
from training.cluster.spec import ClusterSpec
from training.group.channel import ChiefHandshake, PeerChannel, ProtocolError, connect_to_chief
from training.group.sockets import create_listener, enable_keepalive

log = logging.getLogger("qfleet")

CONNECT_TIMEOUT_SECONDS = 30.0
"""Time until all are connected; a worker may still import TensorFlow when others listen."""

FALLBACK_SECONDS = 5.0
"""The same where all workers start at the same time, after a collective of TensorFlow."""

MAX_HALF_OPEN = 4096 + 256
"""Accepted connections without a complete handshake; beyond that, the oldest one is closed."""

RETRY_SECONDS = 0.1
READY = b"R"

AllReduce = Callable[[Sequence[float]], np.ndarray]


class PeerMesh:
    """The connections of this worker.

    Args:
        peers: Connections by the rank of the other worker.
        size: Number of workers.

    Attributes:
        file_descriptors: By rank, the descriptor of the connection; -1 at this worker's rank.
    """

    def __init__(self, peers: dict[int, socket.socket], size: int) -> None:
        self._peers = dict(peers)
        self.file_descriptors = [
            peers[rank].fileno() if rank in peers else -1 for rank in range(size)
        ]

    def close(self) -> None:
        """Close all connections; peers notice it in their next all-reduce."""
        for peer in self._peers.values():
            peer.close()


def connect_at_addresses(
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
    ports = [int(address.rpartition(":")[2]) for address in cluster.workers]
    with contextlib.ExitStack() as stack:
        try:
            listener = _listen(stack, cluster, ports[cluster.rank])
        except OSError as error:
            raise RendezvousTimeout(
                f"worker {cluster.rank} can't listen on port {ports[cluster.rank]} for the other"
                f" workers: {error.strerror}"
            ) from None
        try:
            return _connect(cluster, ports, secret, listener, timeout_seconds)
        except ConnectionError as error:
            raise PeerLost(f"{error}; all workers restart") from None


def connect_or_fall_back(
    cluster: ClusterSpec,
    secret: bytes,
    port: int,
    all_reduce: AllReduce,
    timeout_seconds: float = FALLBACK_SECONDS,
) -> PeerMesh | None:
    """Connect to all other workers, which call this at the same time.

    Args:
        cluster: All workers, and the rank of this one.
        secret: Secret of the group, from its rendezvous.
        port: Port to listen on, if this worker is the only one on its host.
        all_reduce: Returns the sum of all workers' float64 vectors.
        timeout_seconds: Time until all are connected.

    Returns:
        The mesh; None on all workers where some worker can't reach another one.
    """
    gathered = [0.0] * (cluster.size + 1)  # ports by rank (the chief has none); ready workers
    mesh, listener, reason = None, None, ""
    with contextlib.ExitStack() as stack:
        if native.unavailable_reason() is None:
            with contextlib.suppress(OSError):
                listener = _listen(stack, cluster, port if cluster.local_workers == 1 else 0)
                gathered[cluster.rank] = listener.getsockname()[1] if listener else 0
                gathered[-1] = 1
        *ports, ready = map(int, all_reduce(gathered))
        if ready < cluster.size:
            return None
        try:
            mesh = _connect(cluster, ports, secret, listener, timeout_seconds)
        except ConnectionError as error:
            reason = f" (worker {cluster.rank}: {error})"
    if all_reduce([float(mesh is not None)])[0] == cluster.size:
        return mesh
    if mesh:
        mesh.close()
    if reason or cluster.is_chief:
        log.warning(
            f"Not all workers can connect to each other on ports {sorted(set(ports[1:]))}{reason};"
            " falling back to TensorFlow's all-reduce, which takes 1 to 2 ms longer per step"
        )
    return None


def _listen(stack: contextlib.ExitStack, cluster: ClusterSpec, port: int) -> socket.socket | None:
    """Return a listener that the stack closes; None on the chief, to which none connects."""
    return None if cluster.is_chief else stack.enter_context(create_listener(cluster, port))


def _connect(
    cluster: ClusterSpec,
    ports: Sequence[int],
    secret: bytes,
    listener: socket.socket | None,
    timeout_seconds: float,
) -> PeerMesh:
    """Connect to all other workers; raise ConnectionError where one is missing."""
    if not secret:
        raise ValueError("the mesh needs the secret of its group")
    deadline = time.monotonic() + timeout_seconds
    channels: dict[int, PeerChannel] = {}
    try:
        # A thread accepts: a worker that waits for another one's answer holds up no third one.
        with ThreadPoolExecutor(1, "mesh") as pool:
            accepted = pool.submit(_accept, cluster, secret, listener, deadline, channels)
            for rank in range(cluster.rank + 1, cluster.size):
                host = cluster.workers[rank].rpartition(":")[0].strip("[]")
                address, key = (host, ports[rank]), _key(secret, rank)
                channels[rank] = _dial(address, cluster.rank, key, deadline)
            accepted.result()
        _exchange_ready(channels, deadline)
        for channel in channels.values():
            channel.socket.settimeout(None)
            channel.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            enable_keepalive(channel.socket)
    except BaseException as error:
        for channel in channels.values():
            channel.close()
        if not isinstance(error, OSError | ProtocolError):
            raise
        missing = set(range(cluster.size)) - channels.keys() - {cluster.rank}
        who = cluster.describe(sorted(missing)) or "a worker"
        raise ConnectionError(f"no connection to {who}: {error}") from None
    return PeerMesh({rank: channel.socket for rank, channel in channels.items()}, cluster.size)


def _dial(address: tuple[str, int], rank: int, key: bytes, deadline: float) -> PeerChannel:
    """Connect to a worker of higher rank, which may not listen yet."""
    while True:
        try:
            return connect_to_chief(address, rank, key, _remaining(deadline))
        except (OSError, ProtocolError):
            if time.monotonic() + RETRY_SECONDS > deadline:
                raise
            time.sleep(RETRY_SECONDS)


def _accept(
    cluster: ClusterSpec,
    secret: bytes,
    listener: socket.socket | None,
    deadline: float,
    channels: dict[int, PeerChannel],
) -> None:
    """Accept all workers of lower rank, into `channels`."""
    if listener is None:
        return
    missing = set(range(cluster.rank))
    with contextlib.closing(_Arrivals(listener, _key(secret, cluster.rank))) as arrivals:
        while missing:
            for rank, channel in arrivals.next(_remaining(deadline)):
                if rank in missing:
                    missing.remove(rank)
                    channels[rank] = channel
                else:
                    channel.close()


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
        listener: The listening socket.
        key: Key of this worker.
    """

    def __init__(self, listener: socket.socket, key: bytes) -> None:
        self._listener, self._key = listener, key
        self._open: dict[socket.socket, tuple[PeerChannel, ChiefHandshake]] = {}
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def next(self, timeout_seconds: float) -> Iterator[tuple[int, PeerChannel]]:
        """Wait for something to arrive; yield authenticated connections with their rank."""
        for key, _ in self._selector.select(timeout_seconds):
            if key.fileobj is self._listener:
                self._accept()
            elif isinstance(peer := key.fileobj, socket.socket) and peer in self._open:
                yield from self._read(peer)

    def close(self) -> None:
        """Close connections without a complete handshake."""
        for peer in [*self._open]:
            self._forget(peer).close()
        self._selector.close()

    def _accept(self) -> None:
        try:
            channel = PeerChannel(self._listener.accept()[0])
        except BlockingIOError:
            return
        except OSError:  # no descriptors are left
            self._drop_oldest(0)
            return
        try:
            self._open[channel.socket] = channel, ChiefHandshake(channel, self._key)
        except OSError:
            channel.close()
            return
        self._selector.register(channel.socket, selectors.EVENT_READ)
        self._drop_oldest(MAX_HALF_OPEN)

    def _drop_oldest(self, allowed: int) -> None:
        if len(self._open) > allowed:  # the oldest one has had the most time
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
        self._selector.unregister(peer)
        return self._open.pop(peer)[0]
