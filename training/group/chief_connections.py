"""The connections of the chief to the other workers, in a thread of their own.

No peer holds up another one: nothing blocks, a connection has one deadline for its whole handshake,
and the number of those without a finished handshake is limited.
"""

import contextlib
import resource
import selectors
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from training.group import peer_watch
from training.group.channel import (
    HANDSHAKE_TIMEOUT_SECONDS,
    ChiefHandshake,
    Message,
    PeerChannel,
    ProtocolError,
)
from training.group.fingerprint import Fingerprint
from training.group.peer_watch import BEAT, BYE, END, HELLO
from training.group.sockets import enable_keepalive

MIN_HALF_OPEN = 128
"""Connections without a finished handshake; beyond that, the oldest one is dropped."""

_SPARE_DESCRIPTORS = 512


@dataclass(eq=False)
class Connection:
    """A connection. `joined` once its rank and fingerprint are known; `member` after the start."""

    channel: PeerChannel
    handshake: ChiefHandshake
    deadline: float
    rank: int = -1
    fingerprint: Fingerprint = field(default_factory=dict)
    joined: bool = False
    member: bool = False
    silence_seconds: float = 0.0
    stage: str = "starting"


class Handler(Protocol):
    """Decides what happens; called in the thread, with the lock."""

    def on_join(self, peer: Connection) -> None:
        """Take note of a worker that has joined."""

    def on_loss(self, peer: Connection, reason: str) -> None:
        """Handle the loss of a worker that had joined."""

    def on_end(self, peer: Connection, message: Message) -> None:
        """Handle a worker's message that it ends with an error."""

    def on_failure(self, error: Exception) -> None:
        """Handle a bug that ends the thread."""

    def heartbeat(self, peer: Connection) -> Message | None:
        """Return the message that proves to a worker that the chief is alive."""


