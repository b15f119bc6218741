"""All layers under MultiWorkerMirroredStrategy, in two real workers."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two workers said."""
    folder = tmp_path_factory.mktemp("gang")
    holders = [socket.socket() for _ in range(2)]
    for holder in holders:
        holder.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{holder.getsockname()[1]}" for holder in holders]
    for holder in holders:
        holder.close()
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("QFLEET_", "TF_"))}
    started = []
    for rank in range(2):
        task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.layers_worker", str(folder)],
                cwd=ROOT,
                env={**clean, "TF_CONFIG": json.dumps(task)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    said = []
    try:
        for worker in started:
            out, err = worker.communicate(timeout=200)
            lines = [line for line in out.splitlines() if line.startswith("SAID ")]
            assert lines, err[-3000:]
            said.append(json.loads(lines[0].removeprefix("SAID ")))
    finally:
        for worker in started:
            worker.kill()
            worker.wait()
    return said


def test_all_workers_end_with_the_same_weights(workers: list[dict[str, Any]]) -> None:
    one, other = workers
    assert one["loss"] == other["loss"]
    assert one["loss"][-1] < one["loss"][0]
    for a, b in zip(one["weights"], other["weights"], strict=True):
        np.testing.assert_array_equal(a, b)


def test_shots_are_fresh_at_each_call_and_of_each_worker_s_own(
    workers: list[dict[str, Any]],
) -> None:
    (first, _), (second, _) = workers[0]["drawn"]
    assert first != second
    assert first != workers[1]["drawn"][0][0]


def test_the_same_seed_draws_the_same_shots(workers: list[dict[str, Any]]) -> None:
    for worker in workers:
        for layer, twin in worker["drawn"]:
            assert layer == twin


def test_a_model_saved_under_the_strategy_answers_alike(workers: list[dict[str, Any]]) -> None:
    assert [worker["same"] for worker in workers] == [True, True]
