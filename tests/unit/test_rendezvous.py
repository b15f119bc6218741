"""The rendezvous: all workers connect, or the missing ones are named; others change nothing."""

import contextlib
import json
import socket
import stat
import threading
import time

import pytest

from common import waiting
from common.errors import (
    DeadlineReached,
    PeerLost,
    Preempted,
    QfleetError,
    RendezvousTimeout,
    RunError,
    SettingsError,
)
from common.settings import Settings
from tests.support.patience import seconds, wait_until
from tests.support.ports import own_port
from training.cluster.spec import ClusterSpec, loopback_addresses
from training.group import peer_watch
from training.group.channel import PeerChannel, ProtocolError, connect_to_chief, receive
from training.group.rendezvous import RendezvousClient, StartMessage
from training.group.rendezvous_server import RendezvousServer
from training.group.secret import SecretFile

MESSAGE = StartMessage("hybrid", 3, "/data", "abc", 12)
SAME = {"SEED": "0"}
# Limits that end no test which works, and limits that tests wait for.
LONG, SHORT = round(seconds(10)), round(seconds(1))


class Group:
    """Sides of the rendezvous of one process group, in threads of this process."""

    def __init__(self, folder, size=3):
        self.port = own_port()
        self.folder, self.size = folder / "run", size
        self.settings = Settings.from_values(workers=size).replace(
            rendezvous_port=self.port, rendezvous_timeout=LONG, peer_timeout=LONG
        )
        self.lost = {rank: [] for rank in range(size)}
        self.received, self.sides, self.threads = {}, [], []

    def cluster(self, rank):
        return ClusterSpec(loopback_addresses(range(9001, 9001 + self.size)), rank)

    def secret(self, rank=0):
        return SecretFile(self.folder, "job", self.cluster(rank))

    def side(self, kind, rank, fingerprint):
        self.sides.append(
            kind(
                self.cluster(rank),
                self.settings,
                self.secret(rank),
                fingerprint or SAME,
                self.lost[rank].append,
                lambda: f"stage {rank}",
            )
        )
        return self.sides[-1]

    def server(self, fingerprint=None):
        return self.side(RendezvousServer, 0, fingerprint)

    def join(self, rank, fingerprint=None):
        """Join in a thread; `received` gets the message or the error."""
        client = self.side(RendezvousClient, rank, fingerprint)

        def run():
            try:
                self.received[rank] = client.join()
            except (RendezvousTimeout, RunError) as error:
                self.received[rank] = error

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()
        return client

    def wait(self):
        for thread in self.threads:
            thread.join(3 * LONG)
            assert not thread.is_alive()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=LONG)

    def start(self):
        """Start all workers, and return all sides by rank."""
        server = self.server()
        sides = [server, *(self.join(rank) for rank in range(1, self.size))]
        server.start_all(MESSAGE, LONG)
        self.wait()
        return sides

    def wait_for_loss(self, rank):
        wait_until(lambda: self.lost[rank])
        return self.lost[rank][0]


def wait_for_worker_1(server):
    """Wait until the chief misses only worker 2."""

    def has_joined():
        with server._connections.changed:
            return list(server._missing()) == [2]

    wait_until(has_joined)


@pytest.fixture
def group(tmp_path, monkeypatch):
    monkeypatch.setattr(peer_watch, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(peer_watch, "LINGER_SECONDS", 0.1)
    groups = [Group(tmp_path)]
    yield groups[0]
    for side in groups[0].sides:
        side.close()


def started(group):
    message = StartMessage(**{**MESSAGE.to_json(), "members": tuple(range(group.size))})
    return dict.fromkeys(range(1, group.size), message)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(DeadlineReached("over"), DeadlineReached), (Preempted("stopped"), PeerLost),
     (SettingsError("SEED"), RunError), (KeyError("Graph"), RunError)],
)  # fmt: skip
def test_end_of_a_peer_has_its_kind_of_reason(error: Exception, kind: type[QfleetError]) -> None:
    found = peer_watch.error_of_end(peer_watch.end_message(error), "worker 1")
    assert type(found) is kind
    assert "Graph" not in str(found)


