"""CHECKPOINT=best: inference and notebooks use the weights of the best epoch."""

from pathlib import Path

import numpy as np
import pytest

from common import models, runs, storage
from common.errors import SettingsError, WeightsError
from common.runs import Run
from common.settings import Settings
from inference.model_source import choose_model
from tests.support.finished_run import finish


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a finished run whose best weights are 1 everywhere."""
    root = tmp_path_factory.mktemp("runs")
    run = finish(root, "r", "MODEL=qcnn")
    model = models.rebuild(run.model())
    model.set_weights([np.ones_like(weight) for weight in model.get_weights()])
    file = root / "weights.h5"
    model.save_weights(file)
    settings = Settings.from_record(run.record()["settings"])
    described = models.describe_model(model, 4, settings, run.model()["encoding"])
    best = run.write_model(described, file)
    result = {**run.result(), "best": {**best, "epoch": 3, "step": 30, "validation_loss": 0.5}}
    storage.write_json(run.path / "result.json", result)
    return run


def choose(run: Run, *args: str):
    return choose_model(Settings.from_args([f"STORAGE={run.path.parent}", *args]))


def test_load_selects_the_best_weights(run: Run) -> None:
    storage_path = str(run.path.parent)
    loaded = runs.load("r", storage=storage_path, checkpoint="best")
    assert {float(w) for array in loaded.model.get_weights() for w in array.ravel()} == {1.0}
    assert set(loaded.circuits[0].trained.values()) == {1.0}
    last = runs.load("r", storage=storage_path)
    assert set(last.circuits[0].trained.values()) != {1.0}


def test_load_refuses_other_checkpoints(run: Run) -> None:
    with pytest.raises(ValueError, match="'last' or 'best'"):
        runs.load("r", storage=str(run.path.parent), checkpoint="newest")


def test_inference_selects_the_best_weights(run: Run) -> None:
    source = choose(run, "RUN=r", "CHECKPOINT=best")
    with source.local_weights() as path:
        assert path.read_bytes() == run.weights_of("best").read_bytes()
    assert source.test_loss is None
    assert choose(run, "RUN=r").weights == run.weights


def test_altered_best_weights_are_refused(run: Run) -> None:
    file = run.weights_of("best")
    content = file.read_bytes()
    file.write_bytes(content + b"x")
    try:
        with pytest.raises(WeightsError, match="altered"):
            runs.load("r", storage=str(run.path.parent), checkpoint="best")
    finally:
        file.write_bytes(content)


def test_run_without_best_weights_names_the_setting(tmp_path: Path) -> None:
    run = finish(tmp_path, "r", "MODEL=qcnn")
    with pytest.raises(WeightsError, match="KEEP_BEST=true"):
        choose(run, "RUN=r", "CHECKPOINT=best")


def test_weights_and_checkpoint_exclude_each_other(run: Run) -> None:
    with pytest.raises(SettingsError, match="CHECKPOINT=best"):
        choose(run, f"WEIGHTS={run.weights}", "CHECKPOINT=best")
