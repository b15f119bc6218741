"""The rendezvous: all workers connect, or the missing ones are named."""

import socket
import threading
import time

import pytest

from common.errors import RendezvousTimeout
from common.settings import FaultToleranceSettings
from training.cluster import ClusterSpec, loopback_addresses
from training.rendezvous import RendezvousServer, StartMessage, join_rendezvous


@pytest.fixture
def port():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return holder.getsockname()[1]


def cluster(rank, size=3):
    return ClusterSpec(loopback_addresses(range(9001, 9001 + size)), rank)


MESSAGE = StartMessage("hybrid", 3, "/data", 12)


def limits(port, timeout=10.0):
    # Validation refuses timeouts as short as tests use.
    return FaultToleranceSettings().model_copy(
        update={"rendezvous_port": port, "rendezvous_timeout": timeout}
    )


def join(rank, port, received, timeout=10):
    def run():
        try:
            received[rank] = join_rendezvous(cluster(rank), limits(port, timeout))
        except RendezvousTimeout as error:
            received[rank] = error

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_workers_before_and_after_the_chief_get_its_message(port):
    received = {}
    early = join(1, port, received)
    time.sleep(0.3)
    server = RendezvousServer(cluster(0), port)
    late = join(2, port, received)
    server.start_all(MESSAGE, 10)
    early.join()
    late.join()
    assert received == {1: MESSAGE, 2: MESSAGE}


def test_port_is_closed_after_the_start(port):
    received = {}
    server = RendezvousServer(cluster(0, 2), port)
    thread = join(1, port, received)
    server.start_all(None, 10)
    thread.join()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


def test_chief_names_missing_workers(port):
    received = {}
    server = RendezvousServer(cluster(0), port)
    thread = join(1, port, received, timeout=1)
    with pytest.raises(RendezvousTimeout, match=r"^worker 2 \(127.0.0.1:9003\) "):
        server.start_all(MESSAGE, 0.5)
    thread.join()
    assert isinstance(received[1], RendezvousTimeout)


def test_chief_logs_the_workers_it_waits_for(port, caplog, monkeypatch):
    monkeypatch.setattr("training.rendezvous.WAIT_LOG_INTERVAL_SECONDS", 0.3)
    caplog.set_level("INFO", logger="qfleet")
    with pytest.raises(RendezvousTimeout):
        RendezvousServer(cluster(0), port).start_all(MESSAGE, 1)
    record = caplog.records[0]
    assert "worker 1 (127.0.0.1:9002), worker 2 (127.0.0.1:9003)" in record.getMessage()
    assert record.event_kind == "waiting"
    assert record.event_fields["missing"] == [1, 2]


def test_worker_names_a_missing_chief(port):
    with pytest.raises(RendezvousTimeout, match=r"worker 1 .*127.0.0.1:9001"):
        join_rendezvous(cluster(1), limits(port, 0.5))


def test_worker_that_connected_and_died_is_not_counted(port):
    received = {}
    server = RendezvousServer(cluster(0, 2), port)
    with socket.create_connection(("127.0.0.1", port)) as dead:
        dead.sendall(b"1\n")
    threading.Timer(0.5, lambda: join(1, port, received)).start()
    server.start_all(MESSAGE, 10)
    time.sleep(0.3)
    assert received == {1: MESSAGE}


@pytest.mark.parametrize("junk", [b"", b"GET / HTTP/1.1\r\n\r\n", b"0\n", b"7\n", b"\xff" * 70_000])
def test_unknown_client_does_not_disturb(port, junk):
    received = {}
    server = RendezvousServer(cluster(0, 2), port)
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(junk)
        stranger.shutdown(socket.SHUT_WR)
        thread = join(1, port, received)
        server.start_all(MESSAGE, 10)
        thread.join()
    assert received == {1: MESSAGE}


def test_taken_port_is_retryable(port):
    first = RendezvousServer(cluster(0), port)
    with pytest.raises(RendezvousTimeout, match=f"RENDEZVOUS_PORT={port}"):
        RendezvousServer(cluster(0), port)
    first.close()


def test_finished_run_is_sent_as_none(port):
    received = {}
    server = RendezvousServer(cluster(0, 2), port)
    thread = join(1, port, received)
    server.start_all(None, 10)
    thread.join()
    assert received == {1: None}
