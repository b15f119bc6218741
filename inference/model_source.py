"""The model of an inference: that of a finished run, or weights at a path.

    RUN unset, WEIGHTS unset    the run of STORAGE that was finished last
    RUN=name                    that run
    WEIGHTS=path                a weights.h5 next to its model.json, or the folder of both;
                                if they are in the folder of a finished run, that run

This module does not import TensorFlow, so that mistakes are reported within a second or two.
"""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py

from common import runs, storage
from common.errors import RunError, SettingsError, WeightsError
from common.formats import MODEL_FORMAT
from common.settings import Settings
from common.storage import StoragePath

RETRAIN_HINT = "restore the file or train again"


@dataclass(frozen=True)
class ModelSource:
    """Weights, their model, and the records of their training.

    Attributes:
        weights: Path of the weights (HDF5).
        described: Content of model.json (`common.models.describe_model`).
        predictions: Folder for predictions.
        run: The finished run that the weights belong to, if any.
        record: Content of run.json; empty without a run.
        result: Content of the result.json of the run or next to the weights; empty without one.
        metrics: The rows of metrics.jsonl; empty without a run.
        unverified: The reason why the SHA-256 of the weights was not verified; else empty.
    """

    weights: StoragePath
    described: dict[str, Any]
    predictions: StoragePath
    run: runs.Run | None = None
    record: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    unverified: str = ""

    @property
    def name(self) -> str:
        """Name of the run, or path of the weights."""
        return self.run.name if self.run else str(self.weights)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the training, by name."""
        return self.described["settings"]

    @property
    def title(self) -> str:
        """Name with model and width, such as `run hybrid (hybrid, 8 qubits)`."""
        return f"{'run' if self.run else 'weights'} {self.name} ({_model_name(self.settings)})"

    @property
    def test_mse(self) -> float | None:
        """The mean squared error on the test split that training recorded; None without one."""
        test = self.result.get("metrics", {}).get("test")
        mse = test.get("mse") if isinstance(test, dict) else None
        return float(mse) if isinstance(mse, int | float) else None

    @contextlib.contextmanager
    def local_weights(self) -> Iterator[Path]:
        """Provide the weights as a local file, with verified SHA-256 and shapes.

        Raises:
            WeightsError: They are missing, altered, not HDF5, or those of another model.
        """
        with contextlib.ExitStack() as stack:
            if self.run:
                path = stack.enter_context(self.run.local_weights())
            else:
                path = stack.enter_context(_local(self.weights))
                _verify_sha256(path, self)
            _verify_shapes(path, self)
            yield path


def choose_model(settings: Settings) -> ModelSource:
    """Find the model that the settings specify.

    Args:
        settings: STORAGE, RUN and WEIGHTS are used; others must match the recorded ones.

    Raises:
        RunError: The run does not exist, or it is not finished.
        WeightsError: model.json or the weights are missing or damaged.
        SettingsError: RUN and WEIGHTS are both set, or a setting contradicts the recorded one.
    """
    if settings.inference.weights and settings.job.run:
        raise SettingsError(
            f"WEIGHTS={settings.inference.weights} and RUN={settings.job.run} both select weights:"
            " set only one of them"
        )
    if settings.inference.weights:
        source = _from_path(storage.path(settings.inference.weights))
    else:
        source = _from_run(runs.resolve(storage.path(settings.job.storage), settings.job.run))
    _check_consistency(settings, source)
    return source


def _from_run(run: runs.Run) -> ModelSource:
    described, record = run.model(), run.record()
    _check_described(described, run.path / "model" / "model.json")
    if described["settings"] != record["settings"]:
        raise WeightsError(
            f"{run.path / 'model' / 'model.json'} describes a model with other settings than run"
            f" {run.name}: {RETRAIN_HINT}"
        )
    metrics, result = run.metrics(), run.result()
    return ModelSource(run.weights, described, run.predictions, run, record, result, metrics)


def _from_path(path: StoragePath) -> ModelSource:
    """Return the model of weights at a path, or in a folder that contains them or model/."""
    if path.suffix not in (".h5", ".hdf5"):
        inner = path / "model"
        folder = inner if storage.exists(inner / "weights.h5") else path
        if not storage.exists(folder / "weights.h5"):
            raise WeightsError(
                f"WEIGHTS={path} does not contain a weights.h5: give a weights.h5 next to its"
                " model.json, or the folder of both"
            )
        path = folder / "weights.h5"
    run = runs.Run(path.parent.parent)
    if path.name == "weights.h5" and path.parent.name == "model" and run.exists():
        if run.finished():
            return _from_run(run)
        raise RunError(
            f"{path} belongs to run {run.name}, which is not finished: `make training"
            f" RUN={run.name}` continues it"
        )
    if not storage.exists(path):
        raise WeightsError(f"WEIGHTS={path} does not exist: give the path of a weights.h5")
    described = _read_json(path.parent / "model.json")
    if described is None:
        raise WeightsError(
            f"there is no model.json next to {path}, which describes the model of the weights:"
            " copy it from the folder model/ of the run"
        )
    _check_described(described, path.parent / "model.json")
    result, unverified = _read_result(path), ""
    if not result:
        unverified = f"the SHA-256 of {path} was not verified: there is no result.json next to it"
    predictions = path.parent / "predictions"
    return ModelSource(path, described, predictions, result=result, unverified=unverified)


def _read_json(path: StoragePath) -> Any:
    """Return the JSON content of a file; None if the file does not exist."""
    try:
        return storage.read_json(path)
    except FileNotFoundError:
        return None
    except ValueError:
        raise WeightsError(f"{path} is damaged: it is not JSON; {RETRAIN_HINT}") from None


def _read_result(weights: StoragePath) -> dict[str, Any]:
    """Return the result.json next to the weights or above their folder model/; else empty."""
    for folder in (weights.parent, weights.parent.parent):
        if folder != weights.parent and weights.parent.name != "model":
            continue
        result = _read_json(folder / "result.json")
        if result is None:
            continue
        weights_record = result.get("weights") if isinstance(result, dict) else None
        valid = isinstance(weights_record, dict) and isinstance(weights_record.get("sha256"), str)
        if not valid or not isinstance(result.get("metrics", {}), dict):
            raise WeightsError(
                f"{folder / 'result.json'} is damaged: it lacks the SHA-256 of the weights or the"
                f" metrics; {RETRAIN_HINT}"
            )
        return result
    return {}


def _check_described(described: Any, path: StoragePath) -> None:
    """Raise if model.json lacks a field that is needed to build the model."""
    kinds = {"settings": dict, "features": int, "encoding": dict, "weights": list, "circuits": list}
    if not isinstance(described, dict):
        raise WeightsError(f"{path} is damaged: it is not a JSON object; {RETRAIN_HINT}")
    if described.get("format") != MODEL_FORMAT:
        raise WeightsError(
            f"{path} has format {described.get('format')!r}, not {MODEL_FORMAT}: use the version of"
            " qfleet that trained it, or train again"
        )
    wrong = [key for key, kind in kinds.items() if not isinstance(described.get(key), kind)]
    if wrong:
        raise WeightsError(f"{path} is damaged: it lacks {', '.join(wrong)}; {RETRAIN_HINT}")
    shapes = described["weights"]
    if not all(isinstance(s, list) and all(isinstance(n, int) for n in s) for s in shapes):
        raise WeightsError(f"{path} is damaged: weights are not a list of shapes; {RETRAIN_HINT}")


def _check_consistency(settings: Settings, source: ModelSource) -> None:
    """Raise if a setting of the model or its data differs from the recorded one."""
    for name, field_ in Settings.fields().items():
        if field_.group not in ("model", "data") or name == "seed" or name not in source.settings:
            continue
        value, recorded = settings.get(name), source.settings[name]
        if name in settings.explicit and value not in (recorded, field_.default):
            hint = f"leave {name.upper()} out"
            if name == "data":
                hint = "use INPUT for a table of new examples"
            raise SettingsError(
                f"{name.upper()}={value} contradicts {source.title}, which was trained with"
                f" {name.upper()}={recorded}: {hint}"
            )


@contextlib.contextmanager
def _local(path: StoragePath) -> Iterator[Path]:
    with contextlib.ExitStack() as stack:
        try:
            local = stack.enter_context(storage.local_copy(path))
        except FileNotFoundError:
            raise WeightsError(f"there are no weights at {path}: {RETRAIN_HINT}") from None
        yield local


def _verify_sha256(path: Path, source: ModelSource) -> None:
    if not source.result:
        return
    recorded = source.result["weights"]["sha256"]
    measured = hashlib.sha256(path.read_bytes()).hexdigest()
    if measured != recorded:
        raise WeightsError(
            f"{source.weights} was altered: its SHA-256 is {measured[:12]}..., but result.json"
            f" has {recorded[:12]}...; {RETRAIN_HINT}"
        )


def _verify_shapes(path: Path, source: ModelSource) -> None:
    """Raise if the shapes of the arrays in the file are not those of model.json."""
    shapes: list[list[int]] = []

    def add_shape(_: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            shapes.append([int(n) for n in item.shape])

    try:
        with h5py.File(path, "r") as file:
            file.visititems(add_shape)
    except (OSError, RuntimeError, KeyError) as error:
        reason = " ".join(str(error).split())[:120]
        raise WeightsError(
            f"{source.weights} is not an HDF5 file of weights, or it is truncated ({reason}):"
            f" {RETRAIN_HINT}"
        ) from None
    expected = source.described["weights"]
    if sorted(shapes) != sorted(expected):
        raise WeightsError(
            f"{source.weights} contains arrays of shapes {_format_shapes(shapes)}, but the model"
            f" ({_model_name(source.settings)}) of model.json has {_format_shapes(expected)}, so"
            " the weights are from another model: use the weights and the model.json of the same"
            " run"
        )


def _format_shapes(shapes: list[list[int]]) -> str:
    shown = ["x".join(map(str, shape)) or "scalar" for shape in sorted(shapes)[:8]]
    return (", ".join(shown) or "none") + (", ..." if len(shapes) > 8 else "")


def _model_name(settings: Mapping[str, Any]) -> str:
    return f"{settings.get('model')}, {settings.get('qubits')} qubits"