def test_workers_before_and_after_the_chief_get_its_message(group):
    group.join(1)
    time.sleep(0.3)
    server = group.server()
    group.join(2)
    server.start_all(MESSAGE, LONG)
    group.wait()
    assert group.received == started(group)


def test_port_is_closed_after_the_start(group):
    group.start()
    with pytest.raises(ConnectionRefusedError):
        group.connect()


def test_secret_is_private_and_deleted_after_the_start(group):
    server = group.server()
    (file,) = (group.folder / "rendezvous").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    for rank in (1, 2):
        group.join(rank)
    server.start_all(MESSAGE, LONG)
    assert not file.parent.exists()


def test_secret_is_deleted_after_a_failed_start(group):
    server = group.server()
    with pytest.raises(RendezvousTimeout):
        server.start_all(MESSAGE, 0.1)
    server.close()
    assert not group.folder.exists()


def test_secret_that_another_process_deletes_is_written_again(group, monkeypatch):
    monkeypatch.setattr("training.group.rendezvous_server.SECRET_CHECK_SECONDS", 0.1)
    server = group.server()
    (file,) = (group.folder / "rendezvous").iterdir()
    file.unlink()
    group.join(1)
    group.join(2)
    server.start_all(MESSAGE, LONG)
    group.wait()
    assert group.received == started(group)


@pytest.mark.parametrize("content", [b"", b"[" * 4000, b'{"format": 1, "secret": "short"}', b"3"])
def test_damaged_secret_is_none(group, content):
    secret = group.secret()
    secret.write()
    (file,) = (group.folder / "rendezvous").iterdir()
    file.write_bytes(content)
    assert group.secret(1).read() is None


def test_chief_names_missing_workers(group):
    server = group.server()
    group.join(1)
    wait_for_worker_1(server)
    with pytest.raises(RendezvousTimeout, match=r"^worker 2 \(127.0.0.1:9003\) "):
        server.start_all(MESSAGE, 0.1)


def test_chief_and_worker_log_whom_they_wait_for(group, caplog, monkeypatch):
    monkeypatch.setattr(waiting, "silence_seconds", lambda: 0.3)
    caplog.set_level("INFO", logger="qfleet")
    server = group.server()
    group.join(1)
    wait_for_worker_1(server)
    with pytest.raises(RendezvousTimeout):
        server.start_all(MESSAGE, SHORT)
    waits = [record for record in caplog.records if record.event_kind == "waiting"]
    texts = {record.getMessage() for record in waits}
    assert "Waiting for worker 2 (127.0.0.1:9003)" in texts
    assert [2] in [record.event_fields["missing"] for record in waits]
    chief = "the chief (127.0.0.1:9001)"
    assert any(text.startswith(f"Waiting for {chief}, which waits for worker 2") for text in texts)
    server.close()
    wait_until(lambda: "it has not written" in caplog.text)


def test_worker_names_a_missing_chief(group):
    group.settings = group.settings.replace(rendezvous_timeout=1)
    group.join(1)
    group.wait()
    assert "127.0.0.1:9001" in str(group.received[1])
    assert "RENDEZVOUS_TIMEOUT=1" in str(group.received[1])


def test_worker_leaves_a_chief_that_is_silent(group):
    """The kernel accepts connections of a stopped process."""
    group.settings = group.settings.replace(rendezvous_timeout=1)
    group.secret().write()
    with socket.create_server(("127.0.0.1", group.port)):
        group.join(1)
        group.wait()
    assert isinstance(group.received[1], RendezvousTimeout)


def test_worker_leaves_a_chief_that_falls_silent(group, monkeypatch):
    group.settings = group.settings.replace(rendezvous_timeout=1)
    server = group.server()
    monkeypatch.setattr(server, "heartbeat", lambda peer: None)
    group.join(1)
    group.wait()
    assert isinstance(group.received[1], RendezvousTimeout)


