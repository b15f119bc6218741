"""Real trainings of every task: several classes, a number, energies and states."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.support.training_processes import (
    distance,
    inference_output,
    metrics,
    training_processes,
)

pytestmark = pytest.mark.exhaustive

start = pytest.fixture(training_processes)

TASKS = {
    "classes": ("DATA=digits", "CLASSES=all", "QUBITS=4", "EPOCHS=4", "CLASS_WEIGHTS=balanced"),
    "number": ("TASK=regression", "QUBITS=4", "EPOCHS=12", "LEARNING_RATE=0.03", "LOSS=huber"),
    "energy": ("TASK=energy", "DATA=h2:0.5,0.74,1.2", "MODEL=uccsd", "QUBITS=4", "EPOCHS=60"),
    "shared": ("TASK=energy", "DATA=tfim:4:0.5..1.5/4", "MODEL=hamiltonian-variational",
               "ANGLES=shared", "LAYERS=2", "QUBITS=4", "EPOCHS=30"),
    "pulses": ("TASK=energy", "DATA=tfim:3:0.8,1.2", "MODEL=hybrid-pulse", "LAYERS=1", "QUBITS=3"),
    "state": ("TASK=state", "DATA=ghz", "MODEL=hardware-efficient", "QUBITS=3", "EPOCHS=80"),
    "driven": ("MODEL=hybrid-pulse", "QUBITS=3", "LAYERS=1", "TRAIN_EXAMPLES=64"),
    "driven number": ("TASK=regression", "MODEL=pulse", "QUBITS=4", "LAYERS=1"),
    "hybrid number": ("TASK=regression", "MODEL=hybrid-pulse", "QUBITS=4", "LAYERS=1"),
    "pulse state": ("TASK=state", "DATA=w", "MODEL=pulse", "QUBITS=2", "LAYERS=1"),
}  # fmt: skip


def table(folder: Path) -> Path:
    """Write a table whose target is a smooth function of four features."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(200, 4))
    target = 100 + 20 * np.sin(features[:, 0]) + 10 * features[:, 1]
    path = folder / "table.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "c", "d", "label"])
        writer.writerows(np.column_stack([features, target]).tolist())
    return path


def settings(task: str, folder: Path) -> tuple[str, ...]:
    data = (f"DATA={table(folder)}",) if "TASK=regression" in TASKS[task] else ()
    return (*TASKS[task], *data, "INITIALIZATIONS=1", "RUN=r")


def predictions(storage: Path) -> list[dict[str, str]]:
    with (storage / "r" / "predictions" / "test.csv").open() as file:
        return list(csv.DictReader(file))


# test_examples.py has an example of each other task.
@pytest.mark.nightly
@pytest.mark.parametrize(
    "task",
    [
        "classes",
        "number",
        pytest.param("energy", marks=pytest.mark.exhaustive),
        "shared",
        "state",
    ],
)
def test_task_trains_and_predicts(start, tmp_path, task):
    # The test below trains "classes" in two workers, and "energy" is a family of Hamiltonians, too.
    workers = 1 if task in ("classes", "shared") else 2
    trained = start(tmp_path, *settings(task, tmp_path), f"WORKERS={workers}")
    assert trained.wait() == 0, trained.output
    result = json.loads((tmp_path / "r" / "result.json").read_text())
    recorded = result["metrics"]["test"]
    printed = inference_output(tmp_path)
    assert "Training recorded" not in printed  # no note: the loss is the recorded one
    rows = predictions(tmp_path)
    page = (tmp_path / "r" / "predictions" / "report.html").read_text()
    losses = [
        next(v for name, v in row.items() if name != "epoch") for row in metrics(tmp_path / "r")
    ]
    assert losses[-1] < losses[0]
    if task == "classes":
        assert recorded["accuracy"] > 0.3
        probabilities = np.array(
            [[float(row[f"probability_{i}"]) for i in range(10)] for row in rows]
        )
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
        likeliest = [str(index) for index in probabilities.argmax(axis=1)]
        assert [row["predicted_label"] for row in rows] == likeliest
        right = np.mean([row["predicted_label"] == row["label"] for row in rows])
        assert right == pytest.approx(recorded["accuracy"], abs=1e-6)
        assert "Calibration" in page
    elif task == "number":
        assert recorded["r2"] > 0.5
        errors = [float(row["prediction"]) - float(row["label"]) for row in rows]
        assert np.mean(np.square(errors)) == pytest.approx(recorded["mse"], rel=1e-3)
        assert "residuals" in page
    elif task == "energy":
        assert [round(float(row["R"]), 2) for row in rows] == [0.5, 0.74, 1.2]
        assert max(abs(float(row["error"])) for row in rows) < 1.6e-3
        assert "chemical accuracy" in page
    elif task == "shared":
        assert recorded["energy_error"] < 0.3
        assert next(row["g"] for row in rows) == "0.5"
    else:
        assert float(rows[0]["fidelity"]) > 0.99


