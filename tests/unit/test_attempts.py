"""Counts of starts: what counts as failed, the limit, and the pause before a start."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common import checkpoints, storage
from common.errors import (
    DeadlineReached,
    PeerLost,
    Preempted,
    QfleetError,
    RendezvousTimeout,
    RunError,
    SettingsError,
    Stalled,
    StorageFull,
    StorageUnavailable,
)
from common.runs import Attempts, attempts, backoff_seconds
from common.storage import StoragePath


def start(run: StoragePath, limit: int = 3, rank: int = 0, job_id: str = "job") -> Attempts:
    """Begin a start that is killed unless it ends."""
    begun = Attempts(run, rank)
    begun.begin(limit, job_id)
    return begun


@pytest.mark.parametrize("rank", [0, 2])
def test_killed_starts_end_with_the_limit(root: StoragePath, rank: int) -> None:
    for _ in range(3):
        start(root / "r", rank=rank)
    with pytest.raises(RunError) as caught:
        start(root / "r", rank=rank)
    who = "worker 2 of run r" if rank else "run r"
    assert str(caught.value) == (
        f"{who} made no progress in 3 attempts in a row (MAX_ATTEMPTS=3); the last one failed:"
        f" {attempts.UNKNOWN_CAUSE}"
    )
    assert Attempts(root / "r", rank).failure("job") == (str(caught.value), True)
    # Only a user starts the run after that, and has changed something.
    assert Attempts(root / "r", rank).begin(3, "job").failed == 1
    assert Attempts(root / "r", rank).failure("job") == ("", False)


@pytest.mark.parametrize(
    "kind",
    [
        DeadlineReached, PeerLost, Preempted, RendezvousTimeout, StorageFull, StorageUnavailable,
        SettingsError, None,
    ],
)  # fmt: skip
def test_end_that_is_no_failure_does_not_count(
    tmp_path: Path, kind: type[QfleetError] | None
) -> None:
    start(tmp_path)
    for number in range(2, 6):
        begun = Attempts(tmp_path)
        record = begun.begin(2, "job")
        assert (record.attempts, record.failed) == (number, 2)
        begun.end("the reason", kind.exit_code if kind else 0)


@pytest.mark.parametrize("is_written", [False, True])
def test_signal_while_a_start_is_written_does_not_count(
    root: StoragePath, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    write = storage.write_if

    def interrupted(*arguments: Any) -> str:
        if is_written:
            write(*arguments)
        raise Preempted("SIGTERM")

    with monkeypatch.context() as patched:
        patched.setattr(storage, "write_if", interrupted)
        begun = Attempts(root / "r")
        with pytest.raises(Preempted):
            begun.begin(1, "job")
    begun.end("SIGTERM", Preempted.exit_code)
    record = Attempts(root / "r").begin(1, "job")
    assert (record.attempts, record.failed) == (1 + is_written, 1)


@pytest.mark.parametrize("exit_code", [1, Stalled.exit_code, 139])
def test_own_failure_counts_with_its_cause(tmp_path: Path, exit_code: int) -> None:
    for _ in range(2):
        start(tmp_path).end("no progress", exit_code)
    with pytest.raises(RunError, match=r"2 attempts in a row .*: no progress"):
        start(tmp_path, limit=2)


def test_last_failure_is_the_cause_after_another_end(tmp_path: Path) -> None:
    for _ in range(2):
        start(tmp_path).end("no progress in the barrier", Stalled.exit_code)
    start(tmp_path, limit=9).end("stopped by SIGTERM", Preempted.exit_code)
    with pytest.raises(RunError, match=r"failed: no progress in the barrier$"):
        start(tmp_path, limit=2)


def test_new_checkpoint_resets_the_count(tmp_path: Path) -> None:
    for _ in range(5):
        begun = Attempts(tmp_path)
        record = begun.begin(2, "job")
        assert record.failed == 1
        checkpoints.save(tmp_path, 7, {"x": np.ones(1)}, {}, 1, attempt=record.attempts)
        start(tmp_path, rank=1, limit=1)


def test_lost_peers_have_a_limit_of_their_own(tmp_path: Path) -> None:
    for _ in range(attempts.PEER_LOSS_FACTOR * 2):
        start(tmp_path, limit=2).end("worker 0 lost a peer", PeerLost.exit_code)
    with pytest.raises(RunError, match="8 attempts in a row, each of which ended by a lost peer"):
        start(tmp_path, limit=2)


def test_starts_of_a_refused_job_do_not_count(tmp_path: Path) -> None:
    """Its chief is refused while another job trains the run; its workers have started before."""
    start(tmp_path, rank=1, job_id="a")
    for number in range(5):
        start(tmp_path, rank=1, job_id=f"other-{number}", limit=1)
    assert Attempts(tmp_path, 1).begin(1, "a").failed == 1


@pytest.mark.parametrize("other_starts", [False, True])
def test_end_of_the_last_start_beside_a_start_is_no_conflict(
    root: StoragePath, monkeypatch: pytest.MonkeyPatch, other_starts: bool
) -> None:
    last, happened = start(root / "r"), []

    def newest_key(run: StoragePath) -> tuple[int, int]:
        if not happened:  # between reading and writing the record
            happened.append(True)
            if other_starts:
                start(run)
            else:
                last.end("lost its lease", PeerLost.exit_code)
        return (0, -1)

    monkeypatch.setattr(checkpoints, "newest_key", newest_key)
    newer = Attempts(root / "r")
    if other_starts:
        with pytest.raises(PeerLost, match="has started"):
            newer.begin(3, "job")
    else:
        record = newer.begin(3, "job")
        assert (record.attempts, record.peer_losses) == (2, 1)


def test_number_increases_although_the_record_was_deleted(tmp_path: Path) -> None:
    start(tmp_path)
    number = Attempts(tmp_path).begin(9).attempts
    checkpoints.save(tmp_path, 7, {"x": np.ones(1)}, {}, 1, attempt=number)
    storage.delete(tmp_path / "attempts")
    assert Attempts(tmp_path).begin(9).attempts == number + 1


def test_end_of_a_replaced_start_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = start(tmp_path)
    newer = Attempts(tmp_path)
    record = newer.begin(9, "job")
    old.end("stopped for an hour", Stalled.exit_code)
    assert "was not recorded" in caplog.messages[0]
    assert Attempts(tmp_path).begin(9, "job").failed == record.failed + 1


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"attempts": "1"}', b"[" * 100_000])
def test_damaged_record_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "attempts" / "worker-0.json"
    storage.write_if(path, content, storage.read_versioned(path).version)
    with pytest.raises(RunError, match="is damaged: delete the folder"):
        start(tmp_path)


def test_pause_grows_from_the_second_failure_on() -> None:
    assert [backoff_seconds(failed) for failed in range(9)] == [0, 0, 1, 2, 4, 8, 16, 30, 30]


def test_start_is_counted_without_numpy_and_tensorflow(tmp_path: Path) -> None:
    """They may be what a worker dies from."""
    code = (
        "import sys; from pathlib import Path\n"
        "import training.process.attempt; from common import runs\n"
        "runs.Attempts(Path(sys.argv[1])).begin(3)\n"
        "assert not {'numpy', 'tensorflow', 'cirq'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
