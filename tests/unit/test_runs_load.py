"""A run's Keras model, in a notebook: rebuilt from what the run recorded."""

from pathlib import Path

import numpy as np
import pytest

from common import runs, storage
from common.data.target import SIGNS, Target
from common.errors import WeightsError
from common.settings import Settings
from common.storage import StoragePath

ANGLES = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def train(root: StoragePath, scratch: Path, model: str) -> tuple[np.ndarray, list[str]]:
    """Leave a finished run; its model's answers and its circuits with bound angles."""
    from common import models

    settings = Settings.from_values(model=model, qubits=4, filters=2, seed=7)
    identity, fingerprint = settings.identity(), settings.fingerprint()
    opened = runs.claim_for_training(root, "r", identity, fingerprint, "job")
    assert isinstance(opened, runs.ClaimedRun)
    opened.record("d", {}, {})
    with opened:
        made = models.build_model(4, settings)
        file = scratch / "weights.h5"
        made.save_weights(file)
        described = models.describe_model(
            made, 4, settings, {"placement": "angle", "target": SIGNS.to_json()}
        )
        weights = opened.run.write_model(described, file)
        opened.finish({"metrics": {}, "epochs": 1, "seconds": 0.5, "weights": weights})
    circuits = [str(layer.bound_circuit()) for layer in models.circuit_layers(made)]
    return made(ANGLES).numpy(), circuits


@pytest.mark.parametrize("model", ["hybrid", "multi-filter"])
def test_loaded_model_predicts_like_the_trained_one(tmp_path: Path, model: str) -> None:
    answers, circuits = train(tmp_path / "runs", tmp_path, model)
    loaded = runs.load("r", storage=str(tmp_path / "runs"))
    np.testing.assert_array_equal(loaded.model(ANGLES).numpy(), answers)
    assert loaded.model is loaded.model
    assert [str(each.circuit) for each in loaded.circuits] == circuits
    for each in loaded.circuits:
        assert each.to_qasm(ANGLES[0]).count("\n") > 10
    assert "OPENQASM 2.0" in loaded.to_qasm()


def test_load_model_from_the_cloud(gs: str, tmp_path: Path) -> None:
    answers, _ = train(storage.path(gs), tmp_path, "qcnn")
    np.testing.assert_array_equal(runs.load(f"{gs}/r").model(ANGLES).numpy(), answers)


def test_rebuild_invalid_description_is_refused(tmp_path: Path) -> None:
    train(tmp_path / "runs", tmp_path, "qcnn")
    described = runs.Run(tmp_path / "runs" / "r").weights.parent / "model.json"
    content = storage.read_json(described)
    del content["features"]
    storage.write_json(described, content)
    with pytest.raises(WeightsError, match=r"model.json is damaged: it lacks features"):
        runs.load("r", storage=str(tmp_path / "runs"))


def test_rebuild_target_of_another_task_is_refused() -> None:
    from common import models

    # With noise, states have 4^QUBITS words: their width is limited by the recorded TASK.
    settings = Settings.from_values(
        task="energy", model="hardware-efficient", qubits=40, noise="depolarizing:0.1"
    )
    encoding = {"placement": "angle", "target": Target("state", "fidelity").to_json()}
    described = {"settings": settings.identity(), "features": 3, "encoding": encoding}
    with pytest.raises(WeightsError, match="TASK=state"):
        models.rebuild(described)
