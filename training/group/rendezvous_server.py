"""The chief's side of the rendezvous, and of the heartbeats after it: see rendezvous.py."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from common.errors import PeerLost, QfleetError, RendezvousTimeout, RunError
from common.events import log_event
from common.settings import Settings
from training.cluster.spec import ClusterSpec
from training.group import peer_watch
from training.group.channel import Message
from training.group.chief_connections import ChiefConnections, Connection, select_group
from training.group.fingerprint import Fingerprint, describe_differences
from training.group.peer_watch import BEAT, BYE, START, WAITING, GroupMember
from training.group.rendezvous import StartMessage
from training.group.secret import Secret
from training.group.sockets import create_listener

log = logging.getLogger("qfleet")

MISMATCH_LINGER_SECONDS = 10.0
"""Time for the remaining workers to connect and receive the sentence on a mismatch."""

SECRET_CHECK_SECONDS = 5.0
"""Interval at which the waiting chief makes sure that its secret is in storage."""


class RendezvousServer(GroupMember):
    """Lets the other workers join, starts them together, and watches them until the end.

    It listens at once, so that workers can connect early. With one worker it does nothing.

    Args:
        cluster: All workers.
        settings: All settings.
        secret: Where this start's secret is written.
        fingerprint: What all workers must have in common.
        on_loss: Called once if a worker is lost after the start.
        stage: Returns what this process does, for the others.

    Raises:
        RendezvousTimeout: The port is taken, for example by workers that are just leaving.
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
        self._cluster, self._secret, self._fingerprint = cluster, secret, fingerprint
        self._limits, self._training = settings.fault_tolerance, settings.training
        self._min_workers = settings.training.min_workers or cluster.size
        self._stage = stage
        self._members: Sequence[int] = ()
        self._mismatch_seconds = 0.0  # when the workers were found to differ
        self._is_over = False  # from then on, no loss matters
        self._failure: Exception | None = None
        self._connections: ChiefConnections | None = None
        if cluster.size == 1:
            return
        port = self._limits.rendezvous_port
        try:
            listener = create_listener(cluster, port)
        except OSError as error:
            raise RendezvousTimeout(
                f"the chief can't listen on RENDEZVOUS_PORT={port} for the other workers:"
                f" {error.strerror}"
            ) from None
        self.group_secret = secret.write()
        self._connections = ChiefConnections(
            listener, self.group_secret, cluster.size, self._limits.peer_timeout, self
        )

    @property
    def limit_seconds(self) -> float:
        """Longest time to wait for the other workers."""
        elastic = self._training.is_elastic * self._limits.elastic_after
        return max(self._limits.rendezvous_timeout, elastic)

    def start_all(
        self,
        message: StartMessage | None,
        timeout_seconds: float | None = None,
        check_missing: Callable[[Sequence[int]], None] = lambda ranks: None,
    ) -> StartMessage | None:
        """Wait until all other workers are connected at once, then send them the message.

        With MIN_WORKERS, start without the missing ones after ELASTIC_AFTER seconds.

        Args:
            message: The message; None where the run is finished already.
            timeout_seconds: Time to wait, `limit_seconds` by default.
            check_missing: Called with the missing ranks every few seconds; it may raise.

        Returns:
            The message with the members of the group.

        Raises:
            RendezvousTimeout: Names the missing workers.
            RunError: The workers differ in what they must have in common.
        """
        connections = self._connections
        if connections is None:
            return replace(message, members=(0,)) if message else None
        with peer_watch.WaitLog("the other workers", ()) as wait:
            started = next_check = time.monotonic()
            limit = self.limit_seconds if timeout_seconds is None else timeout_seconds
            while not self._is_ready(message, wait, time.monotonic() - started, limit):
                if time.monotonic() > next_check:
                    self._secret.ensure()
                    check_missing(wait.missing)
                    next_check = time.monotonic() + SECRET_CHECK_SECONDS
                with connections.changed:
                    connections.changed.wait(peer_watch.POLL_SECONDS)
        if len(self._members) == self._cluster.size:
            self._secret.delete(others=True)
        return replace(message, members=tuple(self._members)) if message else None

    def meet(self) -> None:
        """Start all workers without a run; raises like `start_all`."""
        self.start_all(StartMessage("", 1, "", "", None))

    def close(self) -> None:
        """Close all connections, after the last messages are sent."""
        if self._connections:
            self._is_over = True
            self._connections.close()
            self._secret.delete()

    def _is_ready(
        self,
        message: StartMessage | None,
        wait: peer_watch.WaitLog,
        waited_seconds: float,
        limit_seconds: float,
    ) -> bool:
        """Start the workers if enough are connected; return whether they are started."""
        assert self._connections
        with self._connections.changed:
            if self._failure:
                raise self._failure
            missing, group = self._missing(), self._group()
            wait.what, wait.missing = self._cluster.describe(missing), missing
            if message and (mismatch := describe_differences(self._fingerprints())):
                # The others get the sentence too, if they come soon.
                self._mismatch_seconds = self._mismatch_seconds or waited_seconds
                if missing and waited_seconds < self._mismatch_seconds + MISMATCH_LINGER_SECONDS:
                    return False
                raise self._refuse(mismatch)
            is_enough = message is not None and len(group) >= self._min_workers
            if not missing or (is_enough and waited_seconds >= self._limits.elastic_after):
                self._start(message, group)
                return True
        if waited_seconds > limit_seconds:
            raise RendezvousTimeout(
                f"{self._cluster.describe(missing)} did not connect within"
                f" RENDEZVOUS_TIMEOUT={limit_seconds:g} seconds"
            )
        return False

    def _refuse(self, mismatch: str) -> RunError:
        error = RunError(mismatch)
        self._left = True
        self._send_last(peer_watch.verdict_message(error))
        return error

    def _start(self, message: StartMessage | None, group: Sequence[int]) -> None:
        """Send the message to the workers of the group."""
        assert self._connections
        if message is None:
            self._is_over = True
        self._members = group
        content = replace(message, members=tuple(group)).to_json() if message else None
        for peer in self._connections.joined():
            if peer.rank in group:
                # A worker that dies from here on is noticed when its connection closes.
                peer.member, peer.silence_seconds = message is not None, 0.0
                self._connections.send(peer, {"kind": START, "message": content})
        if missing := self._missing():
            log_event(
                "elastic_start",
                f"Starting {len(group)} workers (MIN_WORKERS={self._min_workers}) after"
                f" ELASTIC_AFTER={self._limits.elastic_after} seconds without"
                f" {self._cluster.describe(missing)}; late workers join at the next restart",
                level=logging.WARNING,
                members=[*group],
                missing=missing,
            )
        else:
            self._connections.stop_listening()

    def _send_last(self, message: Message) -> None:
        self._is_over = True
        if not self._connections:
            return
        with self._connections.changed:
            for peer in self._connections.joined():
                is_late = bool(self._members) and not peer.member
                if not is_late:
                    self._connections.send(peer, message)
                elif message["kind"] == BYE:  # the run is finished
                    self._connections.send(peer, {"kind": START, "message": None})

    # Handler of the connections.

    def on_join(self, peer: Connection) -> None:
        """Warn of a late worker that the next start will refuse."""
        if self._members:
            log.info(f"{self._cluster.describe([peer.rank])} is back and joins at the next restart")
            if differences := describe_differences(self._fingerprints([peer])):
                log.warning(f"the next start will fail: {differences}")

    def on_loss(self, peer: Connection, reason: str) -> None:
        """End all workers if a member is lost."""
        if peer.member:
            who = self._cluster.describe([peer.rank])
            stage = f" in stage '{peer.stage}'" if peer.stage else ""
            self._end_all(PeerLost(f"{who} is lost{stage}: {reason}; all workers restart"))

    def on_end(self, peer: Connection, message: Message) -> None:
        """End all workers if a member ends with an error."""
        if peer.member:
            self._end_all(peer_watch.error_of_end(message, self._cluster.describe([peer.rank])))

    def on_failure(self, error: Exception) -> None:
        """Neither start nor train without the connections."""
        self._failure = error
        self._end_all(PeerLost(f"the chief's connections failed: {error!r}"))

    def heartbeat(self, peer: Connection) -> Message | None:
        """Return what the chief does, or what the worker waits for."""
        if self._is_over:
            return None
        if peer.member:
            return {"kind": BEAT, "stage": self._stage()}
        if self._members:
            return {"kind": WAITING, "what": "which trains without it until the next restart"}
        missing = self._missing()
        stage = f"which waits for {self._cluster.describe(missing)}" if missing else "which starts"
        return {"kind": WAITING, "what": f"{stage} (stage: {self._stage()})", "missing": missing}

    def _end_all(self, error: QfleetError) -> None:
        if self._is_over or not self._connections:
            return
        self._is_over = True
        for peer in self._connections.joined():
            if peer.member:
                self._connections.send(peer, peer_watch.verdict_message(error))
        self._lose_group(error)

    def _group(self) -> Sequence[int]:
        assert self._connections
        present = sorted({0, *(peer.rank for peer in self._connections.joined())})
        return select_group(present, self._training.state_shards)

    def _missing(self) -> list[int]:
        present = self._members
        if not present and self._connections:
            present = [0, *(peer.rank for peer in self._connections.joined())]
        return [rank for rank in range(self._cluster.size) if rank not in present]

    def _fingerprints(self, peers: Sequence[Connection] | None = None) -> dict[int, Fingerprint]:
        assert self._connections
        joined = self._connections.joined() if peers is None else peers
        return {0: self._fingerprint} | {peer.rank: peer.fingerprint for peer in joined}