def test_worker_that_connected_and_died_is_not_counted(group):
    server = group.server()
    key = group.secret(1).read()
    connect_to_chief(("127.0.0.1", group.port), 1, key, LONG).close()
    with pytest.raises(RendezvousTimeout, match=r"worker 1 .* worker 2 "):
        server.start_all(MESSAGE, 0.7)


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"1\n",
        b'{"nonce": "a", "rank": 1, "proof": "b"}\n',
        b'{"nonce": 1, "rank": true, "proof": null}\n',
        b'{"kind": "hello", "fingerprint": {}}\n',
        b"[" * 500 + b"\n",
        b"\xff" * 70_000,
    ],
)
def test_stranger_takes_no_rank_and_hears_nothing(group, junk):
    server = group.server()
    group.join(1)
    with group.connect() as stranger:
        stranger.sendall(junk)
        group.join(2)
        server.start_all(MESSAGE, LONG)
        group.wait()
        heard = b""
        with contextlib.suppress(ConnectionError):
            while part := stranger.recv(4096):
                heard += part
    assert group.received == started(group)
    assert set(json.loads(heard.splitlines()[0])) == {"qfleet", "nonce"}
    assert len(heard.splitlines()) == 1


def test_recorded_handshake_can_not_be_replayed(group):
    server = group.server()
    key = group.secret(1).read()
    sent = []

    class Recorder(PeerChannel):
        def send(self, message):
            sent.append(message)
            super().send(message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("training.group.channel.PeerChannel", Recorder)
        connect_to_chief(("127.0.0.1", group.port), 1, key, LONG).close()
    (proof,) = [message for message in sent if "proof" in message]
    with group.connect() as stranger:
        stranger.sendall(json.dumps(proof).encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            while part := stranger.recv(4096):
                assert b"proof" not in part
    with pytest.raises(RendezvousTimeout, match="worker 1 "):
        server.start_all(MESSAGE, 0.3)


def test_worker_does_not_introduce_itself_to_a_stranger(group):
    """It has taken the chief's port, and answers as a chief without the secret would."""
    key = group.secret().write()
    heard = []

    def answer(server):
        channel = PeerChannel(server.accept()[0])
        channel.send({"qfleet": 2, "nonce": "0" * 32})
        receive(channel, time.monotonic() + LONG)
        channel.send({"proof": "0" * 64})
        with contextlib.suppress(OSError):
            heard.append(receive(channel, time.monotonic() + LONG))
        channel.close()

    with socket.create_server(("127.0.0.1", group.port)) as server:
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        with pytest.raises(ProtocolError):
            connect_to_chief(("127.0.0.1", group.port), 1, key, LONG)
        thread.join()
    assert heard == []


def test_changed_message_ends_the_connection(group):
    server = group.server()
    key = group.secret(1).read()
    channel = connect_to_chief(("127.0.0.1", group.port), 1, key, LONG)
    channel._unsent += b'0000 {"kind": "hello", "fingerprint": {}}\n'
    channel.flush()
    with pytest.raises(ConnectionError):
        receive(channel, time.monotonic() + LONG)
    channel.close()
    with pytest.raises(RendezvousTimeout, match="worker 1 "):
        server.start_all(MESSAGE, 0.1)


def test_dribbling_strangers_hold_up_nobody(group):
    server = group.server()
    done = threading.Event()
    strangers = [group.connect() for _ in range(100)]

    def dribble():
        while not done.wait(0.2):
            for stranger in strangers:
                with contextlib.suppress(OSError):
                    stranger.send(b"{")

    thread = threading.Thread(target=dribble)
    thread.start()
    for rank in (1, 2):
        group.join(rank)
    server.start_all(MESSAGE, LONG)  # unauthenticated peers in turn take 500 s
    done.set()
    thread.join()
    group.wait()
    for stranger in strangers:
        stranger.close()
    assert group.received == started(group)


def test_dribbling_stranger_is_dropped_at_the_deadline(group, monkeypatch):
    monkeypatch.setattr("training.group.chief_connections.HANDSHAKE_TIMEOUT_SECONDS", 0.5)
    group.server()

    def dribble(stranger):
        for _ in range(10 * LONG):
            stranger.send(b"{")
            time.sleep(0.1)

    with group.connect() as stranger, pytest.raises(ConnectionError):
        dribble(stranger)


def test_half_open_connections_are_limited(group, monkeypatch):
    monkeypatch.setattr("training.group.chief_connections.MIN_HALF_OPEN", 8)
    server = group.server()
    strangers = [group.connect() for _ in range(40)]
    for rank in (1, 2):
        group.join(rank)
    server.start_all(MESSAGE, LONG)
    open_count = 0
    for stranger in strangers:
        stranger.close()
    with server._connections.changed:
        open_count = len(server._connections._peers)
    assert open_count == 2


def test_taken_port_is_retryable(group):
    group.server()
    with pytest.raises(RendezvousTimeout, match=f"RENDEZVOUS_PORT={group.port}"):
        group.server()


def test_finished_run_is_sent_as_none(group):
    server = group.server()
    for rank in (1, 2):
        group.join(rank)
    server.start_all(None, LONG)
    group.wait()
    assert group.received == {1: None, 2: None}


def test_worker_of_a_finished_run_needs_no_chief(group, monkeypatch):
    monkeypatch.setattr("training.group.rendezvous.FINISHED_CHECK_SECONDS", 0.1)
    client = group.side(RendezvousClient, 1, None)
    assert client.join(lambda: True) is None


@pytest.mark.parametrize("last", [1, 2])
def test_different_workers_end_with_one_sentence(group, last):
    server = group.server()
    for rank in (1, 2):
        group.join(rank, {"SEED": "7"} if rank == last else SAME)
    with pytest.raises(RunError) as raised:
        server.start_all(MESSAGE, LONG)
    group.wait()
    same = " and ".join(str(rank) for rank in (0, 1, 2) if rank != last)
    assert f"SEED is 0 on workers {same}, 7 on worker {last}" in str(raised.value)
    assert [str(group.received[rank]) for rank in (1, 2)] == [str(raised.value)] * 2


# After the start.


def test_closed_connection_is_a_lost_worker_for_all(group):
    _, one, _ = group.start()
    one._channel.socket.shutdown(socket.SHUT_RDWR)
    error = group.wait_for_loss(0)
    assert isinstance(error, PeerLost)
    assert "worker 1 (127.0.0.1:9002) is lost in stage 'stage 1'" in str(error)
    assert str(group.wait_for_loss(2)) == str(error)


def test_silent_worker_is_lost_after_peer_timeout(group, monkeypatch):
    group.settings = group.settings.replace(peer_timeout=SHORT)
    _, one, _ = group.start()
    monkeypatch.setattr(one, "_is_over", True)  # it sends no heartbeat, but its socket is open
    error = group.wait_for_loss(0)
    assert "worker 1 (127.0.0.1:9002) is lost" in str(error)
    assert "PEER_TIMEOUT" in str(error)
    assert str(group.wait_for_loss(2)) == str(error)


def test_silent_chief_is_lost_for_all(group, monkeypatch):
    group.settings = group.settings.replace(peer_timeout=SHORT)
    server, _, _ = group.start()
    monkeypatch.setattr(server, "_is_over", True)
    for rank in (1, 2):
        assert "the chief (127.0.0.1:9001) is lost" in str(group.wait_for_loss(rank))


def test_heartbeats_keep_a_group_alive(group):
    group.settings = group.settings.replace(peer_timeout=SHORT)
    group.start()
    time.sleep(1.5 * SHORT)
    assert group.lost == {0: [], 1: [], 2: []}


def test_finished_workers_are_not_lost(group):
    server, one, two = group.start()
    for side in (two, server, one):
        side.finish()
        side.close()
    time.sleep(0.5)
    assert group.lost == {0: [], 1: [], 2: []}


def test_permanent_error_of_a_worker_ends_all_permanently(group):
    _, one, _ = group.start()
    one.report(RunError("other data"))
    for rank in (0, 2):
        error = group.wait_for_loss(rank)
        assert isinstance(error, RunError)
        assert "worker 1 (127.0.0.1:9002) failed: other data" in str(error)
    assert group.lost[1] == []


def test_retryable_error_of_the_chief_restarts_all(group):
    server, _, _ = group.start()
    server.report(PeerLost("no route"))
    for rank in (1, 2):
        error = group.wait_for_loss(rank)
        assert isinstance(error, PeerLost)
        assert "no route" in str(error)


def test_time_of_a_stopped_process_is_not_silence(monkeypatch):
    times = iter([0.0, 0.2, 60.2, 60.4])
    monkeypatch.setattr(time, "monotonic", lambda: next(times))
    clock = peer_watch.PatientClock()
    assert [round(clock.elapsed(), 6) for _ in range(3)] == [0.2, 1.0, 0.2]


# MIN_WORKERS.


def elastic(group, after=1):
    group.settings = group.settings.replace(min_workers=2, elastic_after=after)


def test_group_starts_without_a_missing_worker(group):
    elastic(group)
    server = group.server()
    group.join(2)
    message = server.start_all(MESSAGE, LONG)
    group.wait()
    assert message.members == (0, 2)
    assert group.received == {2: message}


def test_too_few_workers_do_not_start(group):
    elastic(group)
    with pytest.raises(RendezvousTimeout, match=r"worker 1 .* worker 2 "):
        group.server().start_all(MESSAGE, 1.5)


def test_late_worker_waits_and_ends_with_the_run(group, caplog, monkeypatch):
    monkeypatch.setattr(waiting, "silence_seconds", lambda: 0.3)
    caplog.set_level("INFO", logger="qfleet")
    elastic(group)
    group.settings = group.settings.replace(rendezvous_timeout=SHORT)
    server = group.server()
    two = group.join(2)
    server.start_all(MESSAGE, LONG)
    group.join(1)
    wait_until(lambda: "which trains without it until the next restart" in caplog.text)
    time.sleep(1.5 * SHORT)
    assert 1 not in group.received
    two.finish()
    server.finish()
    group.wait()
    assert group.received[1] is None
    assert group.lost == {0: [], 1: [], 2: []}


def connect_with_hello(group, rank):
    """Return the connection of a new process to the chief, after its first message."""
    channel = connect_to_chief(("127.0.0.1", group.port), rank, group.secret(rank).read(), LONG)
    channel.send({"kind": "hello", "fingerprint": SAME})
    return channel


def test_late_worker_that_dies_is_no_loss(group):
    elastic(group)
    server = group.server()
    group.join(2)
    server.start_all(MESSAGE, LONG)
    channel = connect_with_hello(group, 1)
    assert receive(channel, time.monotonic() + LONG)["kind"] == "waiting"
    channel.close()
    time.sleep(0.5)
    assert group.lost == {0: [], 1: [], 2: []}


def test_new_process_of_a_member_means_that_it_was_lost(group):
    elastic(group)
    server = group.server()
    group.join(2)
    server.start_all(MESSAGE, LONG)
    channel = connect_with_hello(group, 2)
    assert "a new process has taken its place" in str(group.wait_for_loss(0))
    channel.close()


def test_groups_of_state_shards_stay_whole(tmp_path):
    group = Group(tmp_path, size=4)
    group.settings = group.settings.replace(min_workers=2, elastic_after=1, state_shards=2)
    server = group.server()
    for rank in (1, 3):
        group.join(rank)
    message = server.start_all(MESSAGE, LONG)
    assert message.members == (0, 1)
    server.finish()
    group.wait()
    assert group.received == {1: message, 3: None}
    for side in group.sides:
        side.close()
