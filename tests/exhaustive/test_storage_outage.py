"""Outages of storage, and chiefs that are stopped for longer than their lease: real processes."""

import json
import random
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common import checkpoints, storage
from common.runs import Run
from tests.support.fake_gcs_server import FakeGcsServer
from tests.support.storage_emulator import BUCKET, Emulator, point_to
from tests.support.training_processes import (
    FAKE_TRAINING,
    FAKE_WORKER,
    SMALL,
    TrainingProcess,
    training_processes,
)

pytestmark = pytest.mark.nightly

start = pytest.fixture(training_processes)

EPOCHS = 400
RECOVERY_SECONDS = 60.0


def weights(run: Run) -> list[float]:
    with run.local_weights() as file:
        return json.loads(file.read_text())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The weights of a run without faults."""
    root = tmp_path_factory.mktemp("undisturbed")
    process = TrainingProcess(root, *SMALL[:-1], f"EPOCHS={EPOCHS}", module=FAKE_TRAINING)
    assert process.wait() == 0, process.output
    return weights(Run(root / "hybrid"))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    """An emulator that keeps its objects while it is stopped."""
    running = Emulator(folder=tmp_path / "objects").start()
    point_to(monkeypatch, running.address)
    yield running
    running.stop()


def newest_step(run: Run) -> int:
    return checkpoints.newest_key(run.path)[1]


@pytest.mark.parametrize("seconds", [20, 50, 90])
def test_training_survives_an_outage_of_storage(
    start: Callable[..., TrainingProcess], server: Emulator, undisturbed: list[float], seconds: int
) -> None:
    root = f"gs://{BUCKET}/{uuid.uuid4().hex}"
    run = Run.at(storage.path(root), "hybrid")
    # Four steps per epoch: the training lasts 2.4 times as long as the outage.
    process = start(root, *SMALL[:-1], f"EPOCHS={EPOCHS}", module=FAKE_TRAINING,
                    FAKE_STEP_SECONDS=str(0.0015 * seconds))  # fmt: skip
    process.wait_until(lambda: newest_step(run) > 20, pause=0.5)
    server.stop()
    time.sleep(seconds)
    assert process.process.poll() is None
    server.start()
    before = newest_step(run)
    process.wait_until(lambda: newest_step(run) > before, timeout=RECOVERY_SECONDS, pause=0.5)
    assert process.wait(600) == 0, process.output
    assert weights(run) == undisturbed
    assert "in use by another job" not in process.output
    if seconds < 50:
        assert "restarting all workers" not in process.output


@pytest.mark.parametrize(
    ("seed", "place"),
    [
        (0, "folder"),
        (0, "fake-gcs-server"),
        pytest.param(1, "folder", marks=pytest.mark.exhaustive),
        (1, "fake-gcs-server"),
    ],
)
def test_stopped_chief_writes_nothing_over_its_successor(
    start: Callable[..., TrainingProcess],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: list[float],
    place: str,
    seed: int,
) -> None:
    """It is stopped at a random moment, while it commits in every epoch of some milliseconds."""
    server = FakeGcsServer()
    root = str(tmp_path / "runs")
    if place != "folder":
        server.start()
        point_to(monkeypatch, server.address)
        root = f"gs://{BUCKET}/{uuid.uuid4().hex}"
    try:
        run = Run.at(storage.path(root), "hybrid")
        settings = (*SMALL[:-1], f"EPOCHS={EPOCHS}", "WORKERS=1", "LOG_UPLOAD_INTERVAL=1000")
        old = start(root, *settings, module=FAKE_WORKER, QFLEET_JOB_ID="old")
        old.wait_until(lambda: newest_step(run) > 0)
        time.sleep(random.Random(seed).uniform(0.0, 0.3))
        old.process.send_signal(signal.SIGSTOP)
        new = start(root, *settings, module=FAKE_WORKER, QFLEET_JOB_ID="new")
        new.wait_until(lambda: storage.exists(run.text_log(0, 2)), pause=0.1)
        old.process.send_signal(signal.SIGCONT)
        assert new.wait(240) == 0, new.output
        assert old.wait(60) in (0, 2, 138), old.output
        assert "Traceback" not in old.output
        assert weights(run) == undisturbed
        assert len(storage.children(run.path / "model")) == 1
    finally:
        server.stop()
