"""Real trainings whose rows are initial states, killed and resumed, and their inference."""

import re

import numpy as np
import pandas as pd
import pytest

from tests.support.training_processes import (
    assert_killed_run_has_equal_weights,
    inference_output,
    training_processes,
)

pytestmark = pytest.mark.exhaustive

start = pytest.fixture(training_processes)

COMMON = ("ENCODER=amplitude", "INITIALIZATIONS=1", "RUN=r", "WORKERS=2")


@pytest.mark.nightly
def test_killed_training_of_states_has_equal_weights(start, tmp_path):
    digits = ("DATA=digits", "QUBITS=6", "EPOCHS=20", "BATCH=32", "CHECKPOINT_INTERVAL=2")
    assert_killed_run_has_equal_weights(start, tmp_path, *COMMON, *digits)


@pytest.mark.parametrize("shards", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_table_of_300_columns_trains_and_is_inferred(start, tmp_path, shards):
    random = np.random.default_rng(0)
    labels, centers = random.integers(2, size=120), random.normal(size=(2, 300))
    frame = pd.DataFrame(centers[labels] + random.normal(size=(120, 300)))
    frame.columns = [f"w{i}" for i in range(300)]
    frame.assign(label=labels).to_csv(tmp_path / "table.csv", index=False)
    frame.head(7).to_csv(tmp_path / "new.csv", index=False)
    settings = (f"DATA={tmp_path / 'table.csv'}", "QUBITS=9", "EPOCHS=5", "BATCH=16")
    trained = start(tmp_path, *COMMON, *settings, f"STATE_SHARDS={shards}")
    assert trained.wait() == 0, trained.output
    assert "300 columns, normalized per row to the 512 amplitudes of 9 qubits" in trained.output
    (recorded,) = re.findall(r"test mse ([0-9.]+), accuracy ([0-9.]+)", trained.output)
    (found,) = re.findall(r"^hybrid +([0-9.]+) +([0-9.]+)$", inference_output(tmp_path), re.M)
    assert found == recorded
    assert float(found[1]) > 0.8
    inference_output(tmp_path, f"INPUT={tmp_path / 'new.csv'}", "PARALLELISM=2")
    predicted = pd.read_csv(tmp_path / "r" / "predictions" / "new.csv")
    assert (predicted["predicted_label"] == labels[:7]).mean() > 0.7