class ChiefConnections:
    """Accepts connections, authenticates them, and exchanges heartbeats, from now until `close`.

    Args:
        listener: The listening socket.
        key: Secret of the group.
        size: Number of workers.
        peer_timeout: Silence in seconds after which a member is lost.
        handler: Decides what happens.

    Attributes:
        changed: Lock of all connections, notified when they may have changed.
    """

    def __init__(
        self, listener: socket.socket, key: bytes, size: int, peer_timeout: int, handler: Handler
    ) -> None:
        self._listener, self._key, self._size = listener, key, size
        self._peer_timeout, self._handler = peer_timeout, handler
        self.changed = threading.Condition()
        self._peers: dict[socket.socket, Connection] = {}
        self._next_beat = 0.0
        self._close_time: float | None = None
        _allow_connections(size)
        listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="rendezvous", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close all connections, once the others had time to read the last messages."""
        with self.changed:
            self._close_time = time.monotonic() + peer_watch.LINGER_SECONDS
        self._thread.join(3 * peer_watch.LINGER_SECONDS)

    # The following methods need the lock.

    def joined(self) -> list[Connection]:
        """Return the workers that have joined."""
        return [peer for peer in self._peers.values() if peer.joined]

    def send(self, peer: Connection, message: Mapping[str, object] | None = None) -> None:
        """Send a message, if any, and what is left of earlier ones."""
        try:
            if message is None:
                peer.channel.flush()
            else:
                peer.channel.send(message)
        except OSError as error:
            self._lose(peer, f"its connection is lost ({error})")

    def stop_listening(self) -> None:
        """Accept no more connections."""
        self._selector.unregister(self._listener)
        self._listener.close()
        for peer in [one for one in self._peers.values() if not one.joined]:
            self._drop(peer)

    def _run(self) -> None:
        clock = peer_watch.PatientClock()
        try:
            while self._close_time is None or self._is_draining():
                ready = self._selector.select(peer_watch.POLL_SECONDS)
                with self.changed:
                    for key, _ in ready:
                        self._take(key.fileobj)
                    self._tick(clock.elapsed())
                    self.changed.notify_all()
        except Exception as error:
            with self.changed:
                self._handler.on_failure(error)
        finally:
            with self.changed:
                for peer in self._peers.values():
                    peer.channel.close()
                self._peers.clear()
                self._listener.close()
                self._selector.close()

    def _take(self, ready: object) -> None:
        if ready is self._listener:
            self._accept()
        elif peer := next(
            (one for one in self._peers.values() if one.channel.socket is ready), None
        ):
            self._receive(peer)

    def _accept(self) -> None:
        for _ in range(MIN_HALF_OPEN):
            try:
                channel = PeerChannel(self._listener.accept()[0])
            except BlockingIOError:
                return
            except OSError:  # no descriptors are left
                self._drop_oldest(0)
                return
            try:
                handshake = ChiefHandshake(channel, self._key)
            except OSError:
                channel.close()
                continue
            deadline = time.monotonic() + HANDSHAKE_TIMEOUT_SECONDS
            self._peers[channel.socket] = Connection(channel, handshake, deadline)
            self._selector.register(channel.socket, selectors.EVENT_READ)
            self._drop_oldest(max(MIN_HALF_OPEN, 2 * self._size))

    def _drop_oldest(self, allowed: int) -> None:
        half_open = [peer for peer in self._peers.values() if not peer.joined]
        if len(half_open) > allowed:
            self._drop(half_open[0])

    def _receive(self, peer: Connection) -> None:
        reason = "its process or machine has ended"
        try:
            peer.channel.read()
            while peer.channel.socket in self._peers and (message := peer.channel.next()):
                peer.silence_seconds = 0.0
                if peer.joined:
                    self._handle(peer, message)
                else:
                    self._join(peer, message)
        except (OSError, ProtocolError) as error:
            peer.channel.is_closed, reason = True, str(error)
        if peer.channel.is_closed:
            self._lose(peer, f"its connection closed ({reason})")

    def _join(self, peer: Connection, message: Message) -> None:
        """Take a message of a connection that has not joined yet."""
        if peer.rank < 0:
            rank = peer.handshake.accept(message)
            if not 0 < rank < self._size:
                raise ProtocolError(f"there is no worker {rank}")
            peer.rank = rank
            return
        found = message.get("fingerprint")
        if message.get("kind") != HELLO or not isinstance(found, dict):
            raise ProtocolError("it did not introduce itself")
        peer.fingerprint = {str(name): str(value) for name, value in found.items()}
        enable_keepalive(peer.channel.socket, self._peer_timeout)
        for earlier in [one for one in self.joined() if one.rank == peer.rank]:
            self._lose(earlier, "a new process has taken its place")
        peer.joined = True
        self._handler.on_join(peer)

    def _handle(self, peer: Connection, message: Message) -> None:
        kind = message.get("kind")
        if kind == BEAT:
            peer.stage = str(message.get("stage", ""))
        elif kind in (BYE, END):
            self._drop(peer)
            if kind == END:
                self._handler.on_end(peer, message)

    def _tick(self, elapsed_seconds: float) -> None:
        now = time.monotonic()
        if is_beat := now >= self._next_beat:
            self._next_beat = now + peer_watch.HEARTBEAT_SECONDS
        for peer in [*self._peers.values()]:
            if not peer.joined:
                if now > peer.deadline:
                    self._drop(peer)
                continue
            peer.silence_seconds += elapsed_seconds
            limit = self._peer_timeout if peer.member else peer_watch.WAITING_SILENCE_SECONDS
            if peer.silence_seconds > limit:
                self._lose(peer, f"no sign of life for {limit:g} seconds (PEER_TIMEOUT)")
            else:
                self.send(peer, self._handler.heartbeat(peer) if is_beat else None)

    def _lose(self, peer: Connection, reason: str) -> None:
        if self._drop(peer) and peer.joined:
            self._handler.on_loss(peer, reason)

    def _drop(self, peer: Connection) -> bool:
        """Close a connection; return False where that has happened before."""
        if self._peers.pop(peer.channel.socket, None) is None:
            return False
        self._selector.unregister(peer.channel.socket)
        peer.channel.close()
        return True

    def _is_draining(self) -> bool:
        """Return True while the others may still read their last messages."""
        with self.changed:
            if self._close_time is None or time.monotonic() > self._close_time:
                return False
            for peer in self.joined():
                if not peer.channel.has_unsent:
                    with contextlib.suppress(OSError):
                        peer.channel.socket.shutdown(socket.SHUT_WR)
            return bool(self.joined())


def _allow_connections(workers: int) -> None:
    """Raise the limit of open files, if the system allows, to that of this many workers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4 * workers + _SPARE_DESCRIPTORS
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (min(wanted, hard) if hard > 0 else wanted, hard)
            )


def select_group(present: Sequence[int], shards: int) -> Sequence[int]:
    """Return the ranks that can form a group: whole groups of workers that share states."""
    return present[: len(present) // shards * shards]
