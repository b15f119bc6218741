"""Connections between workers, and the all-reduce over them."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from qfleet import native
from qfleet.tensorflow.runtime import tf
from tests.support.patience import seconds
from tests.support.ports import own_port
from training.cluster.spec import ClusterSpec, loopback_addresses
from training.group import peer_mesh
from training.group.peer_mesh import PeerMesh, connect_mesh
from training.group.sockets import (
    KEEPALIVE_IDLE_SECONDS,
    KEEPALIVE_INTERVAL_SECONDS,
    KEEPALIVE_PROBES,
)

pytestmark = pytest.mark.skipif(
    native.unavailable_reason() is not None, reason="there is no native kernel"
)

LIMIT = seconds(5)


class WorkerThreads:
    """Workers as threads, which sum vectors as TensorFlow's all-reduce does."""

    def __init__(self, size: int, meshes: list[PeerMesh]) -> None:
        self.size, self.meshes = size, meshes
        self.ports: list[int] = []
        self.on_ports: Callable[[list[int]], None] = lambda ports: None
        self._vectors: list[Sequence[float]] = [()] * size
        self._all = threading.Barrier(size, timeout=seconds(20))

    def _all_reduce(self, rank: int, values: Sequence[float]) -> np.ndarray:
        self._vectors[rank] = values
        self._all.wait()
        total = np.sum(np.array(self._vectors, float), axis=0)
        if len(total) > 1 and rank == 0:
            self.ports = [int(port) for port in total[: self.size]]
            self.on_ports(self.ports)
        self._all.wait()
        return total

    def run(self, hosts: tuple[str, ...] = (), port: int = 0) -> list[PeerMesh | None]:
        """Return the mesh of each worker."""
        workers = hosts or loopback_addresses(range(9001, 9001 + self.size))

        def one(rank: int) -> PeerMesh | None:
            return connect_mesh(
                ClusterSpec(workers, rank), port, lambda values: self._all_reduce(rank, values)
            )

        with ThreadPoolExecutor(self.size) as pool:
            found = list(pool.map(one, range(self.size)))
        self.meshes += [own for own in found if own is not None]
        return found


@pytest.fixture
def start_workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], WorkerThreads]]:
    """Create workers, and close their connections."""
    monkeypatch.setattr(peer_mesh, "CONNECT_TIMEOUT_SECONDS", LIMIT)
    meshes: list[PeerMesh] = []
    yield lambda size: WorkerThreads(size, meshes)
    for mesh in meshes:
        mesh.close()


@pytest.mark.parametrize("size", [2, 3, 5])
def test_all_pairs_connect_and_listeners_close(start_workers, size: int) -> None:
    workers = start_workers(size)
    found = workers.run()
    for rank, own in enumerate(found):
        assert own is not None
        assert [number < 0 for number in own.file_descriptors] == [
            other == rank for other in range(size)
        ]
        for other, peer in own._peers.items():
            whole = found[other]
            assert whole is not None
            assert peer.getpeername() == whole._peers[rank].getsockname()
    for port in workers.ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=1)


def test_vanished_machine_is_noticed_within_15_seconds(start_workers) -> None:
    own = start_workers(2).run()[0]
    assert own is not None
    assert KEEPALIVE_IDLE_SECONDS + KEEPALIVE_INTERVAL_SECONDS * KEEPALIVE_PROBES == 15
    (peer,) = own._peers.values()
    assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE_IDLE_SECONDS
    assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000


@pytest.mark.parametrize("greeting", [b"", b"GET / HTTP/1.1\r\n\r\n", bytes(8) + b"\0\0\0\1"])
def test_unauthenticated_client_is_rejected(start_workers, greeting: bytes) -> None:
    workers = start_workers(3)
    clients: list[socket.socket] = []

    def connect(ports: list[int]) -> None:
        for port in ports:
            clients.append(socket.create_connection(("127.0.0.1", port), timeout=LIMIT))
            clients[-1].sendall(greeting)

    workers.on_ports = connect
    found = workers.run()
    assert all(own is not None for own in found)
    for client in clients:
        client.settimeout(LIMIT)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
        client.close()


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
    assert all(own is not None for own in found)


