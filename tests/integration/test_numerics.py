"""Real trainings: the same bits with any number of workers, damaged memory, infinite numbers."""

import json
import math

import pytest

from common.checkpoints import newest
from tests.support.training_processes import (
    SMALL,
    checkpoints,
    distance,
    metrics,
    step_losses,
    training_processes,
    weights,
)

pytestmark = pytest.mark.nightly

start = pytest.fixture(training_processes)

FOUR_QUBITS = ("QUBITS=4", *SMALL[1:-1])
REPRODUCIBLE = ("REPRODUCIBLE=true", "MICRO_BATCH=4")
DAMAGED = "tests.support.damaged_training"


def train(start, storage, *args, **options):
    """Train to the end and return the run's folder."""
    process = start(storage, *args, **options)
    assert process.wait() == 0, process.output
    (result,) = storage.glob("*/result.json")
    return result.parent


def recorded(run):
    """Return all metrics that do not depend on time."""
    kept = ("epoch", "mse", "accuracy", "examples", "val_mse", "val_accuracy", "learning_rate")
    rows = [{name: row[name] for name in kept} for row in metrics(run)]
    return rows, json.loads((run / "result.json").read_text())["metrics"]


@pytest.mark.parametrize("model", [pytest.param("hybrid", marks=pytest.mark.exhaustive), "qcnn"])
def test_workers_and_threads_do_not_change_a_bit(start, tmp_path, model):
    settings = (
        *FOUR_QUBITS[:5], "INITIALIZATIONS=2", "INITIALIZATION_EPOCHS=2", "EPOCHS=6",
        "PROFILER_PORT=0", f"MODEL={model}", *REPRODUCIBLE,
    )  # fmt: skip
    # test_tensorflow_process_group.py has one and two workers, at night three.
    alone = train(start, tmp_path / "1", *settings, "WORKERS=1", "THREADS=3")
    other = train(start, tmp_path / "4", *settings, "WORKERS=4", "THREADS=1")
    assert distance(other, alone) == 0
    assert recorded(other) == recorded(alone)


def test_resized_group_does_not_change_a_bit(start, tmp_path):
    settings = (*FOUR_QUBITS, "EPOCHS=40", *REPRODUCIBLE)
    alone = train(start, tmp_path / "alone", *settings, "WORKERS=1")
    run = tmp_path / "resized" / "hybrid"
    for workers in (3, 1, 2):
        before = len(metrics(run)) if run.exists() else 0
        process = start(run.parent, *settings, f"WORKERS={workers}", "STEPS_PER_CALL=1")
        process.wait_until(
            lambda before=before: len(checkpoints(run)) and len(metrics(run)) > before
        )
        process.process.terminate()
        assert process.wait(60) in (0, 143), process.output
    resized = train(start, run.parent, *settings, "WORKERS=4")
    assert distance(resized, alone) == 0
    assert recorded(resized) == recorded(alone)


@pytest.mark.parametrize("simulator", ["tensorflow"])
def test_other_simulators_are_reproducible(start, tmp_path, simulator):
    settings = (*FOUR_QUBITS, "EPOCHS=2", *REPRODUCIBLE, f"SIMULATOR={simulator}")
    runs = [
        train(start, tmp_path / str(w), *settings, f"WORKERS={w}", f"THREADS={3 - w}")
        for w in (1, 2)
    ]
    assert distance(*runs) == 0


def test_losses_agree_to_rounding_without_micro_batches(start, tmp_path):
    settings = (*FOUR_QUBITS, "EPOCHS=8")
    found = {}
    for workers in (1, 2, 3):
        run = train(start, tmp_path / str(workers), *settings, f"WORKERS={workers}")
        found[workers] = step_losses(run)
    for step in range(1, 31):
        assert found[1][step] == pytest.approx(found[2][step], abs=1e-4)
        assert found[1][step] == pytest.approx(found[3][step], abs=1e-4)
    assert len({round(found[1][step], 6) for step in range(1, 31)}) > 25


def test_workers_without_a_micro_batch_take_part(start, tmp_path):
    settings = (*FOUR_QUBITS, "EPOCHS=2", "REPRODUCIBLE=true", "MICRO_BATCH=16")
    alone = train(start, tmp_path / "1", *settings, "WORKERS=1")
    for workers in (2, 3):
        other = train(start, tmp_path / str(workers), *settings, f"WORKERS={workers}")
        assert distance(other, alone) == 0


