"""Which weights answer: those of a finished run, or those at a path.

    RUN unset, WEIGHTS unset    the run of STORAGE that was finished last
    RUN=name                    that run
    WEIGHTS=path                a weights.h5 with its model.json beside it, or the folder of both;
                                where they lie in a finished run's folder, that run

No TensorFlow here: what is wrong with the choice is said within a second or two.
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
from common.settings import Settings
from common.storage import StoragePath

FORMAT = 1
RETRAIN_HINT = "restore the file or train again"


@dataclass(frozen=True)
class ModelSource:
    """Weights, the model that they belong to, and what is known of how they came to be.

    Attributes:
        weights: The weights.h5.
        described: What model.json says (`common.models.describe`).
        predictions: The folder that answers are written to.
        run: The finished run, where the weights are a run's.
        record: run.json; empty without a run.
        result: result.json, or what lies beside the weights under that name; empty without.
        metrics: The rows of metrics.jsonl; empty without a run.
        unchecked: Why the weights' sha256 could not be compared; empty where it was.
    """

    weights: StoragePath
    described: dict[str, Any]
    predictions: StoragePath
    run: runs.Run | None = None
    record: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    unchecked: str = ""

    @property
    def name(self) -> str:
        """What to call it: the run's name, or the weights' path."""
        return self.run.name if self.run else str(self.weights)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the model was trained with, by name."""
        return self.described["settings"]

    @property
    def title(self) -> str:
        """`run hybrid (hybrid, 8 qubits)`."""
        what = f"{self.settings.get('model')}, {self.settings.get('qubits')} qubits"
        return f"{'run' if self.run else 'weights'} {self.name} ({what})"

    @property
    def test_mse(self) -> float | None:
        """The mean squared error on the test split that training recorded, where it did."""
        test = self.result.get("metrics", {}).get("test")
        mse = test.get("mse") if isinstance(test, dict) else None
        return float(mse) if isinstance(mse, int | float) else None

    @contextlib.contextmanager
    def local_weights(self) -> Iterator[Path]:
        """The weights on a local disk, once their sha256 and their shapes are what was recorded.

        Raises:
            WeightsError: They are missing, altered, not HDF5, or another model's.
        """
        with contextlib.ExitStack() as stack:
            if self.run:
                path = stack.enter_context(self.run.local_weights())
            else:
                path = stack.enter_context(_local(self.weights))
                _compare_sha256(path, self)
            _compare_shapes(path, self)
            yield path


def choose_model(settings: Settings) -> ModelSource:
    """The weights that the settings mean.

    Args:
        settings: STORAGE, RUN and WEIGHTS are read.

    Raises:
        RunError: There is no such run, or it is not finished.
        WeightsError: model.json or the weights are missing or damaged.
        SettingsError: RUN and WEIGHTS are both set, or a setting contradicts what was recorded.
    """
    if settings.inference.weights and settings.job.run:
        raise SettingsError(
            f"WEIGHTS={settings.inference.weights} and RUN={settings.job.run} both say which weights to use: set"
            " one of them"
        )
    if settings.inference.weights:
        source = _at(storage.path(settings.inference.weights))
    else:
        source = _of(runs.resolve(storage.path(settings.job.storage), settings.job.run))
    _refuse_contradictions(settings, source)
    return source


def _of(run: runs.Run) -> ModelSource:
    described, record = run.model(), run.record()
    _check_described(described, run.path / "model" / "model.json")
    if described["settings"] != record["settings"]:
        raise WeightsError(
            f"{run.path / 'model' / 'model.json'} describes a model of other settings than run"
            f" {run.name} was made with: restore the file or train the run again"
        )
    metrics, result = run.metrics(), run.result()
    return ModelSource(run.weights, described, run.predictions, run, record, result, metrics)


def _at(path: StoragePath) -> ModelSource:
    """Weights by their path, or by the folder that holds them (or holds model/)."""
    if path.suffix not in (".h5", ".hdf5"):
        inner = path / "model"
        folder = inner if storage.exists(inner / "weights.h5") else path
        if not storage.exists(folder / "weights.h5"):
            raise WeightsError(
                f"WEIGHTS={path} holds no weights.h5: give a weights.h5 that has its model.json"
                " beside it, or the folder of both"
            )
        path = folder / "weights.h5"
    run = runs.Run(path.parent.parent)
    if path.name == "weights.h5" and path.parent.name == "model" and run.exists():
        if run.finished():
            return _of(run)
        raise RunError(
            f"{path} belongs to run {run.name}, which is not finished: `make training"
            f" RUN={run.name}` goes on with it"
        )
    if not storage.exists(path):
        raise WeightsError(f"WEIGHTS={path} does not exist: give the path of a weights.h5")
    described = _read_json(path.parent / "model.json")
    if described is None:
        raise WeightsError(
            f"there is no model.json beside {path}, which says what model the weights belong to:"
            " copy it from the run's folder model/"
        )
    _check_described(described, path.parent / "model.json")
    result, unchecked = _result_near(path), ""
    if not result:
        unchecked = f"the sha256 of {path} was not compared: there is no result.json beside it"
    predictions = path.parent / "predictions"
    return ModelSource(path, described, predictions, result=result, unchecked=unchecked)


