"""Inference by several real processes: results, restarts and interruption."""

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from common import storage
from common.events import Event
from common.lease import Lease
from common.processes import ManagedProcess, clean_environment, find_child
from common.runs import Run
from tests.support.finished_run import finish
from tests.support.patience import seconds

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[2]
EXAMPLES = 5_000  # five chunks
# With data on every qubit, a chunk takes long enough to be interrupted.
QUBITS = 13


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A STORAGE with a finished run and the predictions of one process."""
    root = tmp_path_factory.mktemp("runs")
    angles = np.random.default_rng(5).uniform(-1, 1, (EXAMPLES + 50, QUBITS)).astype("f4")
    table = root / "table.npz"
    np.savez(table, x=angles, label=(angles.sum(axis=1) > 0).astype("i4"))
    finish(root, "small", f"DATA={table}", f"QUBITS={QUBITS}", f"TEST_EXAMPLES={EXAMPLES}")
    done = infer(f"STORAGE={root}")
    assert done.returncode == 0, done.stderr
    shutil.copytree(root / "small" / "predictions", root / "expected")
    shutil.rmtree(root / "small" / "predictions")
    return root


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Run:
    """A copy of the run, without predictions."""
    return Run(Path(shutil.copytree(finished_run, tmp_path / "runs")) / "small")


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "inference", *args]


def infer(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*args), cwd=ROOT, env=clean_environment(), capture_output=True, text=True,
        timeout=seconds(200), check=False,
    )  # fmt: skip


def start(*args: str) -> ManagedProcess:
    """Start an inference whose events the test reads."""
    return ManagedProcess(command(*args), cwd=ROOT, stdout="capture", stderr="capture")


def find_worker(process: ManagedProcess, index: int) -> psutil.Process:
    """Return the process of a worker."""
    found = find_child(process.pid, lambda env: env["JOB_COMPLETION_INDEX"] == str(index))
    assert found
    return found


def drain(process: ManagedProcess) -> list[Event]:
    """Return the remaining events of a process that ends."""
    received = list(process.events())
    assert process.exit_code is not None
    return received


def chunks_done(received: list[Event]) -> list[int]:
    """Return the indices of the computed chunks, with repetitions."""
    return sorted(event.integer("index") for event in received if event.kind == "chunk_done")


def numbers(page: Path) -> list[str]:
    """Return all numbers of a report except times."""
    text = re.sub(r"in \S+ s: [\d,]+ \w+/s( by \d+ workers)?", "", page.read_text())
    return re.findall(r"-?\d[\d.,]*", re.sub(r"Created [^<]*", "", text))


def assert_equal_to_one_process(run: Run) -> None:
    """Assert that predictions are equal byte for byte, and so are the numbers of the report."""
    expected, actual = Path(str(run.path.parent)) / "expected", Path(str(run.predictions))
    assert (actual / "test.csv").read_bytes() == (expected / "test.csv").read_bytes()
    assert numbers(actual / "report.html") == numbers(expected / "report.html")
    assert not list(actual.rglob(".*.part"))


@pytest.mark.parametrize(
    ("number", "exit_code"),
    [
        # A stopped worker is killed in the end.
        pytest.param(signal.SIGKILL, 137, marks=pytest.mark.nightly),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.nightly),
        (signal.SIGSTOP, 137),
    ],
)
def test_lost_worker_is_restarted_by_itself(run: Run, number: int, exit_code: int) -> None:
    received = []
    with start(f"STORAGE={run.path.parent}", "PARALLELISM=2") as process:
        for event in process.events():
            received.append(event)
            if event.kind == "chunks_assigned" and event.integer("worker") == 1:
                find_worker(process, 1).send_signal(number)
                break
        received += drain(process)
    assert (process.exit_code, process.stderr_text) == (0, "")
    warnings = [event.message for event in received if event.fields.get("level") == "WARNING"]
    stopped = "Worker 1 did not respond for 20 seconds (stopped or stuck): killing it"
    assert (stopped in warnings) == (number == signal.SIGSTOP)
    (lost,) = [event for event in received if event.kind == "worker_lost"]
    assert (lost.integer("worker"), lost.integer("exit_code")) == (1, exit_code)
    (restart,) = [event for event in received if event.kind == "restarting"]
    assert (restart.integer("worker"), restart.integer("restart")) == (1, 1)
    assigned = [event for event in received if event.kind == "chunks_assigned"]
    ranges = [(e.integer("worker"), e.integer("first"), e.integer("last")) for e in assigned]
    assert sorted(ranges) == [(0, 0, 1), (1, 2, 4), (1, 2, 4)]
    assert chunks_done(received) == [0, 1, 2, 3, 4]
    (finished,) = [event for event in received if event.kind == "run_finished"]
    assert finished.text("run") == "small"
    assert_equal_to_one_process(run)


# test_inference_chunks.py interrupts an inference in the process of the test.
@pytest.mark.nightly
def test_interrupted_inference_continues_from_its_chunks(run: Run) -> None:
    settings = [f"STORAGE={run.path.parent}", "PARALLELISM=2"]
    with start(*settings) as process:
        for event in process.events():
            if event.kind == "chunk_done":
                process.send_signal(signal.SIGINT)
                break
        rest = drain(process)
    assert (process.exit_code, process.stderr_text) == (130, "")
    assert rest[-2].message.startswith("Stopped.")
    folder = Path(str(run.predictions))
    assert not list(folder.rglob(".*.part"))
    assert not (folder / "test.csv").exists()
    left = len(list(folder.glob("test/*/chunk-*")))
    assert left
    done = infer(*settings)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall(r"^worker \d: chunk \d/5  ", done.stdout, re.M)) == 5 - left
    assert re.search(r"^Next steps:\n  .* report .*RUN=", done.stdout, re.M)
    assert_equal_to_one_process(run)


def test_second_inference_is_refused_with_one_line(run: Run) -> None:
    lease = Lease(run.predictions / "test", "another", name="worker-1.lease.json").acquire()
    try:
        done = infer(f"STORAGE={run.path.parent}", "PARALLELISM=2")
    finally:
        lease.close()
    assert done.returncode == 2
    assert done.stderr.count("qfleet: ") == 1
    assert "for small (worker 1) is in use by another job (process " in done.stderr
    assert not storage.exists(run.predictions / "test.csv")
