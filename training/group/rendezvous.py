"""The rendezvous: every worker connects to the chief before TensorFlow's strategy is built.

Without it, a restarted worker that reaches a process of the previous attempt, or a stale address of
a peer, stalls for half a minute, because gRPC resolves a name again only every 30 s. Here, each try
resolves the chief's address again. The order of messages on a connection (channel.py):

    handshake    both prove that they know the secret in the run's folder
    worker       hello: what all workers must have in common
    chief        waiting, every 2 s: its stage, or the missing workers
    chief        start: attempt, data, checkpoint and members, to all members at once
    both         beat, every 2 s, until one side sends its last message:
                 bye, after the last barrier; or end, with the exit code and the sentence

The connections stay open, so that a lost or stopped worker is noticed at every moment. This module
is the side of the other workers; rendezvous_server.py is the chief's.
"""

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Self

from common.errors import PeerLost, RendezvousTimeout, RunError
from common.settings import Settings
from training.cluster.spec import ClusterSpec
from training.group import peer_watch
from training.group.channel import (
    HANDSHAKE_TIMEOUT_SECONDS,
    Message,
    PeerChannel,
    ProtocolError,
    connect_to_chief,
)
from training.group.fingerprint import Fingerprint
from training.group.peer_watch import BEAT, BYE, END, HELLO, START, WAITING, GroupMember
from training.group.secret import Secret
from training.group.sockets import enable_keepalive

FINISHED_CHECK_SECONDS = 5.0
"""Interval at which a worker without a chief looks whether the run is finished."""


@dataclass(frozen=True)
class StartMessage:
    """The message that the chief sends to every worker at the rendezvous.

    Attributes:
        run: Name of the run.
        attempt: Number of this attempt, counted from 1.
        data: Folder of the data set.
        data_fingerprint: SHA-256 of the data set.
        checkpoint: Step of the checkpoint that all workers resume from; None for none.
        members: Ranks of the workers that start, in order; they get new ranks from 0.
    """

    run: str
    attempt: int
    data: str
    data_fingerprint: str
    checkpoint: int | None
    members: tuple[int, ...] = ()

    @classmethod
    def from_json(cls, content: Message) -> Self:
        """Read a message as it was received."""
        return cls(**{**content, "members": tuple(content["members"])})

    def to_json(self) -> Message:
        """Return the message as it is sent."""
        return asdict(self)


