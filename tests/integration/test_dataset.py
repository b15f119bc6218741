"""Data sets made and read by real processes, on a real storage emulator, broken from outside."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common import storage
from common.data import load
from tests.support.patience import seconds
from tests.support.storage_emulator import BUCKET, Emulator
from tests.support.training_processes import ROOT, TrainingProcess, metrics, training_processes

LARGE = ("TRAIN_EXAMPLES=70000", "QUBITS=2", "VALIDATION_EXAMPLES=20", "TEST_EXAMPLES=20")
# Shortens retries, and stops after a number of shards if STOPS_AFTER is set.
QUICK = f"""
import itertools, os, time
from common import storage
storage.limit_retries({seconds(2.5)})
if most := os.environ.get("STOPS_AFTER"):
    write, written = storage.write_atomic, itertools.count()
    def stopping(path, data):
        if path.name.endswith(".parquet") and next(written) >= int(most):
            time.sleep(3600)
        write(path, data)
    storage.write_atomic = stopping
"""


@pytest.fixture
def start() -> Iterator[Callable[..., TrainingProcess]]:
    yield from training_processes()


@pytest.fixture
def short_retries(tmp_path: Path) -> dict[str, str]:
    """Environment of processes with short retries."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(QUICK)
    return {"PYTHONPATH": f"{tmp_path / 'site'}{os.pathsep}{ROOT}"}


def shards(root: Path) -> list[Path]:
    return sorted(root.glob("datasets/*/train-*.parquet"))


@pytest.mark.exhaustive
def test_killed_generation_resumes_with_the_same_bytes(
    tmp_path: Path, short_retries: dict[str, str], start: Callable[..., TrainingProcess]
) -> None:
    first = start(tmp_path / "a", *LARGE, module="common.data", STOPS_AFTER="42", **short_retries)
    first.wait_until(lambda: len(shards(tmp_path / "a")) == 42)
    second = start(tmp_path / "a", *LARGE, module="common.data", **short_retries)
    assert second.wait() == 2
    assert "is in use by another job (process " in second.output
    assert "Traceback" not in second.output
    first.process.send_signal(signal.SIGKILL)
    first.wait()
    (folder,) = (tmp_path / "a" / "datasets").iterdir()
    assert not (folder / "manifest.json").exists()
    there = {path: path.stat().st_mtime_ns for path in shards(tmp_path / "a")}
    altered = shards(tmp_path / "a")[0]
    altered.write_bytes(b"x" + altered.read_bytes()[1:])
    (folder / f".{altered.name}.0{storage.PARTIAL_SUFFIX}").write_bytes(b"half of a sh")

    again = start(tmp_path / "a", *LARGE, module="common.data", **short_retries)
    assert again.wait() == 0, again.output
    assert f"Next steps:\n  make training DATA={folder}" in again.output
    assert f"{altered} was altered: it is written again" in again.output
    kept = [path for path, when in there.items() if path.stat().st_mtime_ns == when]
    assert len(kept) == 39  # the five segments that were noted, but for the altered one
    visible = {path.name for path in folder.iterdir() if path.name[0] != "."}
    assert visible == {
        "manifest.json",
        *(s.file for split in ("train", "validation", "test") for s in load(folder).shards(split)),
    }
    fresh = start(tmp_path / "b", *LARGE, module="common.data", **short_retries)
    assert fresh.wait() == 0
    for name in visible:
        same = tmp_path / "b" / "datasets" / folder.name / name
        assert (folder / name).read_bytes() == same.read_bytes()


@pytest.mark.nightly
def test_storage_outage_in_mid_epoch_exits_with_145(
    tmp_path: Path,
    short_retries: dict[str, str],
    start: Callable[..., TrainingProcess],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The data set is in gs://, read by parts by two workers; the run is local."""
    emulator = Emulator().start()
    environment = {**short_retries, "STORAGE_EMULATOR_HOST": emulator.address}
    args = ("WORKERS=2", "BATCH=32", "INITIALIZATIONS=1", "EPOCHS=2", "QUBITS=2", "PROFILER_PORT=0")
    args += ("DATA_MEMORY=1", "MAX_RESTARTS=0", "CHECKPOINT_INTERVAL=1")
    try:
        large = ("TRAIN_EXAMPLES=150000", *LARGE[1:])
        address = {"STORAGE_EMULATOR_HOST": emulator.address}
        made = start(f"gs://{BUCKET}", *large, module="common.data", **address)
        assert made.wait() == 0, made.output
        data = made.output.rpartition("DATA=")[2].split()[0]
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", emulator.address)
        kept = {str(f): storage.read_bytes(f) for f in storage.files(storage.path(data))}
        training = start(tmp_path / "runs", *args, f"DATA={data}", **environment)
        events = tmp_path / "runs" / "hybrid" / "logs" / "steps"
        training.wait_until(lambda: any(f.stat().st_size > 3000 for f in events.glob("*")))
        emulator.stop()
        assert training.wait() == 145, training.output
        assert "Traceback" not in training.output
        assert "storage does not respond for gs://" in training.output
        shown = training.output.lower().replace("the import of tensorflow", "")  # a wait
        assert "tensorflow" not in shown

        emulator.start()
        for file, content in kept.items():
            storage.write_atomic(storage.path(file), content)
        again = start(tmp_path / "runs", *args, f"DATA={data}", **environment)
        assert again.wait() == 0, again.output
        assert "Resuming run 'hybrid' from checkpoint" in again.output
        assert [line["epoch"] for line in metrics(tmp_path / "runs" / "hybrid")] == [1, 2]
    finally:
        emulator.stop()


@pytest.mark.parametrize(
    ("change", "settings", "words"),
    [
        (lambda f: None, ["QUBITS=3"], "QUBITS=3 does not fit DATA="),
        (lambda f: None, ["QUBITS=2", "TRAIN_EXAMPLES=80"], "TRAIN_EXAMPLES=80 does not fit DATA="),
        (lambda f: None, ["QUBITS=2", "PARTITIONS=8"], "PARTITIONS=8 does not fit DATA="),
        (lambda f: None, ["QUBITS=2", "ENCODER=pca"], "generated without it: omit ENCODER"),
        (lambda f: (f / "manifest.json").unlink(), [], "is not a data set: allowed are"),
        (
            lambda f: (f / "manifest.json").write_text(
                json.dumps({**json.loads((f / "manifest.json").read_text()), "format": 1})
            ),
            [],
            "has format 1 and this version of qfleet reads format 5",
        ),
        (lambda f: next(f.glob("train-*")).unlink(), [], "is missing from its data set"),
    ],
)
def test_worker_unusable_data_folder_exits_with_2(
    change: Callable, settings: list[str], words: str, tmp_path: Path
) -> None:
    from common.data import prepare
    from common.settings import Settings

    made = prepare(
        Settings.from_values(qubits=2, train_examples=90, validation_examples=20, test_examples=20),
        tmp_path,
    )
    change(made.path)
    done = subprocess.run(
        [sys.executable, "-m", "training.worker", f"STORAGE={tmp_path}", f"DATA={made.path}",
         "WORKERS=1", *(settings or ["QUBITS=2"])],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    said = (done.stdout + done.stderr).strip()
    assert words in said
    assert "Traceback" not in said
