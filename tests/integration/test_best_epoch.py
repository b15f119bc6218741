"""KEEP_BEST with the fake trainer: the best epoch survives a kill, and is published."""

import json

import numpy as np
import pytest

from common.checkpoints import best
from tests.support.fake_trainer import PACE_FILE
from tests.support.training_processes import (
    FAKE_TRAINING,
    SMALL,
    checkpoints,
    metrics,
    training_processes,
)

start = pytest.fixture(training_processes)

KEPT = (
    *SMALL[:-1], "EPOCHS=12", "WORKERS=1", "KEEP_BEST=true", "KEEP_CHECKPOINTS=1",
    "CHECKPOINT_INTERVAL=5", "MAX_RESTARTS=0",
)  # fmt: skip


def test_best_epoch_survives_a_kill_and_is_published(start, tmp_path):
    run = tmp_path / "hybrid"
    pace = tmp_path / PACE_FILE
    pace.write_text(json.dumps({"kill_at_step": 30}))
    killed = start(tmp_path, *KEPT, module=FAKE_TRAINING)
    assert killed.wait(90) == 138, killed.output
    pace.write_text("{}")
    resumed = start(tmp_path, *KEPT, module=FAKE_TRAINING)
    assert resumed.wait(90) == 0, resumed.output
    losses = [row["val_mse"] for row in metrics(run)]
    assert len(losses) == 12
    result = json.loads((run / "result.json").read_text())
    assert result["best"]["epoch"] == 1 + losses.index(min(losses))
    assert result["best"]["validation_loss"] == min(losses)
    found = best(run)
    assert found is not None
    assert found.step == result["best"]["step"] == 4 * result["best"]["epoch"]
    kept = json.loads((run / result["best"]["path"]).read_text())
    np.testing.assert_array_equal(kept, found.arrays["model/0"])
    last = json.loads((run / result["weights"]["path"]).read_text())
    assert (last == kept) == (result["best"]["epoch"] == 12)
    assert len(checkpoints(run)) == len({found.step, 48})


def test_without_keep_best_no_epoch_is_recorded(start, tmp_path):
    process = start(tmp_path, *SMALL, "WORKERS=1", module=FAKE_TRAINING)
    assert process.wait(90) == 0, process.output
    assert "best" not in json.loads((tmp_path / "hybrid" / "result.json").read_text())
    assert best(tmp_path / "hybrid") is None