@pytest.mark.parametrize(
    ("workers", "damage", "named"),
    [
        (3, "weight:1:9", "worker 1 has other weights"),
        (2, "later:1:9", "workers 0, 1 have different weights"),
        (2, "slot:0:9", "worker 0"),
        (3, "later:0:9", "worker 0 has other weights"),
    ],
)
def test_damaged_memory_restarts_from_an_agreed_state(start, tmp_path, workers, damage, named):
    settings = (*SMALL[:-1], "EPOCHS=8", f"WORKERS={workers}", "STEPS_PER_CALL=1")
    expected = train(start, tmp_path / "sound", *settings)
    storage = tmp_path / "damaged"
    process = start(storage, *settings, module=DAMAGED, DAMAGE=damage)
    assert process.wait() == 0, process.output
    assert named in process.output
    assert "epoch 3, step" in process.output or "changed in memory" in process.output
    assert "(attempt 2)" in process.output
    assert distance(storage / "hybrid", expected) == 0


def test_infinite_loss_keeps_the_last_checkpoint(start, tmp_path):
    settings = (*SMALL[:-1], "EPOCHS=8", "LEARNING_RATE=1", "KEEP_CHECKPOINTS=1")
    model = "tests.support.user_models:diverging"
    for workers in (2, 1):  # the second start ends in the same way
        process = start(tmp_path, *settings, f"MODEL={model}", f"WORKERS={workers}")
        assert process.wait() == 2, process.output
        assert "is not finite at epoch 2, step" in process.output
        assert "LEARNING_RATE" in process.output
        assert "Traceback" not in process.output
    (run,) = (path.parent for path in tmp_path.glob("*/run.json"))
    found = newest(run)
    assert found is not None
    assert found.step == 4
    assert len(metrics(run)) == 1
    assert not (run / "result.json").exists()


def test_infinite_initialization_is_dropped(start, tmp_path):
    settings = (
        *SMALL[:5], "INITIALIZATIONS=3", "INITIALIZATION_EPOCHS=2", "EPOCHS=9", "PROFILER_PORT=0",
        "MODEL=tests.support.user_models:diverging_second", "WORKERS=2",
    )  # fmt: skip
    run = train(start, tmp_path, *settings)
    text = (run / "metrics.jsonl").read_text()
    rows = [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]
    assert [row["epoch"] for row in rows if row["mse"] is None] == [3, 4]
    for array in weights(run).values():
        assert all(map(math.isfinite, array.ravel().tolist()))
    log = (run / "text" / "worker-0.attempt-1.log").read_text()
    assert log.count("Initialization 2 of") == 1


def test_no_finite_initialization_is_one_sentence(start, tmp_path):
    settings = (*SMALL[:5], "INITIALIZATIONS=2", "INITIALIZATION_EPOCHS=2", "EPOCHS=6")
    model = "MODEL=tests.support.user_models:diverging"
    process = start(tmp_path, *settings, model, "LEARNING_RATE=10", "WORKERS=1")
    assert process.wait() == 2, process.output
    assert "none of 2 initializations has a finite loss" in process.output
    assert "Traceback" not in process.output


@pytest.mark.parametrize(("layer", "reason"), [("Dropout", "random"), ("BatchNorm", "updates")])
def test_model_that_depends_on_calls_is_refused(start, tmp_path, layer, reason):
    module = f"tests.support.user_models:with_{layer.lower()}"
    process = start(tmp_path, *SMALL, *REPRODUCIBLE, f"MODEL={module}", "WORKERS=1")
    assert process.wait() == 2, process.output
    assert reason in process.output
    assert "REPRODUCIBLE=false" in process.output


def test_best_epoch_is_kept_and_used_by_inference(start, tmp_path):
    settings = (*SMALL[:-1], "EPOCHS=6", "LEARNING_RATE=1", "KEEP_CHECKPOINTS=1", "KEEP_BEST=true")
    run = train(start, tmp_path, *settings, "WORKERS=1")
    rows = metrics(run)
    best = json.loads((run / "result.json").read_text())["best"]
    losses = [row["val_mse"] for row in rows]
    assert best["epoch"] == 1 + losses.index(min(losses))
    assert best["validation_loss"] == pytest.approx(min(losses), abs=1e-6)
    process = start(tmp_path, "RUN=hybrid", "CHECKPOINT=best", module="inference")
    assert process.wait() == 0, process.output
