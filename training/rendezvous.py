"""The rendezvous: every worker connects to the chief before TensorFlow's strategy is built.

Without it, a restarted worker that reaches a process of the previous attempt, or a stale address of
a peer, stalls for half a minute, because gRPC resolves a name again only every 30 s. Here, each try
resolves the chief's address again. The chief waits until all workers are connected at once, sends
them the attempt and the checkpoint, and closes the port.
"""

import contextlib
import json
import logging
import socket
import time
from dataclasses import asdict, dataclass
from typing import Any, Self

from common.errors import RendezvousTimeout
from common.events import log_event
from common.settings import FaultToleranceSettings
from training.cluster import ClusterSpec

log = logging.getLogger("qfleet")

WAIT_LOG_INTERVAL_SECONDS = 15.0
"""Interval at which the chief logs the workers it is waiting for."""

POLL_INTERVAL_SECONDS = 0.2
"""Pause between two tries of a worker, and between two checks of the chief."""

PEER_TIMEOUT_SECONDS = 5.0
"""A connection that sends no rank for this long is dropped."""

MAX_LINE_BYTES = 65_536

KEEPALIVE_IDLE_SECONDS = 5
KEEPALIVE_INTERVAL_SECONDS = 5
KEEPALIVE_PROBES = 2

_FINISHED: dict[str, Any] = {"finished": True}


@dataclass(frozen=True)
class StartMessage:
    """The message that the chief sends to every worker at the rendezvous.

    Attributes:
        run: Name of the run.
        attempt: Number of this attempt, counted from 1.
        data: Folder of the data set.
        checkpoint: Step of the checkpoint that all workers resume from; None for none.
    """

    run: str
    attempt: int
    data: str
    checkpoint: int | None

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self | None:
        """Read a message as it was received; None where the run is finished already."""
        if content == _FINISHED:
            return None
        return cls(content["run"], content["attempt"], content["data"], content["checkpoint"])

    def to_json(self) -> dict[str, Any]:
        """Return the message as it is sent."""
        return asdict(self)


class RendezvousServer:
    """The chief's side. It listens at once, so that workers can connect early.

    Args:
        cluster: All workers.
        port: The rendezvous port.

    Raises:
        RendezvousTimeout: The port is taken, for example by workers that are just leaving.
    """

    def __init__(self, cluster: ClusterSpec, port: int) -> None:
        self.cluster = cluster
        try:
            self._server = create_listener(cluster, port)
        except OSError as error:
            raise RendezvousTimeout(
                f"the chief can't listen on RENDEZVOUS_PORT={port} for the other workers:"
                f" {error.strerror}"
            ) from None

    def start_all(self, message: StartMessage | None, timeout_seconds: float) -> None:
        """Wait until all other workers are connected at once, then send them the message.

        Args:
            message: The message; None where the run is finished already.
            timeout_seconds: Time to wait.

        Raises:
            RendezvousTimeout: Names the missing workers.
        """
        started = time.monotonic()
        next_log = started + WAIT_LOG_INTERVAL_SECONDS
        connected: dict[int, socket.socket] = {}
        try:
            while len(connected) < self.cluster.size - 1:
                now = time.monotonic()
                if now > started + timeout_seconds:
                    raise RendezvousTimeout(
                        f"{self._describe_missing(connected)} did not connect within"
                        f" RENDEZVOUS_TIMEOUT={timeout_seconds:g} seconds"
                    )
                if now > next_log:
                    self._log_missing(connected, now - started)
                    next_log += WAIT_LOG_INTERVAL_SECONDS
                self._accept(connected)
                for rank in [rank for rank, peer in connected.items() if _is_closed(peer)]:
                    connected.pop(rank).close()
            content = _FINISHED if message is None else message.to_json()
            for peer in connected.values():
                # A worker that dies at this moment is noticed in the first step, as any lost peer.
                with contextlib.suppress(OSError):
                    peer.sendall(json.dumps(content).encode() + b"\n")
        finally:
            for peer in connected.values():
                peer.close()
            self.close()

    def close(self) -> None:
        """Stop listening. Waiting workers notice it at once and retry until their deadline."""
        self._server.close()

    def _accept(self, connected: dict[int, socket.socket]) -> None:
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
        if rank in connected:
            connected.pop(rank).close()
        connected[rank] = peer

    def _missing(self, connected: dict[int, socket.socket]) -> list[int]:
        return [rank for rank in range(1, self.cluster.size) if rank not in connected]

    def _describe_missing(self, connected: dict[int, socket.socket]) -> str:
        return ", ".join(
            f"worker {rank} ({self.cluster.workers[rank]})" for rank in self._missing(connected)
        )

    def _log_missing(self, connected: dict[int, socket.socket], seconds: float) -> None:
        log_event(
            "waiting",
            f"Waiting for {self._describe_missing(connected)}",
            missing=self._missing(connected),
            seconds=round(seconds, 1),
        )


def join_rendezvous(cluster: ClusterSpec, settings: FaultToleranceSettings) -> StartMessage | None:
    """Connect to the chief and wait for its start message, on a worker other than the chief.

    RENDEZVOUS_TIMEOUT limits the time to find the chief. After that, a worker waits as long as the
    chief is alive, because the chief may have to make the data set first.

    Returns:
        The message; None where the run is finished already.

    Raises:
        RendezvousTimeout: The chief was not found.
    """
    port, timeout_seconds = settings.rendezvous_port, settings.rendezvous_timeout
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        with (
            contextlib.suppress(OSError, ValueError),
            socket.create_connection((cluster.chief_host, port), timeout=2) as chief,
        ):
            enable_keepalive(chief)
            chief.settimeout(None)
            chief.sendall(f"{cluster.rank}\n".encode())
            if line := _read_line(chief):
                return StartMessage.from_json(json.loads(line))
        time.sleep(POLL_INTERVAL_SECONDS)
    raise RendezvousTimeout(
        f"worker {cluster.rank} received no start message from the chief ({cluster.workers[0]},"
        f" RENDEZVOUS_PORT={port}) within RENDEZVOUS_TIMEOUT={timeout_seconds:g} seconds"
    )


def create_listener(cluster: ClusterSpec, port: int) -> socket.socket:
    """Return a listening socket; it accepts only this machine where all workers run on it."""
    host = "127.0.0.1" if cluster.chief_host in ("127.0.0.1", "localhost") else ""
    return socket.create_server((host, port), backlog=max(cluster.size, 16))


def enable_keepalive(peer: socket.socket) -> None:
    """Make the loss of the peer's machine an error within 15 seconds."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    timeout_seconds = KEEPALIVE_IDLE_SECONDS + KEEPALIVE_INTERVAL_SECONDS * KEEPALIVE_PROBES
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
        # No keepalive probes are sent while sent data is not acknowledged.
        ("TCP_USER_TIMEOUT", 1000 * timeout_seconds),
    ):
        if hasattr(socket, name):  # macOS has other names, or none
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _read_line(peer: socket.socket) -> bytes:
    """Read up to a line break; return nothing where the peer closed before one."""
    line = b""
    while not line.endswith(b"\n"):
        if len(line) > MAX_LINE_BYTES:
            raise ValueError(f"a message is at most {MAX_LINE_BYTES} bytes long")
        received = peer.recv(4096)
        if not received:
            return b""
        line += received
    return line


def _is_closed(peer: socket.socket) -> bool:
    """Return True where the peer has closed; before the start message it sends nothing more."""
    peer.setblocking(False)
    try:
        return peer.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        peer.setblocking(True)
