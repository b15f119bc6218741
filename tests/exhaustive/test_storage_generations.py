"""Conditional writes and leases against a server with generations that is not our own emulator."""

import signal
import time
import uuid
from collections.abc import Iterator

import pytest

from common import lease, storage
from common.errors import RunError
from common.lease import Lease
from common.storage import StoragePath
from tests.support import conditional_storage
from tests.support.fake_gcs_server import FakeGcsServer
from tests.support.storage_emulator import BUCKET, point_to
from tests.unit.test_runs_lease import EXPIRY, RENEW, contenders

# The server is compiled for a minute. The default tests have the same checks on our own emulator.
pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def server() -> Iterator[FakeGcsServer]:
    running = FakeGcsServer().start()
    yield running
    running.stop()


@pytest.fixture
def folder(server: FakeGcsServer, monkeypatch: pytest.MonkeyPatch) -> StoragePath:
    point_to(monkeypatch, server.address)
    monkeypatch.setattr(lease, "RENEW_INTERVAL_SECONDS", RENEW)
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", EXPIRY)
    return storage.path(f"gs://{BUCKET}/{uuid.uuid4().hex}") / "r"


def test_write_if_needs_the_newest_version(folder: StoragePath) -> None:
    conditional_storage.check_versions(folder / "lease.json")


def test_deleted_file_is_created_once(folder: StoragePath) -> None:
    conditional_storage.check_deletion(folder / "lease.json")


def test_concurrent_increments_are_not_lost(folder: StoragePath) -> None:
    conditional_storage.check_counter(folder / "counter.json")


@pytest.mark.parametrize("round_number", range(5))
def test_of_three_contenders_one_gets_the_lease(folder: StoragePath, round_number: int) -> None:
    with contenders(folder, "a", "b", "c") as three:
        for each in three:
            each.send()
        answers = sorted(each.receive().split()[0] for each in three)
        assert answers == ["RunError"] * 2 + ["held"]


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.15, 0.2, 0.25])
def test_holder_that_was_stopped_loses_and_overwrites_nothing(
    folder: StoragePath, delay: float
) -> None:
    """Stopped at various moments of its renewals, which take place every 0.2 s."""
    with contenders(folder, "a") as (holder,):
        assert holder.acquire() == "held"
        time.sleep(0.5 + delay)
        holder.process.send_signal(signal.SIGSTOP)
        try:
            newer = Lease(folder, "b").acquire()
        except RunError:  # a renewal that the holder had sent before it stopped was completed
            newer = Lease(folder, "b").acquire()
        holder.process.send_signal(signal.SIGCONT)
        for _ in range(10):
            time.sleep(RENEW / 2)
            newer.confirm()
        holder.send()
        assert holder.receive().startswith("RunError run r is in use by another job")
        newer.confirm()
        with pytest.raises(RunError):
            Lease(folder, "c").acquire()
        newer.close()
