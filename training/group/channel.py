"""Authenticated lines of JSON between the chief and a worker, without blocking.

Both sides know a secret (secret.py), which never travels. The handshake:

    chief  -> {"qfleet": 2, "nonce": N}
    worker -> {"nonce": M, "rank": R, "proof": HMAC(secret, worker, N, M, R)}
    chief  -> {"proof": HMAC(secret, chief, N, M, R)}

So each side proves that it knows the secret, and neither can be replayed. Each later line starts
with an HMAC over its number and content, under a key of this connection. A peer without
the secret receives a nonce only.
"""

import hmac
import json
import secrets
import select
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

PROTOCOL = 2
"""Version of the messages; sides with other versions do not connect."""

HANDSHAKE_TIMEOUT_SECONDS = 5.0
"""Time for the whole handshake of a connection, whatever it sends meanwhile."""

MAX_HANDSHAKE_BYTES = 512
MAX_LINE_BYTES = 65_536
MAX_UNSENT_BYTES = 2 * MAX_LINE_BYTES
NONCE_BYTES = 16

CHIEF, WORKER = "chief", "worker"

Message = dict[str, Any]


class ProtocolError(Exception):
    """The other side is not a worker of this group, or of another version."""


class PeerChannel:
    """A connection that sends and receives messages. It does not block; any thread may send.

    Threads that share it need a lock.

    Args:
        connection: The connected socket.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.is_closed = False
        self._received, self._unsent = bytearray(), bytearray()
        self._sending = threading.RLock()  # the main thread sends the last message
        self._key = b""
        self._own, self._other = "", ""
        self._sent_count = self._taken_count = 0

    @property
    def has_unsent(self) -> bool:
        """True while the other side has not taken all that was sent."""
        return bool(self._unsent)

    @property
    def unread(self) -> bytes:
        """The bytes that have arrived after the last message."""
        return bytes(self._received)

    def secure(self, key: bytes, own_role: str) -> None:
        """Sign all later messages, and accept signed ones only."""
        self._key, self._own = key, own_role
        self._other = WORKER if own_role == CHIEF else CHIEF

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message, now or in a later `flush`.

        Raises:
            OSError: The connection is lost, or the other side does not read.
        """
        line = json.dumps(message)
        with self._sending:
            if self._key:
                line = f"{_sign(self._key, self._own, self._sent_count, line)} {line}"
                self._sent_count += 1
            self._unsent += line.encode() + b"\n"
            self.flush()

    def flush(self) -> None:
        """Send as much as the connection takes; raises like `send`."""
        with self._sending:
            while self._unsent:
                try:
                    sent = self.socket.send(self._unsent)
                except BlockingIOError:
                    break
                del self._unsent[:sent]
            unsent = len(self._unsent)
        if unsent > MAX_UNSENT_BYTES:
            raise ConnectionError("it does not read what it is sent")

    def read(self) -> None:
        """Take in what has arrived; `is_closed` is True where the other side has closed.

        Raises:
            OSError: The connection is lost.
        """
        try:
            data = self.socket.recv(MAX_LINE_BYTES)
        except BlockingIOError:
            return
        self._received += data
        self.is_closed = not data

    def next(self) -> Message | None:
        """Return the next message that has arrived completely; None where there is none.

        Raises:
            ProtocolError: A message is too long, not signed, or not JSON.
        """
        limit = MAX_LINE_BYTES if self._key else MAX_HANDSHAKE_BYTES
        end = self._received.find(b"\n", 0, limit)
        if end < 0:
            if len(self._received) >= limit:
                raise ProtocolError(f"a message has more than {limit} bytes")
            return None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        try:
            text = line.decode()
            if self._key:
                text = self._verified(text)
            message = json.loads(text)
        except (ValueError, RecursionError):
            raise ProtocolError("a message is not JSON") from None
        if not isinstance(message, dict):
            raise ProtocolError("a message is not an object")
        return message

    def close(self) -> None:
        """Close the connection."""
        self.is_closed = True
        self.socket.close()

    def _verified(self, line: str) -> str:
        signature, _, text = line.partition(" ")
        expected = _sign(self._key, self._other, self._taken_count, text)
        if not hmac.compare_digest(signature.encode(), expected.encode()):
            raise ProtocolError("a message has a wrong signature")
        self._taken_count += 1
        return text


