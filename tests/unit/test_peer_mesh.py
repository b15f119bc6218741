"""Connections between workers, and the exchange that goes over them."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from qfleet import native
from qfleet.tensorflow.runtime import tf
from training import peer_mesh
from training.cluster import ClusterSpec, loopback_addresses
from training.peer_mesh import PeerMesh, connect_mesh
from training.rendezvous import KEEPALIVE

pytestmark = pytest.mark.skipif(
    native.unavailable_reason() is not None, reason="there is no native kernel"
)


class Gang:
    """Workers as threads, which add up vectors as TensorFlow's exchange does."""

    def __init__(self, size: int, made: list[PeerMesh]) -> None:
        self.size, self.made = size, made
        self.ports: list[int] = []
        self.spoil: Callable[[list[int]], None] = lambda ports: None
        self._told: list[Sequence[float]] = [()] * size
        self._all = threading.Barrier(size, timeout=20)

    def _agreed(self, rank: int, values: Sequence[float]) -> np.ndarray:
        self._told[rank] = values
        self._all.wait()
        total = np.sum(np.array(self._told, float), axis=0)
        if len(total) > 1 and rank == 0:
            self.ports = [int(port) for port in total[: self.size]]
            self.spoil(self.ports)
        self._all.wait()
        return total

    def run(self, hosts: tuple[str, ...] = (), port: int = 0) -> list[PeerMesh | None]:
        """What `connect` gives each worker."""
        workers = hosts or loopback_addresses(range(9001, 9001 + self.size))

        def one(rank: int) -> PeerMesh | None:
            return connect_mesh(
                ClusterSpec(workers, rank), port, lambda values: self._agreed(rank, values)
            )

        with ThreadPoolExecutor(self.size) as pool:
            found = list(pool.map(one, range(self.size)))
        self.made += [own for own in found if own is not None]
        return found


@pytest.fixture
def gang() -> Iterator[Callable[[int], Gang]]:
    """Makes gangs, and closes their connections."""
    made: list[PeerMesh] = []
    yield lambda size: Gang(size, made)
    for own in made:
        own.close()


@pytest.mark.parametrize("size", [2, 3, 5])
def test_each_two_workers_are_connected_and_nobody_listens_after_that(gang, size: int) -> None:
    gang = gang(size)
    found = gang.run()
    for rank, own in enumerate(found):
        assert own is not None
        assert [number < 0 for number in own.numbers] == [other == rank for other in range(size)]
        for other, peer in own._peers.items():
            whole = found[other]
            assert whole is not None
            assert peer.getpeername() == whole._peers[rank].getsockname()
    for port in gang.ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=1)


def test_a_peer_whose_machine_vanishes_is_given_up_after_a_quarter_of_a_minute(gang) -> None:
    own = gang(2).run()[0]
    assert own is not None
    idle, pause, count = KEEPALIVE
    assert idle + pause * count == 15
    (peer,) = own._peers.values()
    assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == idle
    assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000


@pytest.mark.parametrize("says", [b"", b"GET / HTTP/1.1\r\n\r\n", bytes(8) + b"\0\0\0\1"])
def test_a_stranger_is_turned_away(gang, says: bytes) -> None:
    gang = gang(3)
    strangers: list[socket.socket] = []

    def come(ports: list[int]) -> None:
        for port in ports:
            strangers.append(socket.create_connection(("127.0.0.1", port), timeout=5))
            strangers[-1].sendall(says)

    gang.spoil = come
    found = gang.run()
    assert all(own is not None for own in found)
    for stranger in strangers:
        stranger.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
        stranger.close()


def test_all_take_tensorflows_way_where_one_has_no_kernel(
    gang, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = iter([None, "no kernel", None])
    monkeypatch.setattr(native, "unavailable_reason", lambda: next(asked))
    assert gang(3).run() == [None] * 3


def test_all_take_tensorflows_way_where_a_port_is_taken(gang) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        hosts = (f"127.0.0.1:{port}", f"127.0.0.2:{port}")  # each for itself, as pods are
        assert gang(2).run(hosts, port) == [None] * 2


def test_all_take_tensorflows_way_and_one_says_why_where_one_is_not_reached(
    gang, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(peer_mesh, "CONNECT_TIMEOUT_SECONDS", 0.5)
    meet = peer_mesh._meet

    def lost(cluster: ClusterSpec, *more: object) -> None:
        if cluster.rank == 2:
            raise OSError("no route to host")
        meet(cluster, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(peer_mesh, "_meet", lost)
    assert gang(3).run() == [None] * 3
    assert "worker 2 could not: no route to host" in caplog.text
    assert "TensorFlow exchanges" in caplog.text


@pytest.fixture
def wired() -> Iterator[list[dict[int, socket.socket]]]:
    """For each of three workers, its connections to the others by rank."""
    found: list[dict[int, socket.socket]] = [{}, {}, {}]
    for one in range(3):
        for other in range(one):
            found[one][other], found[other][one] = socket.socketpair()
    yield found
    for peers in found:
        for peer in peers.values():
            peer.close()


def exchanged(wired: list[dict[int, socket.socket]], vectors: Sequence[np.ndarray]) -> list[Future]:
    """The exchange in each worker, as a future; one without a vector has left before."""

    def one(rank: int) -> np.ndarray:
        try:
            assert len(vectors[rank])
            total = native.ops().qfleet_exchange(
                own=vectors[rank], links=PeerMesh(wired[rank], 3).numbers
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
def test_the_sum_is_the_same_bits_in_each(wired, kind: str, length: int) -> None:
    generator = np.random.default_rng(length)
    vectors = [generator.normal(size=length).astype(kind) for _ in range(3)]
    for _ in range(3):
        found = [future.result() for future in exchanged(wired, vectors)]
        expected = vectors[0] + vectors[1] + vectors[2]
        assert all(np.array_equal(one, expected) for one in found)


def test_a_lost_peer_is_named(wired) -> None:
    ones = np.ones(63, "f4")
    for future in exchanged(wired, [ones, ones, ones[:0]])[:2]:
        with pytest.raises(tf.errors.UnavailableError, match=r"worker [012] is gone"):
            future.result()


def test_workers_at_different_exchanges_are_told_apart(wired) -> None:
    lengths = (63, 63, 62)
    found = exchanged(wired, [np.ones(length, "f4") for length in lengths])
    assert any(isinstance(future.exception(), tf.errors.InternalError) for future in found)
