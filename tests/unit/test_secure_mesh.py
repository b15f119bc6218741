"""The authenticated peer mesh, and the strategy that sums over it."""

import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from common.errors import PeerLost, RendezvousTimeout
from qfleet import native
from qfleet.tensorflow.runtime import tf
from tests.support.patience import seconds
from tests.support.ports import own_ports
from training.cluster.spec import ClusterSpec, loopback_addresses
from training.group.peer_mesh import PeerMesh
from training.group.secure_mesh import connect_secure_mesh
from training.step import allreduce
from training.step.mesh_strategy import MeshStrategy

SECRET = b"0123456789abcdef0123456789abcdef"


@pytest.fixture
def addresses(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Return addresses of as many workers as the test's parameter `size`."""
    return loopback_addresses(own_ports(request.node.callspec.params.get("size", 2)))


def connect(
    addresses: tuple[str, ...], secrets: dict[int, bytes] | None = None, timeout: float = 10
) -> list[PeerMesh | BaseException]:
    """Return the mesh of each worker, or its error."""

    def one(rank: int) -> PeerMesh | BaseException:
        try:
            secret = (secrets or {}).get(rank, SECRET)
            return connect_secure_mesh(ClusterSpec(addresses, rank), secret, seconds(timeout))
        except (PeerLost, RendezvousTimeout) as error:
            return error

    with ThreadPoolExecutor(len(addresses)) as pool:
        return list(pool.map(one, range(len(addresses))))


@pytest.fixture
def meshes(addresses: tuple[str, ...]) -> Iterator[list[PeerMesh]]:
    """Connect all workers."""
    found = connect(addresses)
    assert all(isinstance(one, PeerMesh) for one in found), found
    yield [one for one in found if isinstance(one, PeerMesh)]
    for one in found:
        assert isinstance(one, PeerMesh)
        one.close()


@pytest.mark.parametrize("size", [2, 3, 5])
def test_all_pairs_are_connected_by_rank(meshes: list[PeerMesh], size: int) -> None:
    for rank, own in enumerate(meshes):
        expected = [other == rank for other in range(size)]
        assert [one < 0 for one in own.file_descriptors] == expected
    for low in range(size):
        for high in range(low + 1, size):
            ends = meshes[low].file_descriptors[high], meshes[high].file_descriptors[low]
            first, second = (socket.socket(fileno=socket.dup(one)) for one in ends)
            with first, second:
                first.sendall(b"%d" % low)
                assert second.recv(1) == b"%d" % low


@pytest.mark.parametrize("size", [2])
def test_wrong_secret_is_refused(addresses: tuple[str, ...], size: int) -> None:
    found = connect(addresses, {1: b"another secret of the same length"}, timeout=1)
    assert all(isinstance(one, PeerLost) for one in found)


@pytest.mark.parametrize("size", [3])
def test_unauthenticated_peers_delay_nobody(addresses: tuple[str, ...], size: int) -> None:
    port = int(addresses[2].rpartition(":")[2])
    with ThreadPoolExecutor(1) as pool:
        connected = pool.submit(connect, addresses)
        strangers = []
        while not connected.done() and len(strangers) < 50:
            try:
                stranger = socket.create_connection(("127.0.0.1", port), timeout=1)
            except OSError:
                continue
            stranger.sendall(struct.pack("!QI", 1, 0) + b'{"nonce": 1}\n')
            strangers.append(stranger)
        found = connected.result()
    for stranger in strangers:
        stranger.close()
    assert all(isinstance(one, PeerMesh) for one in found)
    for one in found:
        assert isinstance(one, PeerMesh)
        one.close()


@pytest.mark.parametrize("size", [2])
def test_taken_port_is_a_rendezvous_timeout(addresses: tuple[str, ...], size: int) -> None:
    with socket.create_server(("127.0.0.1", int(addresses[0].rpartition(":")[2]))):
        found = connect(addresses, timeout=1)
    assert isinstance(found[0], RendezvousTimeout)


@pytest.mark.skipif(native.unavailable_reason() is not None, reason="there is no native kernel")
@pytest.mark.parametrize("size", [2])
@pytest.mark.parametrize("length", [3, 100_000])
def test_strategy_sums_over_the_mesh_only(
    meshes: list[PeerMesh], addresses: tuple[str, ...], size: int, length: int
) -> None:
    """Also vectors that TensorFlow's ring would sum."""

    def trace(rank: int) -> Callable[[], tf.Tensor]:
        strategy = MeshStrategy(ClusterSpec(addresses, rank))
        assert strategy.num_replicas_in_sync == size
        allreduce.use_connections(meshes[rank])

        def replica() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            own = tf.cast(context.replica_id_in_sync_group + 1, tf.float64) * tf.ones(
                [length], tf.float64
            )
            return allreduce.all_reduce_sum(own)

        function = tf.function(lambda: strategy.run(replica), autograph=False)
        return function.get_concrete_function()

    try:
        functions = [trace(rank) for rank in range(size)]  # one by one, as the mesh is global
        with ThreadPoolExecutor(size) as pool:
            found = list(pool.map(lambda function: function().numpy(), functions))
    finally:
        allreduce.use_connections(None)
    assert all(np.array_equal(one, np.full(length, 3.0)) for one in found)
