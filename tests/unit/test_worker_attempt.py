"""A start of a worker whose run is taken over while it writes."""

import json
from pathlib import Path

import pytest

from common import runs, storage
from common.errors import PeerLost, QfleetError
from common.settings import Settings
from training.cluster.spec import ClusterSpec
from training.process import logging_setup
from training.process.attempt import WorkerAttempt
from training.process.run_dir import LocalRunDir
from training.process.watchdog import Watchdog


class HarmlessWatchdog(Watchdog):
    """Does not end this process when the thread of a lease finds that the lease is lost."""

    def end(self, error: QfleetError) -> None:
        """Do nothing."""


@pytest.fixture(autouse=True)
def job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all attempts be those of one job."""
    monkeypatch.setenv("QFLEET_JOB_ID", "job")


def begin(root: Path) -> WorkerAttempt:
    settings = Settings.from_args([f"STORAGE={root}", "RUN=r"])
    attempt = WorkerAttempt(settings, ClusterSpec(("127.0.0.1:0",), 0), HarmlessWatchdog())
    attempt.begin()
    return attempt


def test_owner_that_lost_its_partial_file_names_the_takeover(tmp_path: Path) -> None:
    """The new owner deletes partial files before the old one reads its lease again."""
    old = begin(tmp_path)
    lost = storage.PartialFileDeleted("metrics.jsonl was not written")
    with begin(tmp_path), pytest.raises(PeerLost, match="newer attempt"):
        old.__exit__(type(lost), lost, None)


def test_metrics_are_not_written_after_a_takeover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging_setup, "add_log_file", lambda file, *, verbose: None)
    old = begin(tmp_path)
    assert old.claimed is not None
    with old, LocalRunDir(old.run, old.settings, 0, old.number, old.claimed) as run_dir:
        old.claimed.record("data", {}, {})
        run_dir.write_metrics(['{"epoch": 1}'])
        with begin(tmp_path), pytest.raises(PeerLost):
            run_dir.write_metrics(['{"epoch": 2}'])
    metrics = runs.Run.at(tmp_path, "r").path / "metrics.jsonl"
    assert isinstance(metrics, Path)
    assert json.loads(metrics.read_text()) == {"epoch": 1}