class RendezvousClient(GroupMember):
    """Joins the rendezvous on a worker other than the chief, and watches the chief until the end.

    Args:
        cluster: All workers, and the rank of this one.
        settings: All settings.
        secret: Where the chief's secret is read.
        fingerprint: What all workers must have in common.
        on_loss: Called once if the group can't continue after the start.
        stage: Returns what this process does, for the others.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        settings: Settings,
        secret: Secret,
        fingerprint: Fingerprint,
        on_loss: peer_watch.OnLoss,
        stage: peer_watch.Stage = lambda: "training",
    ) -> None:
        super().__init__(on_loss)
        self._cluster, self._limits = cluster, settings.fault_tolerance
        self._secret, self._fingerprint = secret, fingerprint
        self._stage = stage
        self._chief = f"the chief ({cluster.workers[0]})"
        self._chief_stage = ""
        self._alive_time = 0.0  # of the chief's last sign of life, before the start
        self._lock = threading.Lock()
        self._channel: PeerChannel | None = None  # after the start
        self._thread: threading.Thread | None = None
        self._close_time: float | None = None
        self._is_over = False  # from then on, no loss matters

    def join(self, is_finished: Callable[[], bool] = lambda: False) -> StartMessage | None:
        """Connect to the chief and wait for its start message.

        RENDEZVOUS_TIMEOUT limits the time without a sign of life of the chief. While it is alive, a
        worker waits, because the chief may have to make the data set first, or because it trains
        without this worker.

        Args:
            is_finished: Returns whether the run is finished, so that no chief will come.

        Returns:
            The message; None where the run is finished already.

        Raises:
            RendezvousTimeout: The chief was not found, or is silent.
            RunError: The chief has ended all workers permanently.
        """
        timeout_seconds = self._limits.rendezvous_timeout
        self._alive_time = checked = time.monotonic()
        reason = ""
        with peer_watch.WaitLog(self._chief, (0,)) as wait:
            while (now := time.monotonic()) < self._alive_time + timeout_seconds:
                try:
                    return self._try(wait)
                except (OSError, ProtocolError) as error:
                    reason = str(error)
                    wait.what, wait.missing = f"{self._chief}: {reason}", (0,)
                if now > checked + FINISHED_CHECK_SECONDS:
                    checked = now
                    if is_finished():
                        return None
                time.sleep(self._secret.poll_seconds)
        raise RendezvousTimeout(
            f"worker {self._cluster.rank} received no start message from {self._chief}"
            f" (RENDEZVOUS_PORT={self._limits.rendezvous_port}) within"
            f" RENDEZVOUS_TIMEOUT={timeout_seconds:g} seconds: {reason}"
        )

    def meet(self) -> None:
        """Start with all workers without a run; raises like `join`."""
        self.join()

    def close(self) -> None:
        """Close the connection, after the last message is sent."""
        with self._lock:
            self._is_over = True
            self._close_time = time.monotonic() + peer_watch.LINGER_SECONDS
        if self._thread:
            self._thread.join(3 * peer_watch.LINGER_SECONDS)

    def _try(self, wait: peer_watch.WaitLog) -> StartMessage | None:
        """Connect once, and wait for the start message while the chief is alive."""
        secret = self._secret.read()
        if secret is None:
            raise ConnectionError(f"it has not written {self._secret}")
        address = (self._cluster.chief_host, self._limits.rendezvous_port)
        seconds = min(HANDSHAKE_TIMEOUT_SECONDS, self._limits.rendezvous_timeout)
        channel = connect_to_chief(address, self._cluster.rank, secret, seconds)
        with contextlib.ExitStack() as on_error:
            on_error.callback(channel.close)
            enable_keepalive(channel.socket, self._limits.peer_timeout)
            channel.send({"kind": HELLO, "fingerprint": dict(self._fingerprint)})
            content = self._wait_for_start(channel, wait)
            if content is None:
                return None
            message = StartMessage.from_json(content)
            on_error.pop_all()
        self._channel, self.group_secret = channel, secret
        thread = threading.Thread(
            target=self._watch, args=(channel,), name="heartbeat", daemon=True
        )
        thread.start()
        self._thread = thread  # only now, since `close` joins it
        return message

    def _wait_for_start(self, channel: PeerChannel, wait: peer_watch.WaitLog) -> Message | None:
        limit = min(peer_watch.WAITING_SILENCE_SECONDS, self._limits.rendezvous_timeout)
        clock, silence, next_beat = peer_watch.PatientClock(), 0.0, 0.0
        self._alive_time = time.monotonic()
        while True:
            silence += clock.elapsed()
            while message := channel.next():
                silence, self._alive_time = 0.0, time.monotonic()
                kind = message.get("kind")
                if kind == START:
                    content: Message | None = message["message"]
                    return content
                if kind == END:
                    error = peer_watch.error_of_end(message, self._chief)
                    if isinstance(error, RunError):
                        raise error
                    raise ConnectionError(str(error))
                if kind == WAITING:
                    wait.what = f"{self._chief}, {message.get('what', '')}"
                    wait.missing = message.get("missing") or (0,)
            if channel.is_closed:
                raise ConnectionError("it closed the connection")
            if silence > limit:
                raise TimeoutError(f"no sign of life for {limit:g} seconds")
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + peer_watch.HEARTBEAT_SECONDS
                channel.send({"kind": BEAT, "stage": self._stage()})
            _take_in(channel, _wait(channel))

    # The thread after the start.

    def _watch(self, channel: PeerChannel) -> None:
        clock, silence, next_beat = peer_watch.PatientClock(), 0.0, 0.0
        limit = self._limits.peer_timeout
        while not self._is_drained(channel):
            try:
                is_readable = _wait(channel)
                with self._lock:
                    _take_in(channel, is_readable)
                    silence += clock.elapsed()
                    while message := channel.next():
                        silence = 0.0
                        self._handle(message)
                    if time.monotonic() >= next_beat and not self._is_over:
                        next_beat = time.monotonic() + peer_watch.HEARTBEAT_SECONDS
                        channel.send({"kind": BEAT, "stage": self._stage()})
            except Exception as error:  # a bug, too, must not leave this worker unwatched
                self._lose(f"its connection is lost ({error or error!r})")
                break
            if silence > limit:
                self._lose(f"no sign of life for {limit} seconds (PEER_TIMEOUT)")
                break
        else:
            if channel.is_closed:
                self._lose("its connection closed (its process or machine has ended)")
        with self._lock:
            channel.close()

    def _handle(self, message: Message) -> None:
        kind = message.get("kind")
        if kind == BEAT:
            self._chief_stage = str(message.get("stage", ""))
        elif kind == BYE:
            self._is_over = True
        elif kind == END and not self._is_over:
            self._is_over = True
            self._lose_group(peer_watch.error_of_end(message, self._chief))

    def _lose(self, reason: str) -> None:
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        stage = f" in stage '{self._chief_stage}'" if self._chief_stage else ""
        self._lose_group(PeerLost(f"{self._chief} is lost{stage}: {reason}; all workers restart"))

    def _is_drained(self, channel: PeerChannel) -> bool:
        """Return True where nothing is left to do on the connection."""
        with self._lock:
            if channel.is_closed or self._close_time is None:
                return channel.is_closed
            if not channel.has_unsent:
                with contextlib.suppress(OSError):
                    channel.socket.shutdown(socket.SHUT_WR)
            return time.monotonic() > self._close_time

    def _send_last(self, message: Message) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._is_over = True
            if self._channel and not self._channel.is_closed:
                self._channel.send(message)


def _wait(channel: PeerChannel) -> bool:
    """Wait for a moment; return True where something has arrived."""
    return bool(select.select([channel.socket], [], [], peer_watch.POLL_SECONDS)[0])


def _take_in(channel: PeerChannel, is_readable: bool) -> None:
    """Send what is left, and receive what has arrived."""
    channel.flush()
    if is_readable:
        channel.read()
