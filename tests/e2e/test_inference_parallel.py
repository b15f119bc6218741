"""Inference in an Indexed Job: only a deleted pod restarts, and the result is one report.

The test writes the run into the cluster's storage, so that no training is needed.
"""

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from chaos import node
from common import events, storage
from common.errors import run_main
from common.events import Event
from inference.__main__ import main
from tests.e2e import kube
from tests.e2e.kube import kubectl
from tests.support import patience
from tests.support.finished_run import finish

NAME = "parallel"
JOB = f"qfleet-{NAME}-inference"
EXAMPLES, BATCH = 20_000, 4


class InferenceClient:
    """A running `launch infer`, whose events are read as they arrive."""

    def __init__(self, *args: str) -> None:
        self.began = time.monotonic()
        self.child = subprocess.Popen(
            [str(kube.LAUNCH), "-m", "launch", "infer", *args],
            cwd=kube.ROOT, env=kube.environment(QFLEET_EVENTS="stdout"), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.lines: list[tuple[float, str]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def end(self) -> int:
        """Wait until it has ended and all lines are read; return its exit code."""
        code = self.child.wait(patience.seconds(180))
        self._reader.join()
        assert self.child.stdout
        self.child.stdout.close()
        return code

    def _read(self) -> None:
        assert self.child.stdout
        for line in self.child.stdout:
            self.lines.append((time.monotonic() - self.began, line.rstrip()))

    @property
    def output(self) -> str:
        """The output so far."""
        return "\n".join(line for _, line in self.lines)

    def events(self, kind: str, worker: int | None = None) -> list[tuple[float, Event]]:
        """Return the events of a kind, each with its time in seconds since the start."""
        parsed = ((seconds, events.parse(line)) for seconds, line in self.lines)
        return [
            (seconds, event)
            for seconds, event in parsed
            if event and event.kind == kind and worker in (None, event.integer("worker"))
        ]


def pods(job: str = JOB) -> list[tuple[int, str, str]]:
    """Return rank, name and uid of the Job's pods."""
    found = kube.get("pods", selector=f"batch.kubernetes.io/job-name={job}")
    number = "batch.kubernetes.io/job-completion-index"
    return [(int(p["metadata"]["labels"][number]), p["metadata"]["name"], p["metadata"]["uid"])
            for p in found]  # fmt: skip


def test_deleted_pod_restarts_only_and_report_is_complete(
    root: storage.StoragePath,
    monkeypatch: pytest.MonkeyPatch,
    measured: Callable[[str], None],
) -> None:
    run = finish(root, NAME, f"TEST_EXAMPLES={EXAMPLES}", "QUBITS=6")
    client = InferenceClient(f"RUN={NAME}", "PARALLELISM=3", f"BATCH={BATCH}")
    kube.until(lambda: client.events("chunk_done", 1), 120, "a chunk of worker 1")
    first = pods()
    (name,) = (name for number, name, _ in first if number == 1)
    deleted = time.monotonic() - client.began
    kubectl("delete", "pod", name, "--wait=false")
    code, output = client.end(), client.output
    assert code == 0, output
    assert "worker 1 was deleted; restarting that worker only" in output
    again, restarted = client.events("chunks_assigned", 1)[-1]
    chunks = restarted.integer("last") - restarted.integer("first") + 1
    assert 0 < restarted.integer("done") < chunks
    kept = {uid for number, _, uid in first if number != 1}
    assert kept == {uid for number, _, uid in pods() if number != 1}, "the other pods kept running"

    total = -(-EXAMPLES // (16 * BATCH))
    done = Counter(event.integer("index") for _, event in client.events("chunk_done"))
    assert max(done.values()) == 1, "no chunk is predicted twice"
    # The last lines of the deleted pod may be missing.
    assert total - 2 <= len(done) <= total
    assert f"job {JOB} Succeeded" in output
    assert f"make inference TARGET=k8s RUN={NAME} INPUT=" in output

    by_pods = storage.read_bytes(run.predictions / "test.csv")
    monkeypatch.setattr(sys, "argv", ["inference", f"RUN={NAME}", f"STORAGE={root}"])
    assert run_main(main) == 0
    single = pd.read_csv(pd.io.common.BytesIO(storage.read_bytes(run.predictions / "test.csv")))
    merged = pd.read_csv(pd.io.common.BytesIO(by_pods))
    assert list(merged.columns) == list(single.columns)
    assert (merged["row"] == np.arange(1, EXAMPLES + 1)).all()
    numbers = merged.select_dtypes("number").columns
    assert np.abs(merged[numbers] - single[numbers]).max().max() <= 1e-6
    last = client.events("chunk_done")[-1][0]
    measured(
        f"inference in 3 pods: pod 1 deleted at {deleted:.0f} s, replaced at {again:.0f} s, all"
        f" chunks predicted at {last:.0f} s"
    )


# Each CI run stops a process of a local inference.
@pytest.mark.nightly
def test_stopped_pod_is_killed_and_restarted(root: storage.StoragePath) -> None:
    run = finish(root, "stopped", f"TEST_EXAMPLES={EXAMPLES}", "QUBITS=6")
    client = InferenceClient("RUN=stopped", "PARALLELISM=2", f"BATCH={BATCH}")
    kube.until(lambda: client.events("chunk_done", 1), 120, "a chunk of worker 1")
    (name,) = (name for number, name, _ in pods("qfleet-stopped-inference") if number == 1)
    pids = kube.processes(name)
    if not pids:
        pytest.skip("the node's processes are not this machine's")
    node.send(pids, signal.SIGSTOP)
    code, output = client.end(), client.output
    assert code == 0, output
    assert "worker 1 was killed" in output
    assert len(client.events("chunks_assigned", 1)) == 2
    assert storage.exists(run.predictions / "test.csv")


def test_altered_weights_fail_the_job_at_once(
    root: storage.StoragePath,
) -> None:
    run = finish(root, "altered")
    content = storage.read_bytes(run.weights)
    storage.write_atomic(run.weights, content[:-1] + b"x")
    done = kube.launch("infer", "RUN=altered", "PARALLELISM=2", timeout=120)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "qfleet: job qfleet-altered-inference Failed: worker " in done.stderr
    assert "weights.h5" in done.stderr
    gone = kube.launch("delete", "inference", "RUN=altered")
    assert "job/qfleet-altered-inference deleted" in gone.stdout