class ChiefHandshake:
    """The chief's side of a handshake.

    Args:
        channel: The new connection.
        secret: Secret of the group.
    """

    def __init__(self, channel: PeerChannel, secret: bytes) -> None:
        self._channel, self._secret = channel, secret
        self._nonce = secrets.token_hex(NONCE_BYTES)
        channel.send({"qfleet": PROTOCOL, "nonce": self._nonce})

    def accept(self, message: Message) -> int:
        """Verify a worker's proof, answer it, and return the worker's rank.

        Raises:
            ProtocolError: The other side does not know the secret.
            OSError: The connection is lost.
        """
        nonce, rank, proof = (message.get(name) for name in ("nonce", "rank", "proof"))
        if type(rank) is not int or type(nonce) is not str or type(proof) is not str:
            raise ProtocolError("the handshake is incomplete")
        words = (self._nonce, nonce, rank)
        expected = _sign(self._secret, WORKER, *words)
        if not hmac.compare_digest(proof.encode(), expected.encode()):
            raise ProtocolError("the other side does not know the secret")
        self._channel.send({"proof": _sign(self._secret, CHIEF, *words)})
        self._channel.secure(_sign(self._secret, "session", *words).encode(), CHIEF)
        return rank


def connect_to_chief(
    address: tuple[str, int], rank: int, secret: bytes, timeout_seconds: float
) -> PeerChannel:
    """Connect to the chief as a worker.

    Args:
        address: Host and port of the chief.
        rank: Rank of this worker.
        secret: Secret of the group.
        timeout_seconds: Time for the whole handshake.

    Raises:
        OSError: There is no connection in time.
        ProtocolError: The other side does not know the secret, or has another version.
    """
    deadline = time.monotonic() + timeout_seconds
    channel = PeerChannel(socket.create_connection(address, timeout=timeout_seconds))
    try:
        channel.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        greeting = receive(channel, deadline)
        if greeting.get("qfleet") != PROTOCOL or type(greeting.get("nonce")) is not str:
            raise ProtocolError("the other side is not a chief of this version")
        words = (greeting["nonce"], secrets.token_hex(NONCE_BYTES), rank)
        proof = _sign(secret, WORKER, *words)
        channel.send({"nonce": words[1], "rank": rank, "proof": proof})
        answer = receive(channel, deadline).get("proof")
        expected = _sign(secret, CHIEF, *words)
        if type(answer) is not str or not hmac.compare_digest(answer.encode(), expected.encode()):
            raise ProtocolError("the other side does not know the secret")
        channel.secure(_sign(secret, "session", *words).encode(), WORKER)
    except BaseException:
        channel.close()
        raise
    return channel


def receive(channel: PeerChannel, deadline: float) -> Message:
    """Wait for the next message.

    Args:
        channel: The connection.
        deadline: `time.monotonic()` until which to wait.

    Raises:
        TimeoutError: There is none in time.
        OSError: The connection is lost.
        ProtocolError: See `PeerChannel.next`.
    """
    while (message := channel.next()) is None:
        if channel.is_closed:
            raise ConnectionError("the connection was closed")
        seconds = deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError("no answer")
        waiting_to_send = [channel.socket] if channel.has_unsent else []
        readable, writable, _ = select.select([channel.socket], waiting_to_send, [], seconds)
        if writable:
            channel.flush()
        if readable:
            channel.read()
    return message


def _sign(key: bytes, *words: object) -> str:
    # JSON keeps the words apart.
    return hmac.new(key, json.dumps(words).encode(), "sha256").hexdigest()
