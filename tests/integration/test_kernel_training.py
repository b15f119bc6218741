"""Real trainings of MODEL=kernel: killed and resumed, and their inference."""

import csv
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from tests.support.ports import own_port
from tests.support.training_processes import distance, inference_output, training_processes

pytestmark = pytest.mark.exhaustive

start = pytest.fixture(training_processes)

DIGITS = ("MODEL=kernel", "DATA=digits", "QUBITS=6", "RUN=r", "WORKERS=2")


def tiles(storage: Path) -> dict[str, int]:
    """Return the tiles of all matrices, and when they were written, in nanoseconds."""
    found = storage.glob("r/kernel/*/tile-*.bin")
    return {str(file.relative_to(storage)): file.stat().st_mtime_ns for file in found}


def start_pods(start, storage, *settings):
    """Start both workers as the pods of an Indexed Job do, on one machine."""
    block = 2000 + os.getpid() % 1000  # of ten ports below those that the system gives to others
    job = {"WORKER_ADDRESSES": f"127.0.0.1:{block}{{rank}}", "QFLEET_JOB_ID": "job"}
    settings = (*settings, f"RENDEZVOUS_PORT={own_port()}")
    return [
        start(storage, *settings, module="training.worker", JOB_COMPLETION_INDEX=str(rank), **job)
        for rank in range(2)
    ]


def test_killed_kernel_training_computes_no_tile_again(start, tmp_path):
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    for storage in (calm, killed):
        storage.mkdir()
    pods = start_pods(start, calm, *DIGITS)
    assert [pod.wait() for pod in pods] == [0, 0], pods[0].output
    trained = start(killed, *DIGITS)
    trained.wait_until(lambda: tiles(killed))
    trained.worker(1).kill()
    before = tiles(killed)
    assert trained.wait() == 0, trained.output
    assert "restart" in trained.output.lower()
    assert before.items() <= tiles(killed).items()
    assert tiles(calm).keys() == tiles(killed).keys()
    assert distance(calm / "r", killed / "r") < 1e-9
    recorded = json.loads((killed / "r" / "result.json").read_text())["metrics"]["test"]
    assert recorded["accuracy"] > 0.9
    (described,) = (json.loads(one.read_text()) for one in killed.glob("r/model/*/model.json"))
    assert f"bandwidth={described['bandwidth']:g}, C=" in trained.output
    printed = inference_output(killed, "PARALLELISM=2")
    assert "Training recorded" not in printed
    (found,) = re.findall(r"^kernel +([0-9.]+) +([0-9.]+)$", printed, re.M)
    assert float(found[1]) == pytest.approx(recorded["accuracy"], abs=6e-4)
    page = (killed / "r" / "predictions" / "report.html").read_text()
    assert "<h2>Kernel</h2>" in page
    assert f"<dt>bandwidth</dt><dd>{described['bandwidth']}" in page
    assert "SVM with RBF kernel" in page
    assert "<h2>Loss</h2>" not in page


@pytest.mark.parametrize("task", ["classes", "number"])
def test_kernel_fits_other_targets(start, tmp_path, task):
    features = np.random.default_rng(0).normal(size=(200, 3))
    value = np.sin(features[:, 0]) + 0.5 * features[:, 1]
    label = np.digitize(value, [-0.4, 0.4]) if task == "classes" else 100 + 20 * value
    with (tmp_path / "table.csv").open("w", newline="") as file:
        rows = np.column_stack([features, label]).tolist()
        csv.writer(file).writerows([["a", "b", "c", "label"], *rows])
    kind = "classification" if task == "classes" else "regression"
    settings = (f"TASK={kind}", f"DATA={tmp_path / 'table.csv'}", "QUBITS=3", "WORKERS=1")
    trained = start(tmp_path, "MODEL=kernel", "RUN=r", *settings)
    assert trained.wait() == 0, trained.output
    recorded = json.loads((tmp_path / "r" / "result.json").read_text())["metrics"]["test"]
    name, least = ("accuracy", 0.7) if task == "classes" else ("r2", 0.8)
    assert recorded[name] > least
    assert "Training recorded" not in inference_output(tmp_path)
    if task == "number":
        with (tmp_path / "r" / "predictions" / "test.csv").open() as file:
            found = list(csv.DictReader(file))
        errors = [float(row["prediction"]) - float(row["label"]) for row in found]
        assert np.mean(np.square(errors)) == pytest.approx(recorded["mse"], rel=1e-3)
