"""Searches of real processes that are killed: the same command continues with equal histories."""

import random
import signal
import time
from pathlib import Path

import pytest

from tests.support.training_processes import TrainingProcess, training_processes

ARGS = ("NAME=s", "DATA=tfim:4:1.0", "METHOD=evolution", "BUDGET=4000evaluations", "SEEDS=0,1")

pytestmark = pytest.mark.exhaustive

processes = pytest.fixture(training_processes)


def histories(root: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in (root / "searches" / "s").glob("*.jsonl")}


def test_killed_search_continues_with_the_same_history(processes, tmp_path) -> None:
    calm, killed = tmp_path / "calm", tmp_path / "killed"

    def size() -> int:
        return sum(map(len, histories(killed).values()))

    def start(root: Path) -> TrainingProcess:
        workers = 1 if root == calm else 2  # the histories do not depend on it
        return processes(root, *ARGS, f"WORKERS={workers}", module="studies.search")

    process = start(calm)
    assert process.wait() == 0, process.output
    moments = random.Random(2)
    for number, code in ((signal.SIGKILL, -9), (signal.SIGTERM, 143)):
        before = size()
        process = start(killed)
        process.wait_until(lambda before=before: size() > before)
        time.sleep(moments.uniform(0, 0.05))
        process.process.send_signal(number)
        assert process.wait() == code, process.output
        assert histories(killed) != histories(calm)
    assert "Run the same command again" in process.output
    process = start(killed)
    assert process.wait() == 0, process.output
    assert histories(killed) == histories(calm)
    assert (killed / "searches" / "s" / "report.html").is_file()
