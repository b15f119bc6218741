"""The start gate: all come, or the missing are named."""

import socket
import threading
import time

import pytest

from common.errors import RendezvousTimeout
from training.cluster import ClusterSpec, loopback_addresses
from training.rendezvous import RendezvousServer, join_rendezvous


@pytest.fixture
def port():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return holder.getsockname()[1]


def cluster(rank, size=3):
    return ClusterSpec(loopback_addresses(range(9001, 9001 + size)), rank)


def come(rank, port, heard, timeout=10):
    def go():
        try:
            heard[rank] = join_rendezvous(cluster(rank), port, timeout)
        except RendezvousTimeout as error:
            heard[rank] = error

    thread = threading.Thread(target=go)
    thread.start()
    return thread


def test_all_workers_hear_the_same_order_whether_they_come_before_the_chief_or_after(port):
    heard = {}
    early = come(1, port, heard)
    time.sleep(0.3)
    gate = RendezvousServer(cluster(0), port)
    late = come(2, port, heard)
    gate.open({"attempt": 3}, 10)
    early.join()
    late.join()
    assert heard == {1: {"attempt": 3}, 2: {"attempt": 3}}


def test_the_port_is_closed_once_all_have_gone(port):
    heard = {}
    gate = RendezvousServer(cluster(0, 2), port)
    thread = come(1, port, heard)
    gate.open({}, 10)
    thread.join()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


def test_the_chief_names_the_workers_that_did_not_come(port):
    heard = {}
    gate = RendezvousServer(cluster(0), port)
    thread = come(1, port, heard, timeout=1)
    with pytest.raises(RendezvousTimeout, match=r"^worker 2 \(127.0.0.1:9003\) has not come"):
        gate.open({}, 0.5)
    thread.join()
    assert isinstance(heard[1], RendezvousTimeout)


def test_the_chief_says_whom_it_waits_for(port, caplog, monkeypatch):
    monkeypatch.setattr("training.rendezvous.WAIT_LOG_INTERVAL_SECONDS", 0.3)
    caplog.set_level("INFO", logger="qfleet")
    with pytest.raises(RendezvousTimeout):
        RendezvousServer(cluster(0), port).open({}, 1)
    assert "waiting for worker 1 (127.0.0.1:9002), worker 2 (127.0.0.1:9003)" in caplog.messages


def test_a_worker_names_the_chief_that_is_not_there(port):
    with pytest.raises(RendezvousTimeout, match=r"worker 1 .*127.0.0.1:9001"):
        join_rendezvous(cluster(1), port, 0.5)


def test_a_worker_that_came_and_died_is_not_counted(port):
    heard = {}
    gate = RendezvousServer(cluster(0, 2), port)
    with socket.create_connection(("127.0.0.1", port)) as dead:
        dead.sendall(b"1\n")
    threading.Timer(0.5, lambda: come(1, port, heard)).start()
    gate.open({"n": 1}, 10)
    time.sleep(0.3)
    assert heard == {1: {"n": 1}}


@pytest.mark.parametrize("junk", [b"", b"GET / HTTP/1.1\r\n\r\n", b"0\n", b"7\n", b"\xff" * 70_000])
def test_a_stranger_at_the_gate_does_not_disturb(port, junk):
    heard = {}
    gate = RendezvousServer(cluster(0, 2), port)
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(junk)
        stranger.shutdown(socket.SHUT_WR)
        thread = come(1, port, heard)
        gate.open({"n": 1}, 10)
        thread.join()
    assert heard == {1: {"n": 1}}


def test_a_taken_port_is_worth_another_try(port):
    first = RendezvousServer(cluster(0), port)
    with pytest.raises(RendezvousTimeout, match=f"port {port}"):
        RendezvousServer(cluster(0), port)
    first.close()