@pytest.mark.nightly
@pytest.mark.parametrize(
    "task", [pytest.param("classes", marks=pytest.mark.exhaustive), "number", "energy"]
)
def test_task_is_reproducible_with_any_workers(start, tmp_path, task):
    weights = []
    for workers in (1, 2):
        storage = tmp_path / str(workers)
        storage.mkdir()
        arguments = [*settings(task, tmp_path), "EPOCHS=3", "REPRODUCIBLE=true", "MICRO_BATCH=2",
                     "BATCH=32"]  # fmt: skip
        trained = start(storage, *arguments, f"WORKERS={workers}")
        assert trained.wait() == 0, trained.output
        result = json.loads((storage / "r" / "result.json").read_text())
        weights.append(result["weights"]["sha256"])
        assert len(metrics(storage / "r")) == 3
    content = [
        np.load(next((tmp_path / str(workers) / "r" / "checkpoints").glob("*.npz")))
        for workers in (1, 2)
    ]
    for name in content[0].files:
        if name.startswith("model/"):
            np.testing.assert_array_equal(content[0][name], content[1][name])


@pytest.mark.nightly
@pytest.mark.parametrize(
    "task",
    [
        "classes",
        "number",
        "energy",
        "pulses",
        "state",
        "driven",
        "driven number",
        "hybrid number",
        "pulse state",
    ],
)
def test_killed_task_resumes_with_equal_weights(start, tmp_path, task):
    # The training lasts until after the kill.
    arguments = (*settings(task, tmp_path), "REPRODUCIBLE=true", "WORKERS=2",
                 "CHECKPOINT_INTERVAL=5", "EPOCHS=300")  # fmt: skip
    for name in ("calm", "killed"):
        storage = tmp_path / name
        storage.mkdir()
        trained = start(storage, *arguments)
        if name == "killed":
            trained.wait_until(lambda: list(tmp_path.glob("killed/r/checkpoints/*.json")))
            trained.worker(1).kill()
        assert trained.wait() == 0, trained.output
        assert ("restart" in trained.output.lower()) == (name == "killed")
        inference_output(storage)
    assert distance(tmp_path / "calm" / "r", tmp_path / "killed" / "r") == 0
    assert predictions(tmp_path / "calm") == predictions(tmp_path / "killed")


@pytest.mark.nightly
def test_sharded_energies_equal_those_of_one_process(start, tmp_path):
    arguments = ("TASK=energy", "DATA=tfim:6:0.5..1.5/4", "MODEL=hardware-efficient", "LAYERS=2",
                 "QUBITS=6", "EPOCHS=10", "INITIALIZATIONS=1", "RUN=r")  # fmt: skip
    energies = []
    for name, more in (("one", ["WORKERS=1"]), ("sharded", ["WORKERS=2", "STATE_SHARDS=2"])):
        storage = tmp_path / name
        storage.mkdir()
        trained = start(storage, *arguments, *more)
        assert trained.wait() == 0, trained.output
        inference_output(storage)
        energies.append([float(row["energy"]) for row in predictions(storage)])
    assert energies[0] == pytest.approx(energies[1], abs=1e-4)
