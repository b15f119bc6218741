"""Inference by an Indexed Job: a pod deleted in the middle is redone alone, one report comes of it.

The run is written into the cluster's storage from here; nothing has to train for this.
"""

import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from common import storage
from common.errors import run_main
from inference.__main__ import main
from tests.e2e import kube
from tests.e2e.kube import kubectl
from tests.support.finished_run import finish

NAME = "wide"
JOB = f"inference-{NAME}"
EXAMPLES, BATCH = 20_000, 4


class Client:
    """`launch infer`, whose lines are read while it goes on."""

    def __init__(self, *args: str) -> None:
        self.began = time.monotonic()
        self.child = subprocess.Popen(
            [str(kube.LAUNCH), "-m", "launch", "infer", *args],
            cwd=kube.ROOT, env=kube.environment(), text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.lines: list[tuple[float, str]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def end(self) -> int:
        """Wait until it has ended and all is read; its exit code."""
        code = self.child.wait(180)
        self._reader.join()
        assert self.child.stdout
        self.child.stdout.close()
        return code

    def _read(self) -> None:
        assert self.child.stdout
        for line in self.child.stdout:
            self.lines.append((time.monotonic() - self.began, line.rstrip()))

    @property
    def said(self) -> str:
        """All that it said so far."""
        return "\n".join(line for _, line in self.lines)

    def has_said(self, pattern: str) -> float | None:
        """When it said a line like this, in seconds since it began; None if not yet."""
        return next((at for at, line in self.lines if re.search(pattern, line)), None)


def pods() -> list[tuple[int, str, str]]:
    """The Job's pods: number, name, uid."""
    found = kube.get("pods", selector=f"batch.kubernetes.io/job-name={JOB}")
    number = "batch.kubernetes.io/job-completion-index"
    return [(int(p["metadata"]["labels"][number]), p["metadata"]["name"], p["metadata"]["uid"])
            for p in found]  # fmt: skip


def test_a_deleted_pod_is_redone_alone_and_the_report_is_that_of_one_process(
    root: storage.StoragePath,
    monkeypatch: pytest.MonkeyPatch,
    measured: Callable[[str], None],
) -> None:
    run = finish(root, NAME, f"TEST_EXAMPLES={EXAMPLES}", "QUBITS=6")
    client = Client(f"RUN={NAME}", "PARALLELISM=3", f"BATCH={BATCH}")
    kube.until(lambda: client.has_said(r"^worker 1: chunk "), 120, "a chunk of worker 1")
    first = pods()
    (name,) = (name for number, name, _ in first if number == 1)
    deleted = time.monotonic() - client.began
    kubectl("delete", "pod", name, "--wait=false")
    code, said = client.end(), client.said
    assert code == 0, said
    assert "restarting that worker only" in said
    first_chunk, last_chunk, before = re.findall(
        r"^worker 1: chunks (\d+)-(\d+) of \d+ \((\d+) done before\)", said, re.M
    )[0]
    assert 0 < int(before) <= int(last_chunk) - int(first_chunk)
    kept = {uid for number, _, uid in first if number != 1}
    assert kept == {uid for number, _, uid in pods() if number != 1}, "the others went on"

    total = -(-EXAMPLES // (16 * BATCH))
    computed = Counter(re.findall(r"^worker \d: chunk (\d+)/", said, re.M))
    assert max(computed.values()) == 1, "no chunk is computed twice"
    # The last lines of a deleted pod may be missing.
    assert total - 2 <= len(computed) <= total
    assert f"job {JOB} Succeeded: 20,000 predictions written: mse " in said
    assert f"make inference TARGET=k8s RUN={NAME} INPUT=" in said

    there = storage.read_bytes(run.predictions / "test.csv")
    monkeypatch.setattr(sys, "argv", ["inference", f"RUN={NAME}", f"STORAGE={root}"])
    assert run_main(main) == 0
    alone = pd.read_csv(pd.io.common.BytesIO(storage.read_bytes(run.predictions / "test.csv")))
    merged = pd.read_csv(pd.io.common.BytesIO(there))
    assert list(merged.columns) == list(alone.columns)
    assert (merged["row"] == np.arange(1, EXAMPLES + 1)).all()
    numbers = merged.select_dtypes("number").columns
    assert np.abs(merged[numbers] - alone[numbers]).max().max() <= 1e-6
    again, merges = client.has_said(r"^worker 1: chunks .* before"), client.has_said("merging")
    assert again
    assert merges
    measured(
        f"inference by 3 pods: pod 1 deleted at {deleted:.0f} s, its next goes on at {again:.0f} s,"
        f" all chunks done at {merges:.0f} s"
    )


def test_altered_weights_fail_the_job_at_once_with_the_sentence(
    root: storage.StoragePath,
) -> None:
    run = finish(root, "altered")
    content = storage.read_bytes(run.weights)
    storage.write_atomic(run.weights, content[:-1] + b"x")
    done = kube.launch("infer", "RUN=altered", "PARALLELISM=2", timeout=120)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "qfleet: job inference-altered Failed: worker " in done.stderr
    assert "weights.h5 was altered" in done.stderr
    gone = kube.launch("delete", "inference", "RUN=altered")
    assert "deleted   Job/inference-altered" in gone.stdout
