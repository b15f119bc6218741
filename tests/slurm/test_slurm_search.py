"""A search whose seeds are tasks of an array, in a real Slurm of two nodes."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.patience import seconds
from tests.support.slurm import ROOT, SlurmCluster

# The tasks last longer than the start of a client on a busy machine.
SEARCH = ("NAME=s", "DATA=tfim:4:1.0", "METHOD=evolution", "BUDGET=150000evaluations", "SEEDS=0,7")


@pytest.mark.nightly
def test_killed_search_follows_its_seeds(cluster: SlurmCluster, tmp_path: Path) -> None:
    """A killed task is requeued, and the histories are those of a search on this machine."""
    search = cluster.search(f"STORAGE={tmp_path}/far", *SEARCH, "CPU=1")
    folder = tmp_path / "far" / "searches" / "s"
    end = time.monotonic() + seconds(120)
    while not (folder / "seed-7.jsonl").exists():
        assert search.process.poll() is None, search.output
        assert time.monotonic() < end, search.output
        time.sleep(0.05)
    search.process.kill()
    search.process.wait()
    (task,) = _processes("seed_task", 7, tmp_path)
    os.kill(task, signal.SIGKILL)
    output = cluster.search(f"STORAGE={tmp_path}/far", *SEARCH, "CPU=1").wait(0)
    assert "Submitted" not in output
    assert "Pareto front" in output
    logs = {path.name: path.read_text() for path in (folder / "slurm").iterdir()}
    assert [re.sub(r"\d+_", "", name) for name in sorted(logs)] == ["job-0.log", "job-7.log"]
    assert sum("Requeueing job" in text for text in logs.values()) == 1
    near = [sys.executable, "-m", "studies.search", f"STORAGE={tmp_path}/near", *SEARCH]
    environment = {**os.environ, "QFLEET_NUM_THREADS": "1"}
    subprocess.run(near, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    for seed in (0, 7):
        name = f"searches/s/seed-{seed}.jsonl"
        assert (tmp_path / "far" / name).read_bytes() == (tmp_path / "near" / name).read_bytes()


@pytest.mark.nightly
def test_refused_seed_is_one_sentence(cluster: SlurmCluster, tmp_path: Path) -> None:
    output = cluster.search(f"STORAGE={tmp_path}", *SEARCH, "PARTITION=nowhere").wait(2)
    (line,) = [one for one in output.splitlines() if one.startswith("qfleet:")]
    assert "PARTITION=nowhere" in line


def _processes(module: str, seed: int, storage: Path) -> list[int]:
    """Return the process IDs of a seed's search or of its parent."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_text().split("\0")
        except OSError:
            continue
        is_search = words[1:4] == ["-m", f"studies.search.{module}", str(seed)]
        if is_search and any(str(storage) in word for word in words):
            found.append(int(path.name))
    return found
