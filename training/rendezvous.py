"""The start gate: every worker meets the chief before the strategy is built.

A restarted worker that meets a dying gang, or that resolved a peer's old address, stalls for half a
minute, since gRPC looks a name up again only every 30 s. So every worker first connects to the
chief on a port of its own, with a fresh look-up at each try. The chief waits until all are there at
once, tells them what to do (which attempt, which checkpoint) and closes the port: a chief still in
an old attempt is not listening, and a worker of an old attempt does not come.
"""

import contextlib
import json
import logging
import socket
import time
from typing import Any

from common.errors import RendezvousTimeout
from training.cluster import ClusterSpec

log = logging.getLogger("qfleet")

# Nobody waits in silence: the chief says whom it waits for, this often in seconds.
WAIT_LOG_INTERVAL_SECONDS = 15.0
# A worker tries again this often, and a connection that has said nothing for so long is dropped.
POLL_INTERVAL_SECONDS = 0.2
PEER_TIMEOUT_SECONDS = 5.0
MAX_LINE_BYTES = 65_536
# Seconds without a sign of life before the first question, between two, and how many of them.
KEEPALIVE = 5, 5, 2


class RendezvousServer:
    """The chief's side. Listens from the moment it is made, so that workers can come early."""

    def __init__(self, cluster: ClusterSpec, port: int) -> None:
        """Listen on `port`.

        Raises:
            RendezvousTimeout: The port is taken, as by a gang that is just leaving.
        """
        self.cluster = cluster
        try:
            self._server = create_listener(cluster, port)
        except OSError as error:
            raise RendezvousTimeout(
                f"the chief can't listen on port {port} for the other workers: {error.strerror}"
            ) from None

    def open(self, order: dict[str, Any], timeout: float) -> None:
        """Wait until every other worker is there at once, then send them all `order`.

        Raises:
            RendezvousTimeout: Names the workers that did not come within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        say = time.monotonic() + WAIT_LOG_INTERVAL_SECONDS
        here: dict[int, socket.socket] = {}
        try:
            while len(here) < self.cluster.size - 1:
                if time.monotonic() > deadline:
                    missing, verb = self._missing(here)
                    raise RendezvousTimeout(
                        f"{missing} {verb} not come to the start within"
                        f" RENDEZVOUS_TIMEOUT={timeout:g} seconds"
                    )
                if time.monotonic() > say:
                    log.info(f"waiting for {self._missing(here)[0]}")
                    say += WAIT_LOG_INTERVAL_SECONDS
                self._accept(here)
                for rank in [rank for rank, peer in here.items() if _gone(peer)]:
                    here.pop(rank).close()
            line = json.dumps(order).encode() + b"\n"
            for peer in here.values():
                # A worker that died just now is noticed in the first step, as any lost peer is.
                with contextlib.suppress(OSError):
                    peer.sendall(line)
        finally:
            for peer in here.values():
                peer.close()
            self.close()

    def close(self) -> None:
        """Stop listening; workers that wait see it at once and try again until their deadline."""
        self._server.close()

    def _accept(self, here: dict[int, socket.socket]) -> None:
        self._server.settimeout(POLL_INTERVAL_SECONDS)
        try:
            peer, _ = self._server.accept()
        except TimeoutError:
            return
        peer.settimeout(PEER_TIMEOUT_SECONDS)
        try:
            rank = int(_read_line(peer))
        except (OSError, ValueError):
            rank = -1
        if not 0 < rank < self.cluster.size:
            peer.close()
            return
        if rank in here:
            here.pop(rank).close()
        here[rank] = peer

    def _missing(self, here: dict[int, socket.socket]) -> tuple[str, str]:
        """The names of those that are not here, and the verb that goes with them."""
        missing = [
            f"worker {rank} ({self.cluster.workers[rank]})"
            for rank in range(1, self.cluster.size)
            if rank not in here
        ]
        return ", ".join(missing), "have" if len(missing) > 1 else "has"


def join_rendezvous(cluster: ClusterSpec, port: int, timeout: float) -> dict[str, Any]:
    """The other workers' side: wait for the chief's word.

    Args:
        cluster: This worker's place in the gang.
        port: The chief's gate port.
        timeout: Seconds in which the chief must be found. One who has been found may take longer,
            while it makes the data set.

    Returns:
        What the chief ordered.

    Raises:
        RendezvousTimeout: The chief was not there.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        with (
            contextlib.suppress(OSError, ValueError),
            socket.create_connection((cluster.chief_host, port), timeout=2) as chief,
        ):
            enable_keepalive(chief)
            chief.settimeout(None)
            chief.sendall(f"{cluster.rank}\n".encode())
            if line := _read_line(chief):
                return json.loads(line)
        time.sleep(POLL_INTERVAL_SECONDS)
    raise RendezvousTimeout(
        f"worker {cluster.rank} did not get word from the chief ({cluster.workers[0]}, gate port"
        f" {port}) within RENDEZVOUS_TIMEOUT={timeout:g} seconds"
    )


def create_listener(cluster: ClusterSpec, port: int) -> socket.socket:
    """A socket for the gang's workers: of this machine alone, where all of them are on it."""
    host = "127.0.0.1" if cluster.chief_host in ("127.0.0.1", "localhost") else ""
    return socket.create_server((host, port), backlog=max(cluster.size, 16))


def enable_keepalive(peer: socket.socket) -> None:
    """Have a peer whose machine vanishes noticed in a quarter of a minute."""
    idle, pause, count = KEEPALIVE
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", idle),
        ("TCP_KEEPINTVL", pause),
        ("TCP_KEEPCNT", count),
        # What was sent and never acknowledged: while that is waited for, nothing is asked.
        ("TCP_USER_TIMEOUT", 1000 * (idle + pause * count)),
    ):
        if hasattr(socket, name):  # macOS has other names, or none
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _read_line(peer: socket.socket) -> bytes:
    """Bytes up to a line break; empty where the peer closed before one."""
    line = b""
    while not line.endswith(b"\n"):
        if len(line) > MAX_LINE_BYTES:
            raise ValueError("a line that long is not ours")
        received = peer.recv(4096)
        if not received:
            return b""
        line += received
    return line


def _gone(peer: socket.socket) -> bool:
    """Whether the other side has closed; it has nothing to say before it is told to go."""
    peer.setblocking(False)
    try:
        return peer.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        peer.setblocking(True)