def test_chief_of_pods_leaves_the_rendezvous_port_alone(start_workers) -> None:
    """Late workers may connect there while others train."""
    port, workers = own_port(), start_workers(2)
    found = workers.run(("127.0.0.1:1", "localhost:2"), port)  # each on a host of its own
    assert all(own is not None for own in found)
    assert workers.ports[0] != port
    assert workers.ports[1] == port


def test_all_fall_back_where_one_has_no_kernel(
    start_workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = iter([None, "no kernel", None])
    monkeypatch.setattr(native, "unavailable_reason", lambda: next(reasons))
    assert start_workers(3).run() == [None] * 3


def test_all_fall_back_where_a_port_is_taken(start_workers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        hosts = (f"127.0.0.1:{port}", f"127.0.0.2:{port}")  # each on a host of its own, as pods are
        assert start_workers(2).run(hosts, port) == [None] * 2


def test_all_fall_back_with_a_reason_if_one_is_unreachable(
    start_workers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(peer_mesh, "CONNECT_TIMEOUT_SECONDS", 0.5)
    connect = peer_mesh._connect_peers

    def fail(cluster: ClusterSpec, *more: object) -> None:
        if cluster.rank == 2:
            raise OSError("no route to host")
        connect(cluster, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(peer_mesh, "_connect_peers", fail)
    assert start_workers(3).run() == [None] * 3
    assert "worker 2: no route to host" in caplog.text
    assert caplog.records[-1].levelname == "WARNING"


@pytest.fixture
def wired() -> Iterator[list[dict[int, socket.socket]]]:
    """By worker, of three: its connections to the others by rank."""
    found: list[dict[int, socket.socket]] = [{}, {}, {}]
    for one in range(3):
        for other in range(one):
            found[one][other], found[other][one] = socket.socketpair()
    yield found
    for peers in found:
        for peer in peers.values():
            peer.close()


def all_reduce(
    wired: list[dict[int, socket.socket]], vectors: Sequence[np.ndarray]
) -> list[Future]:
    """Return the result of each worker as a future; a worker without a vector ends at once."""

    def one(rank: int) -> np.ndarray:
        try:
            assert len(vectors[rank])
            total = native.ops().qfleet_all_reduce(
                own=vectors[rank], sockets=PeerMesh(wired[rank], 3).file_descriptors
            )
            return total.numpy()
        except (AssertionError, tf.errors.OpError):  # it ends, and so do its connections
            for peer in wired[rank].values():
                peer.close()
            raise

    with ThreadPoolExecutor(3) as pool:
        return [pool.submit(one, rank) for rank in range(3)]


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("length", [1, 63, 300_000])  # the last does not fit into a socket
def test_sum_is_bit_identical_on_all(wired, kind: str, length: int) -> None:
    generator = np.random.default_rng(length)
    vectors = [generator.normal(size=length).astype(kind) for _ in range(3)]
    for _ in range(3):
        found = [future.result() for future in all_reduce(wired, vectors)]
        expected = vectors[0] + vectors[1] + vectors[2]
        assert all(np.array_equal(one, expected) for one in found)


def test_lost_peer_is_named(wired) -> None:
    ones = np.ones(63, "f4")
    for future in all_reduce(wired, [ones, ones, ones[:0]])[:2]:
        with pytest.raises(tf.errors.UnavailableError, match=r"worker [012] is (gone|lost)"):
            future.result()


def test_different_all_reduces_are_an_error(wired) -> None:
    lengths = (63, 63, 62)
    found = all_reduce(wired, [np.ones(length, "f4") for length in lengths])
    assert any(isinstance(future.exception(), tf.errors.InternalError) for future in found)
