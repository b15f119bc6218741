"""The exchanges of a state group over connections: their order, and a silent or different peer."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from qfleet import native
from qfleet.distributed.state_group import StateGroup
from qfleet.tensorflow.runtime import tf
from qfleet.tensorflow.shard_exchange import ShardExchange
from training.group.mesh import PeerMesh
from training.step import allreduce

pytestmark = pytest.mark.skipif(
    native.unavailable_reason() is not None, reason="requires the native engine"
)

FIRST_RANK = 6
ROWS = tf.ones([2, 4])
KEY = 51

Sites = Callable[[int], list[ShardExchange]]


@pytest.fixture
def peer() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return the connection of the first of two processes, and its other end."""
    own, other = socket.socketpair()
    with own, other:
        yield own, other


@pytest.fixture
def sites(peer: tuple[socket.socket, socket.socket]) -> Sites:
    """Make call sites of the first of two processes, which are workers 6 and 7."""
    group = StateGroup(2, 0, KEY, (-1, peer[0].fileno()), FIRST_RANK)
    return lambda count: [ShardExchange(group) for _ in range(count)]


def test_silent_peer_is_named_at_the_limit(peer, sites: Sites) -> None:
    allreduce.use_connections(PeerMesh({1: peer[0]}, 2))  # which has the limit
    try:
        allreduce.limit_wait(0.3)
        with pytest.raises(tf.errors.DeadlineExceededError, match="no data from worker 7 for"):
            sites(1)[0].all_to_all(ROWS)
        allreduce.limit_wait(float("inf"))
    finally:
        allreduce.use_connections(None)


def test_peer_with_another_size_is_an_error(peer, sites: Sites) -> None:
    other = StateGroup(2, 1, KEY + 1, (peer[1].fileno(), -1), FIRST_RANK)
    (own,) = sites(1)
    other_site = ShardExchange(other)
    other_site._number = own._number  # as in a process of its own
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(other_site.all_to_all, tf.ones([2, 5]))
        with pytest.raises(tf.errors.InternalError, match="worker 7 is at a different"):
            own.all_to_all(ROWS)
        with pytest.raises(tf.errors.InternalError, match="worker 6 is at a different"):
            found.result()


def test_overlapping_exchanges_are_an_error(peer, sites: Sites) -> None:
    """The second one neither waits nor mixes its message with that of the first."""
    first, second = sites(2)
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(first.all_to_all, ROWS)
        message = peer[1].recv(100)
        with pytest.raises(tf.errors.InternalError, match="overlap"):
            second.all_to_all(ROWS)
        peer[1].sendall(message)
        assert np.array_equal(result.result(), ROWS)


def echo(peer: socket.socket, found: list[int]) -> None:
    """Return each message until the connection ends, and record its call site."""
    with peer.makefile("rwb") as file:
        while head := file.read(8):
            tag = int.from_bytes(head, "little")
            found.append(tag >> 44)
            file.write(head + file.read(tag & (1 << 44) - 1))
            file.flush()


def functions(sites: Sites) -> tuple[Callable[[tf.Tensor], tf.Tensor], list[ShardExchange]]:
    """Exchanges in functions, each of which reads a variable of its own."""
    made = sites(4)
    variables = [tf.Variable(1.0) for _ in made]
    parts = [
        tf.function(lambda rows, one=one, by=by: one.all_to_all(rows * by), autograph=False)
        for one, by in zip(made, variables, strict=True)
    ]
    return lambda rows: tf.add_n([part(rows) for part in parts]), made


def loops(sites: Sites) -> tuple[Callable[[tf.Tensor], tf.Tensor], list[ShardExchange]]:
    """Exchanges before, in and after loops, of which the first reads a variable."""
    before, first, second, after = sites(4)
    variable = tf.Variable(1.0)

    def loop(one: ShardExchange, rows: tf.Tensor, by: object) -> tf.Tensor:
        return tf.while_loop(
            lambda at, _: at < 2,
            lambda at, total: (at + 1, total + one.all_to_all(rows * by)),
            [0, tf.zeros_like(rows)],
            parallel_iterations=1,
        )[1]

    def program(rows: tf.Tensor) -> tf.Tensor:
        total = before.all_to_all(rows) + loop(first, rows, variable) + loop(second, rows, 1.0)
        return total + after.all_to_all(rows)

    return program, [before, first, first, second, second, after]


@pytest.mark.parametrize("make", [functions, loops])
def test_exchanges_run_in_the_order_of_the_program(peer, sites: Sites, make: Callable) -> None:
    """Nothing else orders them: none needs the result of another one."""
    program, order = make(sites)
    found: list[int] = []
    thread = threading.Thread(target=echo, args=(peer[1], found))
    thread.start()
    compiled = tf.function(program, autograph=False)
    try:
        for _ in range(20):
            assert np.array_equal(compiled(ROWS), ROWS * len(order))
    finally:
        peer[0].shutdown(socket.SHUT_RDWR)
        thread.join()
    assert found == [one._number for one in order] * 20
