"""One gang at a time: real processes that want the same run."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from common import lease, storage
from common.errors import PeerLost, RunError
from common.lease import Holder, Lease
from common.storage import StoragePath

BEAT, WATCH, CONFIRM = 0.2, 1.5, 0.3

HOLD = """
import sys
from common import storage
from common.errors import QfleetError
from common import lease
lease.RENEW_INTERVAL_SECONDS, lease.EXPIRY_SECONDS, lease.CONFIRM_SECONDS = map(float, sys.argv[3:6])
run = storage.path(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
try:
    held = lease.Lease(run, sys.argv[2]).acquire()
    print("held", flush=True)
    for line in sys.stdin:
        held.check()
        print("still", flush=True)
    held.close()
except QfleetError as error:
    print(type(error).__name__, error, flush=True)
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases beat and are watched faster; the processes of HOLD are told the same."""
    monkeypatch.setattr(lease, "RENEW_INTERVAL_SECONDS", BEAT)
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", WATCH)
    monkeypatch.setattr(lease, "CONFIRM_SECONDS", CONFIRM)


class Gang:
    """A process that wants a run, as the chief of a gang."""

    def __init__(self, run: StoragePath, gang: str) -> None:
        numbers = [str(number) for number in (BEAT, WATCH, CONFIRM)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(run), gang, *numbers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def say(self, line: str = "") -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def acquire(self) -> str:
        self.say()
        return self.answer()


@contextmanager
def gangs(run: StoragePath, *names: str) -> Iterator[list[Gang]]:
    made = [Gang(run, name) for name in names]
    try:
        assert {gang.answer() for gang in made} == {"ready"}
        yield made
    finally:
        for gang in made:
            gang.process.kill()
            gang.process.communicate()


@pytest.fixture(params=["local", "gs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> StoragePath:
    """A run's folder, on disk and in the emulator (which knows no preconditions)."""
    if request.param == "local":
        return tmp_path / "r"
    return storage.path(request.getfixturevalue("gs")) / "r"


def test_of_gangs_that_start_together_one_trains(place: StoragePath) -> None:
    with gangs(place, "a", "b", "c") as all_three:
        for gang in all_three:
            gang.say()
        answers = [gang.answer() for gang in all_three]
        assert sorted(answer.split()[0] for answer in answers) == ["RunError"] * 2 + ["held"]
        refused = next(answer for answer in answers if answer != "held")
        assert "run r is being trained by another gang (process " in refused
        assert refused.endswith("wait for it, stop it, or choose another RUN")
        winner = all_three[answers.index("held")]
        winner.say()
        assert winner.answer() == "still"


def test_of_gangs_that_find_a_dead_lease_one_trains(tmp_path: Path) -> None:
    abandoned(tmp_path / "r")
    with gangs(tmp_path / "r", "a", "b", "c") as three:
        for gang in three:
            gang.say()
        answers = sorted(gang.answer().split()[0] for gang in three)
        assert answers == ["RunError"] * 2 + ["held"]


def abandoned(run: Path, **changes: object) -> Holder:
    """A lease whose holder is on another machine, where nobody can look."""
    holder = Holder("gone", "t", "elsewhere", "another boot", 1, 1, 7)
    storage.write_json(run / lease.NAME, {**vars(holder), **changes})
    return holder


def test_a_killed_holder_of_this_machine_is_replaced_at_once(tmp_path: Path) -> None:
    with gangs(tmp_path / "r", "a") as (gang,):
        assert gang.acquire() == "held"
        gang.process.send_signal(signal.SIGKILL)
        while Path(f"/proc/{gang.process.pid}/stat").read_text().split()[2] != "Z":
            time.sleep(0.01)
        start = time.monotonic()
        Lease(tmp_path / "r", "b").acquire().close()
        assert time.monotonic() - start < WATCH / 2


def test_a_later_process_with_the_same_number_is_not_the_holder(tmp_path: Path) -> None:
    here = Holder.here("a")
    abandoned(tmp_path / "r", **{**vars(here), "born": here.born - 1})
    start = time.monotonic()
    Lease(tmp_path / "r", "b").acquire().close()
    assert time.monotonic() - start < WATCH / 2


def test_a_holder_elsewhere_that_stands_still_is_replaced_after_a_while(tmp_path: Path) -> None:
    abandoned(tmp_path / "r")
    start = time.monotonic()
    held = Lease(tmp_path / "r", "b").acquire()
    assert WATCH <= time.monotonic() - start < WATCH + CONFIRM + 1
    held.check()
    held.close()
    assert not (tmp_path / "r" / lease.NAME).exists()


def test_a_holder_that_lives_keeps_its_run(place: StoragePath) -> None:
    with gangs(place, "a") as (gang,):
        assert gang.acquire() == "held"
        assert lease.active_leases([place, place.parent / "other"]) == {place}
        start = time.monotonic()
        with pytest.raises(RunError, match="being trained by another gang"):
            Lease(place, "b").acquire()
        assert time.monotonic() - start < WATCH
        gang.say()
        assert gang.answer() == "still"
        assert gang.process.communicate()[0] == ""
    Lease(place, "b").acquire().close()


def test_a_restart_of_the_same_gang_goes_on_at_once(tmp_path: Path) -> None:
    old = Lease(tmp_path / "r", "a").acquire()
    start = time.monotonic()
    new = Lease(tmp_path / "r", "a").acquire()
    assert time.monotonic() - start < WATCH / 2
    time.sleep(3 * BEAT)
    with pytest.raises(PeerLost, match="a newer attempt of this gang"):
        old.check()
    old.close()
    new.check()
    assert (tmp_path / "r" / lease.NAME).exists(), "the old one must not delete the new one's lease"
    new.close()


def test_a_holder_that_was_stopped_and_replaced_learns_of_it(tmp_path: Path) -> None:
    with gangs(tmp_path / "r", "a") as (gang,):
        assert gang.acquire() == "held"
        gang.process.send_signal(signal.SIGSTOP)
        held = Lease(tmp_path / "r", "b").acquire()
        gang.process.send_signal(signal.SIGCONT)
        time.sleep(4 * BEAT)
        gang.say()
        assert gang.answer().startswith("RunError run r is being trained by another gang")
        held.check()
        held.close()


def test_a_run_deleted_while_it_trains_is_noticed(tmp_path: Path) -> None:
    held = Lease(tmp_path / "r", "a").acquire()
    (tmp_path / "r" / lease.NAME).unlink()
    time.sleep(3 * BEAT)
    with pytest.raises(RunError, match="was it deleted"):
        held.check()
    held.close()


def test_storage_that_is_away_for_a_while_costs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The run's folder is moved away behind a file, then comes back."""
    held = Lease(tmp_path / "r", "a").acquire()
    (tmp_path / "r").rename(tmp_path / "aside")
    (tmp_path / "r").write_text("in the way")
    time.sleep(4 * BEAT)
    held.check()
    assert len([m for m in caplog.messages if "was not renewed" in m]) == 1
    (tmp_path / "r").unlink()
    os.rename(tmp_path / "aside", tmp_path / "r")
    time.sleep(2 * BEAT)
    held.check()
    held.close()
    assert not (tmp_path / "r" / lease.NAME).exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"gang": 1}', json.dumps({"gang": "a"}).encode(), b"null"],
)
def test_a_damaged_lease_keeps_nobody_out(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", 0.2)
    storage.write_atomic(tmp_path / "r" / lease.NAME, content)
    held = Lease(tmp_path / "r", "b").acquire()
    held.check()
    held.close()
