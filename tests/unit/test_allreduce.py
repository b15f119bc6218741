"""The native all-reduce: its sums, and the errors that name lost and silent peers."""

import math
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from common.errors import DeadlineReached, PeerLost, Preempted
from qfleet import native
from qfleet.tensorflow.runtime import tf
from training.cluster.spec import ClusterSpec, loopback_addresses
from training.group.mesh import PeerMesh
from training.process.preemption import Preemption
from training.process.watchdog import Watchdog
from training.step import allreduce
from training.step.mesh_strategy import MeshStrategy
from training.step.peer_errors import PeerErrorTranslator

pytestmark = pytest.mark.skipif(
    native.unavailable_reason() is not None, reason="requires the native engine"
)


@pytest.fixture
def peers():
    """Connections of worker 1 of three, and their other ends by rank."""
    pairs = {rank: socket.socketpair() for rank in (0, 2)}
    allreduce.use_connections(PeerMesh({rank: pair[0] for rank, pair in pairs.items()}, 3))
    yield {rank: pair[1] for rank, pair in pairs.items()}
    allreduce.limit_wait(math.inf)
    allreduce.use_connections(None)
    for pair in pairs.values():
        for each in pair:
            each.close()


def reduce(peers: dict[int, socket.socket]) -> tf.Tensor:
    """All-reduce the vector [1, 2] as worker 1 of three."""
    mesh = allreduce._mesh
    assert mesh
    own = tf.constant([1.0, 2.0])
    return native.ops().qfleet_all_reduce(own=own, sockets=mesh.file_descriptors)


def message(*values: float) -> bytes:
    """Return what a peer sends: the length in bytes, and the vector."""
    return np.uint64(4 * len(values)).tobytes() + np.float32(values).tobytes()


def test_silent_peer_is_named_at_the_limit(peers):
    allreduce.limit_wait(0.5)
    peers[0].sendall(message(1, 1))
    cluster = ClusterSpec(loopback_addresses([1, 2, 3]), 1)
    began = time.monotonic()
    with (
        pytest.raises(PeerLost, match=r"no data from worker 2 for"),
        PeerErrorTranslator(cluster, Preemption(Watchdog(), is_chief=False)),
    ):
        reduce(peers)
    assert time.monotonic() - began > 0.4


GRAPH_TEXT = """Graph execution error:

Detected at node while/QfleetAllReduce defined at (most recent call last):
  File "threading.py", line 1
{own}
\t [[{{{{node while/QfleetAllReduce}}}}]] [Op:__inference_steps_12]"""
OWN_TEXTS = ("worker 1 is lost: closed", "no data from worker 1 2 for 5 s", "")


@pytest.mark.parametrize("own", OWN_TEXTS)
@pytest.mark.parametrize("kind", [tf.errors.UnavailableError, tf.errors.InternalError])
def test_peer_error_has_no_text_of_tensorflow(caplog, kind, own):
    cluster = ClusterSpec(loopback_addresses([1, 2, 3]), 1)
    error = kind(None, None, GRAPH_TEXT.format(own=own))
    caplog.set_level("DEBUG", "qfleet")
    with (
        pytest.raises(PeerLost) as caught,
        PeerErrorTranslator(cluster, Preemption(Watchdog(), is_chief=False)),
    ):
        raise error
    for word in ("Graph", "node", "threading", "Op:"):
        assert word not in str(caught.value)
        assert word in caplog.text
    assert own in str(caught.value)


@pytest.mark.parametrize("reported", [DeadlineReached("over"), PeerLost("worker 2 is lost"), None])
def test_peer_error_becomes_the_reported_reason(reported):
    """Also a SIGTERM that arrives while the reason is awaited."""
    preemption = Preemption(Watchdog(), is_chief=False)

    def wait_for_loss():
        if reported is None:
            preemption.requested.set()
        return reported

    cluster = ClusterSpec(loopback_addresses([1, 2, 3]), 1)
    with (
        pytest.raises(type(reported) if reported else Preempted) as caught,
        PeerErrorTranslator(cluster, preemption, wait_for_loss),
    ):
        raise tf.errors.UnavailableError(None, None, GRAPH_TEXT.format(own=OWN_TEXTS[0]))
    assert caught.value is reported or reported is None


def test_limit_changes_while_an_all_reduce_waits(peers):
    allreduce.limit_wait(1e6)
    lower = threading.Timer(0.5, allreduce.limit_wait, [0.1])
    lower.start()
    with pytest.raises(tf.errors.DeadlineExceededError, match=r"worker 0 2 for"):
        reduce(peers)
    lower.join()


def test_late_peer_within_the_limit_is_awaited(peers):
    allreduce.limit_wait(60)
    peers[0].sendall(message(1, 1))
    late = threading.Timer(0.5, peers[2].sendall, [message(10, 20)])
    late.start()
    assert reduce(peers).numpy().tolist() == [12.0, 23.0]
    late.join()


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


@pytest.mark.parametrize("length", [3, 100_000])
def test_strategy_sums_over_the_mesh_only(length: int) -> None:
    """Also vectors that TensorFlow's ring would sum. Two workers: each blocks a thread."""
    pair = socket.socketpair()

    def trace(rank: int) -> Callable[[], tf.Tensor]:
        strategy = MeshStrategy(ClusterSpec(loopback_addresses([1, 2]), rank))
        assert strategy.num_replicas_in_sync == 2
        allreduce.use_connections(PeerMesh({1 - rank: pair[rank]}, 2))

        def replica() -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            own = tf.cast(context.replica_id_in_sync_group + 1, tf.float64)
            return allreduce.all_reduce_sum(own * tf.ones([length], tf.float64))

        function = tf.function(lambda: strategy.run(replica), autograph=False)
        return function.get_concrete_function()

    try:
        functions = [trace(rank) for rank in range(2)]  # one by one, as the mesh is global
        with ThreadPoolExecutor(2) as pool:
            found = list(pool.map(lambda function: function().numpy(), functions))
    finally:
        allreduce.use_connections(None)
        for one in pair:
            one.close()
    assert all(np.array_equal(one, np.full(length, 3.0)) for one in found)
