"""A finished run made in a moment, through the real code: all of training but the training."""

import json
import tempfile
from pathlib import Path

import pytest

from common import runs, storage
from common.data import prepare
from common.runs import Run
from common.settings import Settings
from common.storage import StoragePath

SMALL = [
    "QUBITS=4",
    "TRAIN_EXAMPLES=40",
    "VALIDATION_EXAMPLES=10",
    "TEST_EXAMPLES=60",
    "INITIALIZATIONS=2",
    "INITIALIZATION_EPOCHS=2",
]


def model_folder(run: Path) -> Path:
    """Return the folder of weights.h5 and model.json of a finished run in a local folder."""
    return (run / json.loads((run / "result.json").read_text())["weights"]["path"]).parent


def shorten_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write reports without matplotlib and with untuned baselines, which take most of the time."""
    from inference import baseline, report_plots, task_plots

    for module in (report_plots, task_plots):
        monkeypatch.setattr(module, "to_svg", lambda _, name, label: f"<svg>{name} {label}</svg>")
    for grid in ("STRENGTHS", "GAMMAS"):
        monkeypatch.setattr(baseline, grid, (1.0,))


def finish(root: StoragePath, name: str, *args: str) -> Run:
    """A finished run whose weights are the first ones.

    Args:
        root: STORAGE.
        name: The run's name.
        args: Settings, NAME=value each, besides SMALL.
    """
    from common.models import build_model, describe_model

    settings = Settings.from_args([*SMALL, *args])
    data = prepare(settings, root / runs.DATASETS)
    opened = runs.claim_for_training(
        root,
        name,
        settings.identity(),
        settings.fingerprint(),
        "job",
    )
    assert isinstance(opened, runs.ClaimedRun)
    other = {"epochs": 3, "workers": 1, "dataset": data.name}
    opened.record(data.fingerprint, {"python": "3.11"}, other)
    with opened, tempfile.TemporaryDirectory() as folder:
        model = build_model(data.features, settings, data.placement, data.target)
        model(data.split("train").angles[:1])  # a subclassed model has no weights before
        file = Path(folder, "weights.h5")
        model.save_weights(file)
        described = describe_model(model, data.features, settings, data.manifest.encoding)
        weights = opened.run.write_model(described, file)
        rows = [{"epoch": i + 1, "mse": 1 / (i + 1), "val_mse": 1.1 / (i + 1)} for i in range(7)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        storage.write_atomic(opened.run.path / "metrics.jsonl", lines)
        opened.finish({"metrics": {}, "epochs": 7, "seconds": 1.5, "weights": weights})
    return opened.run
