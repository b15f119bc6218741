"""The peer mesh: who connects, who is refused, and what happens if a worker is missing."""

import contextlib
import errno
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest

from common.errors import PeerLost, RendezvousTimeout, SettingsError
from qfleet import native
from tests.support.patience import seconds
from tests.support.ports import own_port, own_ports
from training.cluster.spec import ClusterSpec, loopback_addresses
from training.group import mesh
from training.group.mesh import PeerMesh, connect_at_addresses, connect_or_fall_back
from training.group.secret import GivenSecret
from training.group.sockets import (
    KEEPALIVE_IDLE_SECONDS,
    KEEPALIVE_INTERVAL_SECONDS,
    KEEPALIVE_PROBES,
)

pytestmark = pytest.mark.skipif(
    native.unavailable_reason() is not None, reason="there is no native kernel"
)

LIMIT = seconds(5)
SECRET, OTHER = b"0123456789abcdef0123456789abcdef", b"another secret of the same length"

Result = PeerMesh | BaseException | None


class WorkerThreads:
    """Workers as threads: they sum vectors as TensorFlow does, or listen at their addresses.

    Args:
        size: Number of workers.
        falls_back: Whether they sum their ports.
    """

    def __init__(self, size: int, falls_back: bool) -> None:
        self.size, self.falls_back = size, falls_back
        self.workers = loopback_addresses(own_ports(size))
        self.port = 0
        self.secrets: Mapping[int, bytes] = {}
        self.timeout = LIMIT
        self.ports: list[int] = []
        self.on_ports: Callable[[list[int]], None] = lambda ports: None
        self.found: list[Result] = []
        self._vectors: list[Sequence[float]] = [()] * size
        self._all = threading.Barrier(size, timeout=seconds(20))

    def run(self) -> list[Result]:
        """Return the mesh of each worker, or its error."""
        if not self.falls_back:
            self._use([int(one.rpartition(":")[2]) for one in self.workers[1:]])
        with ThreadPoolExecutor(self.size) as pool:
            self.found = list(pool.map(self._connect, range(self.size)))
        return self.found

    def _connect(self, rank: int) -> Result:
        cluster, secret = ClusterSpec(self.workers, rank), self.secrets.get(rank, SECRET)
        try:
            if not self.falls_back:
                return connect_at_addresses(cluster, secret, self.timeout)
            return connect_or_fall_back(
                cluster, secret, self.port, lambda own: self._all_reduce(rank, own), self.timeout
            )
        except (PeerLost, RendezvousTimeout, ValueError) as error:
            return error

    def _all_reduce(self, rank: int, values: Sequence[float]) -> np.ndarray:
        self._vectors[rank] = values
        self._all.wait()
        total = np.sum(np.array(self._vectors, float), axis=0)
        if len(total) > 1 and rank == 0:
            assert total[0] == 0, "the chief listens"
            self._use([int(port) for port in total[1 : self.size]])
        self._all.wait()
        return total

    def _use(self, ports: list[int]) -> None:
        self.ports = ports
        self.on_ports(ports)


@pytest.fixture
def start_workers() -> Iterator[Callable[..., WorkerThreads]]:
    """Create workers, and close their connections."""
    started: list[WorkerThreads] = []

    def start(size: int, falls_back: bool = True) -> WorkerThreads:
        started.append(WorkerThreads(size, falls_back))
        return started[-1]

    yield start
    for workers in started:
        for found in workers.found:
            if isinstance(found, PeerMesh):
                found.close()


both_ways = pytest.mark.parametrize("falls_back", [False, True])


@both_ways
@pytest.mark.parametrize("size", [2, 3, 5])
def test_all_pairs_connect_and_listeners_close(start_workers, size: int, falls_back: bool) -> None:
    workers = start_workers(size, falls_back)
    found = workers.run()
    for rank, own in enumerate(found):
        assert [number < 0 for number in own.file_descriptors] == [
            other == rank for other in range(size)
        ]
        for other, peer in own._peers.items():
            assert peer.getpeername() == found[other]._peers[rank].getsockname()
            assert peer.gettimeout() is None
    for port in workers.ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=1)


def test_vanished_machine_is_noticed_within_15_seconds(start_workers) -> None:
    own = start_workers(2).run()[0]
    assert KEEPALIVE_IDLE_SECONDS + KEEPALIVE_INTERVAL_SECONDS * KEEPALIVE_PROBES == 15
    (peer,) = own._peers.values()
    assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE_IDLE_SECONDS
    assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000


def test_late_listener_is_dialled_again(start_workers) -> None:
    workers = start_workers(2, falls_back=False)
    real = mesh.connect_to_chief
    refused = [ConnectionRefusedError("refused")]

    def dial(*args):
        if refused:
            raise refused.pop()
        return real(*args)

    with mock.patch.object(mesh, "connect_to_chief", dial):
        assert all(isinstance(one, PeerMesh) for one in workers.run())


@both_ways
@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_wrong_secret_is_refused(start_workers, caplog, falls_back: bool, wrong: int) -> None:
    workers = start_workers(3, falls_back)
    workers.secrets, workers.timeout = {wrong: OTHER}, 0.3
    kind = type(None) if falls_back else PeerLost
    assert [type(one) for one in workers.run()] == [kind] * 3
    assert falls_back == ("falling back" in caplog.text)


