"""Leases: real processes that compete for the same run."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common import lease, storage
from common.errors import PeerLost, QfleetError, RunError, StorageFull, StorageUnavailable
from common.lease import Lease, holder
from common.lease.holder import Holder
from common.storage import StoragePath
from tests.support.patience import seconds, wait_until
from tests.support.storage_emulator import BUCKET, Emulator, Proxy, point_to

RENEW, EXPIRY = seconds(0.1), seconds(0.75)

HOLD = """
import sys
from common import storage
from common.errors import QfleetError
from common import lease
RENEW, EXPIRY = map(float, sys.argv[3:5])
lease.RENEW_INTERVAL_SECONDS = RENEW
lease.EXPIRY_SECONDS = EXPIRY
run = storage.path(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
try:
    held = lease.Lease(run, sys.argv[2]).acquire()
    print("held", flush=True)
    for line in sys.stdin:
        held.confirm()
        print("still", flush=True)
    held.close()
except QfleetError as error:
    print(type(error).__name__, error, flush=True)
"""


@pytest.fixture(autouse=True)
def short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the intervals here; the processes of HOLD get the same."""
    monkeypatch.setattr(lease, "RENEW_INTERVAL_SECONDS", RENEW)
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", EXPIRY)


@pytest.fixture
def without_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that waits for the expiry of a lease does not end."""
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", 1e6)


def error_of(held: Lease) -> QfleetError:
    """Wait until the holder notices at a renewal that it has lost its lease, and return why."""
    found: list[QfleetError] = []

    def is_lost() -> bool:
        try:
            held.check()
        except QfleetError as error:
            found.append(error)
        return bool(found)

    wait_until(is_lost)
    return found[0]


class Contender:
    """A process that acquires the lease of a run, like the chief of a job."""

    def __init__(self, run: StoragePath, job_id: str) -> None:
        numbers = [str(lease.RENEW_INTERVAL_SECONDS), str(lease.EXPIRY_SECONDS)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(run), job_id, *numbers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, line: str = "") -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def receive(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def acquire(self) -> str:
        self.send()
        return self.receive()


@contextmanager
def contenders(run: StoragePath, *job_ids: str) -> Iterator[list[Contender]]:
    started = [Contender(run, job_id) for job_id in job_ids]
    try:
        assert {each.receive() for each in started} == {"ready"}
        yield started
    finally:
        for each in started:
            each.process.kill()
            each.process.communicate()


@pytest.fixture(params=["local", "gs"])
def run_folder(request: pytest.FixtureRequest, tmp_path: Path) -> StoragePath:
    """A run's folder, on disk and in the emulator."""
    if request.param == "local":
        return tmp_path / "r"
    return storage.path(request.getfixturevalue("gs")) / "r"


def test_acquire_concurrently_one_process_succeeds(run_folder: StoragePath) -> None:
    with contenders(run_folder, "a", "b", "c") as three:
        for each in three:
            each.send()
        answers = [each.receive() for each in three]
        assert sorted(answer.split()[0] for answer in answers) == ["RunError"] * 2 + ["held"]
        refused = next(answer for answer in answers if answer != "held")
        assert "run r is in use by another job (process " in refused
        assert refused.endswith("wait for it or stop it")
        winner = three[answers.index("held")]
        winner.send()
        assert winner.receive() == "still"


def test_acquire_expired_lease_one_process_succeeds(tmp_path: Path) -> None:
    abandoned(tmp_path / "r")
    with contenders(tmp_path / "r", "a", "b", "c") as three:
        for each in three:
            each.send()
        answers = sorted(each.receive().split()[0] for each in three)
        assert answers == ["RunError"] * 2 + ["held"]


def abandoned(run: StoragePath, **changes: Any) -> Holder:
    """Write a lease whose holder is on another machine."""
    gone = Holder("gone", "t", "elsewhere", "another boot", 1, 1, "", 7)
    gone = replace(gone, **changes)
    write(run, gone.to_bytes())
    return gone


def write(run: StoragePath, content: bytes) -> None:
    """Replace the lease."""
    path = run / lease.NAME
    storage.write_if(path, content, storage.read_versioned(path).version)


@pytest.mark.usefixtures("without_expiry")
def test_acquire_killed_local_holder_does_not_wait(tmp_path: Path) -> None:
    with contenders(tmp_path / "r", "a") as (other,):
        assert other.acquire() == "held"
        other.process.send_signal(signal.SIGKILL)
        status = Path(f"/proc/{other.process.pid}/stat")
        wait_until(lambda: status.read_text().split()[2] == "Z")
        Lease(tmp_path / "r", "b").acquire().close()


@pytest.mark.usefixtures("without_expiry")
def test_acquire_reused_pid_does_not_wait(tmp_path: Path) -> None:
    here = Holder.here("a")
    abandoned(tmp_path / "r", **{**vars(here), "process_start": here.process_start - 1})
    Lease(tmp_path / "r", "b").acquire().close()


def test_acquire_unrenewed_remote_lease_waits_for_expiry(tmp_path: Path) -> None:
    abandoned(tmp_path / "r")
    start = time.monotonic()
    held = Lease(tmp_path / "r", "b").acquire()
    assert time.monotonic() - start >= EXPIRY
    held.check()
    held.close()
    assert not (tmp_path / "r" / lease.NAME).exists()


@pytest.mark.usefixtures("without_expiry")
def test_acquire_renewed_lease_is_refused(run_folder: StoragePath) -> None:
    with contenders(run_folder, "a") as (other,):
        assert other.acquire() == "held"
        assert lease.active_leases([run_folder, run_folder.parent / "other"]) == {run_folder}
        with pytest.raises(RunError, match="in use by another job"):
            Lease(run_folder, "b").acquire()
        other.send()
        assert other.receive() == "still"
        assert other.process.communicate()[0] == ""
    Lease(run_folder, "b").acquire().close()


@pytest.mark.usefixtures("without_expiry")
def test_acquire_same_job_takes_over_without_waiting(tmp_path: Path) -> None:
    old = Lease(tmp_path / "r", "a").acquire()
    new = Lease(tmp_path / "r", "a").acquire()
    error = error_of(old)
    assert isinstance(error, PeerLost)
    assert "a newer attempt of this job" in str(error)
    old.close()
    new.check()
    assert (tmp_path / "r" / lease.NAME).exists(), "the old holder must not delete the new lease"
    new.close()


def test_check_after_stopped_holder_was_replaced_raises(tmp_path: Path) -> None:
    with contenders(tmp_path / "r", "a") as (other,):
        assert other.acquire() == "held"
        other.process.send_signal(signal.SIGSTOP)
        held = Lease(tmp_path / "r", "b").acquire()
        other.process.send_signal(signal.SIGCONT)
        time.sleep(4 * RENEW)
        other.send()
        assert other.receive().startswith("RunError run r is in use by another job")
        held.check()
        held.close()


def test_check_after_run_was_deleted_raises(tmp_path: Path) -> None:
    held = Lease(tmp_path / "r", "a").acquire()
    shutil.rmtree(tmp_path / "r")
    with pytest.raises(RunError, match="was deleted while in use"):
        held.confirm()
    assert "was deleted while in use" in str(error_of(held))
    held.close()


def test_copy_for_people_is_restored(tmp_path: Path) -> None:
    """The lease itself is in the files behind it, so a deleted copy frees nothing."""
    held = Lease(tmp_path / "r", "a").acquire()
    (tmp_path / "r" / lease.NAME).unlink()
    wait_until((tmp_path / "r" / lease.NAME).exists)
    held.confirm()
    held.close()


@pytest.mark.usefixtures("without_expiry")
def test_renewal_survives_temporary_storage_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file replaces the folder of the run for a while."""
    held = Lease(tmp_path / "r", "a").acquire()
    (tmp_path / "r").rename(tmp_path / "aside")
    (tmp_path / "r").write_text("in the way")
    wait_until(lambda: "was not renewed" in caplog.text)
    time.sleep(2 * RENEW)
    assert len([m for m in caplog.messages if "was not renewed" in m]) == 1
    (tmp_path / "r").unlink()
    os.rename(tmp_path / "aside", tmp_path / "r")
    held.confirm()
    held.close()
    assert not (tmp_path / "r" / lease.NAME).exists()


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"job_id": 1}',
        json.dumps({"job_id": "a"}).encode(),
        b"null",
    ],
)
def test_acquire_damaged_lease_succeeds(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", 0.2)  # is waited for
    write(tmp_path / "r", content)
    held = Lease(tmp_path / "r", "b").acquire()
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", 1e6)  # the new lease stays fresh
    held.check()
    held.close()


@pytest.fixture
def without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide /proc, as on macOS."""
    monkeypatch.setattr(holder, "PROC", tmp_path / "no-proc")


def test_holder_that_proc_hides_has_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Holder.here("a")
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").touch()
    monkeypatch.setattr(holder, "PROC", tmp_path)
    monkeypatch.setattr(Holder, "is_here", lambda self: True)
    assert here.has_ended(), "a process of this user, which /proc would show"

    def forbid(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", forbid)
    assert not here.has_ended()


@pytest.mark.usefixtures("without_proc")
@pytest.mark.usefixtures("without_expiry")
def test_acquire_without_proc_finds_ended_local_holder(tmp_path: Path) -> None:
    here = Holder.here("a")
    assert here.is_here()
    assert not here.has_ended()
    assert Holder.here("b").process_start == here.process_start
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    abandoned(tmp_path / "r", **{**vars(here), "pid": child.pid, "process_start": 1})
    assert lease.active_leases([tmp_path / "r"]) == set()
    child.communicate()
    Lease(tmp_path / "r", "b").acquire().close()


@pytest.mark.usefixtures("without_proc")
def test_holder_without_proc_and_psutil_is_never_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    holder._machine_without_proc.cache_clear()
    try:
        here = Holder.here("a")
        assert not here.has_ended()
        assert holder._process_start(2**22 + 1) == 0
    finally:
        holder._machine_without_proc.cache_clear()


@pytest.fixture
def stoppable_gs(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[StoragePath, threading.Event]]:
    """Return a folder, and an event that lets its storage respond while it is set."""
    up = threading.Event()
    up.set()
    monkeypatch.setattr(lease, "REQUEST_SECONDS", 0.1)
    monkeypatch.setattr(lease, "RETRY_INTERVAL_SECONDS", 0.1)
    with Proxy(emulator, lambda _: None if up.is_set() else 503) as proxy:
        point_to(monkeypatch, proxy.address)
        yield storage.path(f"gs://{BUCKET}/{uuid.uuid4().hex}") / "r", up


def test_holder_without_storage_stops_committing_before_expiry(
    stoppable_gs: tuple[StoragePath, threading.Event],
) -> None:
    folder, up = stoppable_gs
    held = Lease(folder, "a").acquire()
    held.check()
    up.clear()
    time.sleep(EXPIRY * 0.8)
    with pytest.raises(StorageUnavailable, match="was not renewed"):
        held.check()
    up.set()
    held.confirm()  # no process has taken over, so it continues
    held.check()
    held.close()


def test_outage_does_not_expire_a_lease(
    stoppable_gs: tuple[StoragePath, threading.Event],
) -> None:
    """The time in which no process reaches storage is not the holder's silence."""
    folder, up = stoppable_gs
    held = Lease(folder, "a").acquire()
    outcome: list[Exception] = []

    def contend() -> None:
        try:
            Lease(folder, "b").acquire()
        except RunError as error:
            outcome.append(error)

    # Another process of another machine, for which only renewals count.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Holder, "is_here", lambda self: False)
        contender = threading.Thread(target=contend)
        contender.start()
        time.sleep(EXPIRY / 5)
        up.clear()
        time.sleep(2 * EXPIRY)
        up.set()
        contender.join(seconds(60))
    assert "in use by another job" in str(outcome[0])
    held.confirm()
    held.close()


def test_long_outage_is_reported_once(
    stoppable_gs: tuple[StoragePath, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, up = stoppable_gs
    reported: list[QfleetError] = []
    held = Lease(folder, "a", on_lost=reported.append).acquire()
    monkeypatch.setattr(storage.base, "RETRY_SECONDS", 0.8)
    up.clear()
    wait_until(lambda: reported)
    time.sleep(3 * RENEW)
    with pytest.raises(StorageUnavailable):
        held.confirm()
    up.set()
    assert [type(error) for error in reported] == [StorageUnavailable]
    held.close()


def test_lease_of_a_full_disk_ends_with_a_final_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[QfleetError] = []
    held = Lease(tmp_path, "a", on_lost=reported.append).acquire()
    monkeypatch.setattr(storage.base, "RETRY_SECONDS", 0.3)
    with monkeypatch.context() as full:

        def refuse(*_: object) -> None:
            raise StorageFull("no space left")

        full.setattr(storage, "write_if", refuse)
        wait_until(lambda: reported)
    assert isinstance(reported[0], StorageFull)
    held.close()


@pytest.mark.usefixtures("without_expiry")
@pytest.mark.parametrize("other_site", [False, True])
def test_same_job_of_another_cluster_is_refused(
    run_folder: StoragePath, monkeypatch: pytest.MonkeyPatch, other_site: bool
) -> None:
    """Two clusters may run a job of the same namespace and name on one bucket."""
    monkeypatch.setenv(holder.CLUSTER_CA, "certificate of one cluster")
    held = Lease(run_folder, "team.hybrid").acquire()
    monkeypatch.setattr(Holder, "is_here", lambda self: False)
    if other_site:
        monkeypatch.setenv(holder.CLUSTER_CA, "certificate of another cluster")
        with pytest.raises(RunError, match="in use by another job"):
            Lease(run_folder, "team.hybrid").acquire()
        held.confirm()
    else:
        newer = Lease(run_folder, "team.hybrid").acquire()
        with pytest.raises(PeerLost):
            held.confirm()
        newer.close()
    held.close()


def test_lease_names_no_file_outside_of_its_folder(tmp_path: Path) -> None:
    """A commit in a lease of another user writes nothing but a JSON file next to it."""
    abandoned(tmp_path / "r", final=("../result.json", "{}"), machine=Holder.here("a").machine)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease, "EXPIRY_SECONDS", 0.2)
        Lease(tmp_path / "r", "b").acquire().close()
    assert not (tmp_path / "result.json").exists()
