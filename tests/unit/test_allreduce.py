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
from qfleet.tensorflow.shard_exchange import mesh_order
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


def reduce(
    peers: dict[int, socket.socket], vector: Sequence[float] = (1.0, 2.0), hops: int = 1
) -> tf.Tensor:
    """All-reduce a vector as worker 1 of three."""
    mesh = allreduce._mesh
    assert mesh
    own = tf.constant(vector)
    sockets = mesh.file_descriptors
    return native.ops().qfleet_all_reduce(own=own, order=mesh_order(), sockets=sockets, hops=hops)


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


Wires = list[dict[int, socket.socket]]


@pytest.fixture
def wire() -> Iterator[Callable[[int], Wires]]:
    """Return, by worker, its connections to the others by rank."""
    opened: Wires = []

    def connect(size: int) -> Wires:
        found: Wires = [{} for _ in range(size)]
        for one in range(size):
            for other in range(one):
                found[one][other], found[other][one] = socket.socketpair()
        opened.extend(found)
        return found

    yield connect
    for peers in opened:
        for peer in peers.values():
            peer.close()


def all_reduce(wired: Wires, vectors: Sequence[np.ndarray | None], hops: int) -> list[Future]:
    """Return the result of each worker as a future; a worker without a vector ends at once."""
    return run_on_each(
        wired,
        vectors,
        lambda own, sockets: native.ops().qfleet_all_reduce(
            own=own, order=mesh_order(), sockets=sockets, hops=hops
        ),
    )


def run_on_each(
    wired: Wires,
    arguments: Sequence[np.ndarray | None],
    collective: Callable[[np.ndarray, list[int]], tf.Tensor],
) -> list[Future]:
    """Return the result of each worker as a future; a worker without an argument ends at once."""

    def one(rank: int) -> np.ndarray:
        try:
            assert arguments[rank] is not None
            sockets = PeerMesh(wired[rank], len(wired)).file_descriptors
            return collective(arguments[rank], sockets).numpy()
        except (AssertionError, tf.errors.OpError):  # it ends, and so do its connections
            for peer in wired[rank].values():
                peer.close()
            raise

    with ThreadPoolExecutor(len(wired)) as pool:
        return [pool.submit(one, rank) for rank in range(len(wired))]


@pytest.mark.parametrize("kind", ["f4", "f8", "i8"])
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_sum_has_the_bits_of_the_order_of_ranks(wire, kind: str, size: int) -> None:
    """With one hop and with two, and for parts of different lengths, also of 0."""
    wired = wire(size)
    for length in (0, 1, size - 1, size, size + 1, 7 * size - 1, 300_001):  # more than a buffer
        draws = [np.random.default_rng([length, rank]).normal(size=length) for rank in range(size)]
        vectors = [(1e6 * draw).astype(kind) for draw in draws]
        expected = sum(vectors[1:], vectors[0])
        for hops in (1, 2):
            for future in all_reduce(wired, vectors, hops):
                assert future.result().tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("size", [2, 4])
def test_all_to_all_sends_row_r_to_worker_r(wire, kind: str, size: int) -> None:
    wired = wire(size)
    for length in (0, 1, 300_001):
        sent = np.random.default_rng(length).normal(size=[size, size, length]).astype(kind)
        futures = run_on_each(
            wired,
            list(sent),
            lambda rows, sockets: native.ops().qfleet_all_to_all(
                rows=rows, order=mesh_order(), sockets=sockets
            ),
        )
        for rank, future in enumerate(futures):
            np.testing.assert_array_equal(future.result(), sent[:, rank])


def test_all_to_all_without_a_row_for_each_worker_is_refused(wire) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="row for each of 2 workers"):
        native.ops().qfleet_all_to_all(
            rows=np.zeros([3, 2], "f4"), order=mesh_order(), sockets=[-1, 1]
        )


def test_lost_peer_of_a_part_of_the_workers_is_named_by_its_rank(wire) -> None:
    wired = wire(2)
    wired[1][0].close()
    sockets = PeerMesh(wired[0], 2).file_descriptors
    with pytest.raises(tf.errors.UnavailableError, match="worker 7 is lost"):
        native.ops().qfleet_all_to_all(
            rows=np.ones([2, 2], "f4"), order=mesh_order(), sockets=sockets, first_rank=6
        )


def test_workers_at_different_calls_get_an_error_and_no_sum(wire) -> None:
    """Their messages have the same length."""
    sites = iter((1, 2))
    futures = run_on_each(
        wire(2),
        [np.ones([2, 2], "f4")] * 2,
        lambda rows, sockets: native.ops().qfleet_all_to_all(
            rows=rows, order=mesh_order(), sockets=sockets, call_site=next(sites)
        ),
    )
    for future in futures:
        with pytest.raises((tf.errors.InternalError, tf.errors.UnavailableError)):
            future.result()


@pytest.mark.parametrize("hops", [1, 2])
def test_lost_peer_is_named(wire, hops: int) -> None:
    ones = np.ones(63, "f4")
    for future in all_reduce(wire(3), [ones, ones, None], hops)[:2]:
        with pytest.raises(tf.errors.UnavailableError, match=r"worker [012] is (gone|lost)"):
            future.result()


@pytest.mark.parametrize("is_lost", [False, True])
def test_peer_that_sends_no_sum_is_named(peers, is_lost: bool) -> None:
    """Worker 2 has sent its part for worker 1; worker 0 has sent its sum too."""
    allreduce.limit_wait(0.3)
    head = np.uint64(4 * 3).tobytes()  # the length of the whole vector
    peers[0].sendall(head + np.float32(10).tobytes() + head + np.float32(11).tobytes())
    peers[2].sendall(head + np.float32(20).tobytes())
    if is_lost:
        peers[2].shutdown(socket.SHUT_WR)
    kind = tf.errors.UnavailableError if is_lost else tf.errors.DeadlineExceededError
    with pytest.raises(kind, match=r"from worker 2 for|worker 2 is lost"):
        reduce(peers, [1.0, 2.0, 3.0], hops=2)
    sent = head + np.float32(1).tobytes() + head + np.float32(2 + 10 + 20).tobytes()
    assert peers[0].recv(100) == sent


@pytest.mark.parametrize("hops", [1, 2])
def test_different_all_reduces_are_an_error(wire, hops: int) -> None:
    found = all_reduce(wire(3), [np.ones(length, "f4") for length in (63, 63, 62)], hops)
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