def _read_json(path: StoragePath) -> Any:
    """A file's JSON; None where there is no such file."""
    try:
        return storage.read_json(path)
    except FileNotFoundError:
        return None
    except ValueError:
        raise WeightsError(f"{path} is damaged: it is not JSON; {RETRAIN_HINT}") from None


def _result_near(weights: StoragePath) -> dict[str, Any]:
    """The result.json beside the weights or, for a run's layout, above them; empty without."""
    for folder in (weights.parent, weights.parent.parent):
        if folder != weights.parent and weights.parent.name != "model":
            continue
        found = _read_json(folder / "result.json")
        if found is None:
            continue
        said = found.get("weights") if isinstance(found, dict) else None
        known = isinstance(said, dict) and isinstance(said.get("sha256"), str)
        if not known or not isinstance(found.get("metrics", {}), dict):
            raise WeightsError(
                f"{folder / 'result.json'} is damaged: it does not say the weights' sha256 and"
                f" metrics; {RETRAIN_HINT}"
            )
        return found
    return {}


def _check_described(described: Any, path: StoragePath) -> None:
    """Raise where model.json lacks what rebuilding the model needs."""
    kinds = {"settings": dict, "features": int, "encoding": dict, "weights": list, "circuits": list}
    if not isinstance(described, dict):
        raise WeightsError(f"{path} is damaged: it is not a JSON object; {RETRAIN_HINT}")
    if described.get("format") != FORMAT:
        raise WeightsError(
            f"{path} is of format {described.get('format')!r}, not {FORMAT}: use the version of"
            " qfleet that trained it, or train again"
        )
    wrong = [key for key, kind in kinds.items() if not isinstance(described.get(key), kind)]
    if wrong:
        raise WeightsError(f"{path} is damaged: it lacks {', '.join(wrong)}; {RETRAIN_HINT}")
    shapes = described["weights"]
    if not all(isinstance(s, list) and all(isinstance(n, int) for n in s) for s in shapes):
        raise WeightsError(f"{path} is damaged: weights are not a list of shapes; {RETRAIN_HINT}")


def _refuse_contradictions(settings: Settings, source: ModelSource) -> None:
    """A model is answered with as it was trained, so another QUBITS or DATA is a mistake."""
    for name, field_ in Settings.fields().items():
        if field_.group not in ("model", "data") or name == "seed" or name not in source.settings:
            continue
        said, recorded = settings.get(name), source.settings[name]
        if name in settings.explicit and said not in (recorded, field_.default):
            hint = "INPUT is the table to answer" if name == "data" else f"leave {name.upper()} out"
            raise SettingsError(
                f"{name.upper()}={said} contradicts {source.title}, which was trained with"
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


def _compare_sha256(path: Path, source: ModelSource) -> None:
    if not source.result:
        return
    recorded = source.result["weights"]["sha256"]
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != recorded:
        raise WeightsError(
            f"{source.weights} was altered: its sha256 is {found[:12]}..., result.json says"
            f" {recorded[:12]}...; {RETRAIN_HINT}"
        )


def _compare_shapes(path: Path, source: ModelSource) -> None:
    """Raise where the file does not hold arrays of the shapes that model.json lists."""
    there: list[list[int]] = []

    def note(_: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            there.append([int(n) for n in item.shape])

    try:
        with h5py.File(path, "r") as file:
            file.visititems(note)
    except (OSError, RuntimeError, KeyError) as error:
        reason = " ".join(str(error).split())[:120]
        raise WeightsError(
            f"{source.weights} is not a file of weights (HDF5), or was cut short ({reason}):"
            f" {RETRAIN_HINT}"
        ) from None
    wanted = source.described["weights"]
    if sorted(there) != sorted(wanted):
        raise WeightsError(
            f"{source.weights} holds arrays of shapes {_shapes(there)}, but"
            f" {_model(source.settings)} in model.json has {_shapes(wanted)}: they are another"
            " model's, so put the weights and the model.json of one run side by side"
        )


def _shapes(shapes: list[list[int]]) -> str:
    shown = ["x".join(map(str, shape)) or "scalar" for shape in sorted(shapes)[:8]]
    return (", ".join(shown) or "none") + (", ..." if len(shapes) > 8 else "")


def _model(settings: Mapping[str, Any]) -> str:
    return f"the model ({settings.get('model')}, {settings.get('qubits')} qubits)"
