"""Inference by several real processes: one report, nothing twice, nothing missing."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest

from common import storage
from common.lease import Lease
from common.runs import Run
from tests.support.finished_run import finish

ROOT = Path(__file__).parents[2]
EXAMPLES = 5_000  # five pieces
# With every qubit turned, a piece takes long enough to be interrupted in.
QUBITS = 13


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A STORAGE with a finished run, answered by one process: what several must come to."""
    root = tmp_path_factory.mktemp("made")
    angles = np.random.default_rng(5).uniform(-1, 1, (EXAMPLES + 50, QUBITS)).astype("f4")
    table = root / "turned.npz"
    np.savez(table, x=angles, label=(angles.sum(axis=1) > 0).astype("i4"))
    finish(root, "small", f"DATA={table}", f"QUBITS={QUBITS}", f"TEST_EXAMPLES={EXAMPLES}")
    ended = infer(f"STORAGE={root}")
    assert ended.returncode == 0, ended.stderr
    shutil.copytree(root / "small" / "predictions", root / "alone")
    shutil.rmtree(root / "small" / "predictions")
    return root


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Run:
    """A copy of it to answer."""
    return Run(Path(shutil.copytree(made, tmp_path / "runs")) / "small")


def words(*args: str) -> tuple[list[str], dict[str, str]]:
    """The command and its environment; a warning of ours would be an error."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("QFLEET_")}
    return [sys.executable, "-m", "inference", *args], environment


def infer(*args: str) -> subprocess.CompletedProcess[str]:
    command, environment = words(*args)
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False
    )


@contextmanager
def begun(*args: str) -> Iterator[subprocess.Popen[str]]:
    """An inference that goes on, its lines to be read."""
    command, environment = words(*args)
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        try:
            yield child
        finally:
            child.terminate()


def worker(child: subprocess.Popen[str], index: int) -> psutil.Process:
    """The process of a worker."""
    (found,) = (
        one
        for one in psutil.Process(child.pid).children()
        if one.environ().get("JOB_COMPLETION_INDEX") == str(index)
    )
    return found


def numbers(page: Path) -> list[str]:
    """All numbers of a report that are no times."""
    text = re.sub(r"in \S+ s: [\d,]+ \w+/s( by \d+ workers)?", "", page.read_text())
    return re.findall(r"-?\d[\d.,]*", re.sub(r"Written [^<]*", "", text))


def assert_as_alone(run: Run) -> None:
    """The predictions are those of one process, byte for byte, and so are the report's numbers."""
    alone, ours = Path(str(run.path.parent)) / "alone", Path(str(run.predictions))
    assert (ours / "test.csv").read_bytes() == (alone / "test.csv").read_bytes()
    assert numbers(ours / "report.html") == numbers(alone / "report.html")
    assert not list(ours.rglob(".*.part"))


def answered(said: str) -> list[int]:
    """The pieces that were answered, as often as they were."""
    return sorted(int(n) for n in re.findall(r"worker \d+: piece (\d+)/5  ", said))


@pytest.mark.parametrize(
    ("number", "how"),
    [
        (signal.SIGKILL, "was killed (SIGKILL)"),
        (signal.SIGTERM, "ended with exit code 143 (stopped by SIGTERM: the pieces that are"
         " answered stay)"),
    ],
)  # fmt: skip
def test_a_lost_worker_is_started_again_alone(run: Run, number: int, how: str) -> None:
    said = []
    with begun(f"STORAGE={run.path.parent}", "PARALLELISM=2") as child:
        assert child.stdout
        assert child.stderr
        for line in child.stdout:
            said.append(line)
            if line.startswith("worker 1: pieces"):
                worker(child, 1).send_signal(number)
                break
        rest, complaint = child.communicate(timeout=200)
    text = "".join(said) + rest
    assert (child.returncode, complaint) == (0, "")
    assert f"worker 1 {how}: it alone starts again\n" in text
    assert text.count("worker 0: pieces 1-2 of 5\n") == 1
    assert text.count("worker 1: pieces 3-5 of 5") == 2
    assert answered(text) == [1, 2, 3, 4, 5]
    assert_as_alone(run)


def test_interrupted_it_leaves_whole_pieces_and_goes_on_from_them(run: Run) -> None:
    storage_of = f"STORAGE={run.path.parent}"
    with begun(storage_of, "PARALLELISM=2") as child:
        assert child.stdout
        for line in child.stdout:
            if ": piece " in line:
                child.send_signal(signal.SIGINT)
                break
        rest, complaint = child.communicate(timeout=60)
    assert (child.returncode, complaint) == (130, "")
    assert rest.endswith("stopped: the same command goes on from the pieces that are answered\n")
    folder = Path(str(run.predictions))
    assert not list(folder.rglob(".*"))
    assert not (folder / "test.csv").exists()
    left = len(list(folder.glob("test/*/piece-*")))
    assert left
    ended = infer(storage_of, "PARALLELISM=2")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(answered(ended.stdout)) == 5 - left
    assert_as_alone(run)


def test_a_second_inference_of_the_same_is_refused_in_one_sentence(run: Run) -> None:
    lease = Lease(run.predictions / "test", "another", name="worker-1.lease.json").acquire()
    try:
        ended = infer(f"STORAGE={run.path.parent}", "PARALLELISM=2")
    finally:
        lease.close()
    assert ended.returncode == 2
    assert ended.stderr.count("qfleet: ") == 1
    assert "for small (worker 1) is in use by another job (process " in ended.stderr
    assert not storage.exists(run.predictions / "test.csv")
