"""Searches of real processes that are killed: the same command continues with equal histories."""

import random
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from common.processes import heartbeats
from studies.search import __main__ as search
from studies.search.seed_processes import SeedProcesses
from tests.support.patience import seconds, wait_until
from tests.support.training_processes import TrainingProcess, training_processes

ENVIRONMENT = {"QFLEET_SPACE": "layers:3", "QFLEET_NUM_THREADS": "1"}
ARGS = ("NAME=s", "DATA=tfim:4:1.0", "METHOD=evolution", "BUDGET=4000evaluations", "SEEDS=0,1")

processes = pytest.fixture(training_processes)


def histories(root: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in (root / "searches" / "s").glob("*.jsonl")}


@pytest.mark.nightly
def test_stopped_process_of_a_seed_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    args = (*ARGS[:4], "SEEDS=1")
    monkeypatch.setattr(heartbeats, "LIVENESS_SECONDS", seconds(3))
    (tmp_path / "stopped" / "searches" / "s").mkdir(parents=True)
    with SeedProcesses([*args, f"STORAGE={tmp_path / 'stopped'}"]) as running:
        running.start(1)
        (process,) = running._group.processes
        wait_until(lambda: histories(tmp_path / "stopped"))
        process.send_signal(signal.SIGSTOP)
        while (ended := running.next_end()) is None:
            pass
    assert ended.exit_code == 0
    assert process.exit_code == 128 + signal.SIGKILL
    assert "the process of seed 1 was lost" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["search", *args, f"STORAGE={tmp_path / 'calm'}"])
    assert search.main() == 0
    assert histories(tmp_path / "stopped") == histories(tmp_path / "calm")


@pytest.mark.exhaustive
def test_killed_search_continues_with_the_same_history(processes, tmp_path) -> None:
    calm, killed = tmp_path / "calm", tmp_path / "killed"

    def size() -> int:
        return sum(map(len, histories(killed).values()))

    def start(root: Path) -> TrainingProcess:
        workers = 1 if root == calm else 2  # the histories do not depend on it
        args = (*ARGS, f"WORKERS={workers}")
        return processes(root, *args, module="studies.search", **ENVIRONMENT)

    process = start(calm)
    assert process.wait() == 0, process.output
    moments = random.Random(2)
    for number, code in ((signal.SIGKILL, -9), (signal.SIGTERM, 143)):
        before = size()
        process = start(killed)
        process.wait_until(lambda before=before: size() > before)
        time.sleep(moments.uniform(0, 0.05))
        own = psutil.Process(process.process.pid).children(recursive=True)
        process.process.send_signal(number)
        assert process.wait() == code, process.output
        assert not psutil.wait_procs(own, timeout=seconds(10))[1]  # they write no more
        assert histories(killed) != histories(calm)
    assert "Run the same command again" in process.output
    process = start(killed)
    assert process.wait() == 0, process.output
    assert histories(killed) == histories(calm)
    assert (killed / "searches" / "s" / "report.html").is_file()
