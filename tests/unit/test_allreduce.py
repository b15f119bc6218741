"""The native all-reduce: a silent peer ends it at the limit, with that peer's rank."""

import math
import socket
import threading
import time

import numpy as np
import pytest

from common.errors import DeadlineReached, PeerLost, Preempted
from qfleet import native
from qfleet.tensorflow.runtime import tf
from training.cluster.spec import ClusterSpec, loopback_addresses
from training.group.peer_mesh import PeerMesh
from training.process.preemption import Preemption
from training.process.watchdog import Watchdog
from training.step import allreduce
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