@both_ways
def test_missing_secret_is_an_error(start_workers, falls_back: bool) -> None:
    workers = start_workers(2, falls_back)
    workers.secrets = {0: b"", 1: b""}
    assert [type(one) for one in workers.run()] == [ValueError] * 2


@pytest.mark.parametrize("value", ["", "short"])
def test_missing_secret_of_the_environment_is_named(monkeypatch, value: str) -> None:
    monkeypatch.setenv("RENDEZVOUS_SECRET", value)
    secret = GivenSecret.from_environment()
    for take in (secret.read, secret.write):
        with pytest.raises(SettingsError, match="RENDEZVOUS_SECRET"):
            take()


GREETINGS = (
    b"",
    b"GET / HTTP/1.1\r\n\r\n",
    struct.pack("!QI", 1, 0),
    b'{"nonce": 1}\n',
    b'{"nonce": "a", "rank": 0, "proof": "b"}\n',
    b"[" * 4000,
)


@pytest.mark.parametrize("greeting", GREETINGS)
def test_unauthenticated_client_gets_a_nonce_only(start_workers, greeting: bytes) -> None:
    workers = start_workers(3)
    clients: list[socket.socket] = []

    def connect(ports: list[int]) -> None:
        for port in ports:
            clients.append(socket.create_connection(("127.0.0.1", port), timeout=LIMIT))
            clients[-1].sendall(greeting)

    workers.on_ports = connect
    assert all(isinstance(one, PeerMesh) for one in workers.run())
    for client in clients:
        received = b""
        with client, contextlib.suppress(ConnectionResetError):
            while part := client.recv(4096):
                received += part
        assert not received or json.loads(received).keys() == {"qfleet", "nonce"}


def test_dribbling_strangers_hold_up_no_handshake(start_workers) -> None:
    """Each keeps its connection open with a byte now and then."""
    workers = start_workers(3)
    done = threading.Event()
    threads: list[threading.Thread] = []

    def dribble(clients: list[socket.socket]) -> None:
        while not done.is_set():
            for client in clients:
                with contextlib.suppress(OSError):
                    client.send(b"\0")
            done.wait(0.3)

    with contextlib.ExitStack() as opened:

        def connect(ports: list[int]) -> None:
            for port in ports:
                clients = [
                    opened.enter_context(
                        socket.create_connection(("127.0.0.1", port), timeout=LIMIT)
                    )
                    for _ in range(15)  # the backlog has room for more
                ]
                threads.append(threading.Thread(target=dribble, args=(clients,)))
                threads[-1].start()

        workers.on_ports = connect
        found = workers.run()
        done.set()
        for thread in threads:
            thread.join()
    assert all(isinstance(one, PeerMesh) for one in found)


class Descriptorless:
    """A listener that accepts one connection, and then finds no descriptor."""

    def __init__(self, peer: socket.socket) -> None:
        self.own, self.other = socket.socketpair()
        self.accept = mock.Mock(side_effect=[(peer, None), OSError(errno.EMFILE, "EMFILE")])
        self.fileno, self.setblocking = self.own.fileno, self.own.setblocking
        self.other.send(b"readable")


def test_idle_strangers_do_not_keep_all_descriptors() -> None:
    own, stranger = socket.socketpair()
    listener = Descriptorless(own)
    with own, stranger, listener.own, listener.other:
        arrivals = mesh._Arrivals(listener, b"key")  # type: ignore[arg-type]
        for _ in range(2):
            assert not list(arrivals.next(LIMIT))
        assert b"nonce" in stranger.recv(4096)
        assert stranger.recv(1) == b""
        arrivals.close()


def test_taken_port_is_a_rendezvous_timeout(start_workers) -> None:
    workers = start_workers(2, falls_back=False)
    workers.timeout = 0.3
    with socket.create_server(("127.0.0.1", int(workers.workers[1].rpartition(":")[2]))):
        found = workers.run()
    assert [type(one) for one in found] == [PeerLost, RendezvousTimeout]


def test_pods_listen_on_the_rendezvous_port(start_workers) -> None:
    """Not the chief: late workers may connect there while others train."""
    workers = start_workers(2)
    workers.port = own_port()
    workers.workers = ("127.0.0.1:1", "localhost:2")  # each on a host of its own
    assert all(isinstance(one, PeerMesh) for one in workers.run())
    assert workers.ports == [workers.port]


def test_all_fall_back_where_one_has_no_kernel(
    start_workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = iter([None, "no kernel", None])
    monkeypatch.setattr(native, "unavailable_reason", lambda: next(reasons))
    assert start_workers(3).run() == [None] * 3


def test_all_fall_back_where_a_port_is_taken(start_workers) -> None:
    workers = start_workers(2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        workers.port = taken.getsockname()[1]
        workers.workers = ("127.0.0.2:1", "127.0.0.1:2")  # each on a host of its own, as pods are
        assert workers.run() == [None] * 2


def test_all_fall_back_with_a_reason_if_one_is_unreachable(start_workers, caplog) -> None:
    workers = start_workers(3)
    workers.timeout = 0.3
    dial = mesh._dial

    def fail(address: tuple[str, int], rank: int, *more: object) -> object:
        if rank == 1:
            raise OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
        return dial(address, rank, *more)  # type: ignore[arg-type]

    with mock.patch.object(mesh, "_dial", fail):
        assert workers.run() == [None] * 3
    assert os.strerror(errno.EHOSTUNREACH) in caplog.text
    assert caplog.records[-1].levelname == "WARNING"
