"""The model of an inference: that of a finished run, or weights at a path.

    RUN unset, WEIGHTS unset    the run of STORAGE that was finished last
    RUN=name                    that run; with CHECKPOINT=best, the weights of its best epoch
    WEIGHTS=path                a weights.h5 next to its model.json, or the folder of both;
                                if they are in the folder of a finished run, that run

This module does not import TensorFlow, so that mistakes are reported within a second or two.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from common import runs, storage, weights_file
from common.commands import command
from common.errors import RunError, SettingsError, WeightsError
from common.runs import records
from common.settings import Settings
from common.settings.amplitude_checks import check_amplitudes
from common.settings.circuit_file import short_model
from common.settings.forward_checks import require_noise_of_trajectories
from common.settings.groups.experiment import GATE, NO_NOISE, NO_SHOTS
from common.storage import StoragePath
from common.text import plural
from common.user_code import UserCode
from common.weights_file import RETRAIN_HINT

REPLACED = ("noise", "shots", "trajectories", "sampler")
"""Settings of the model that inference may replace."""

SAMPLED = {"prune": 0, "reproducible": False}
"""Settings of the training that a sampler replaces. Dropped angles are recorded as 0, so that the
gates that a sampler still applies are the identity."""


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
        code: Permission to import the user's model.
        checkpoint: CHECKPOINT: last, or best.
        has_other_noise: True if NOISE, SHOTS or SAMPLER differ from those of the training.
    """

    weights: StoragePath
    described: dict[str, Any]
    predictions: StoragePath
    run: runs.Run | None = None
    record: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)
    unverified: str = ""
    code: UserCode = field(default_factory=UserCode)
    checkpoint: str = "last"
    has_other_noise: bool = False

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
    def test_loss(self) -> tuple[str, float] | None:
        """Name and value of the loss on the test split that training recorded; None without one.

        With CLASS_WEIGHTS or LOSS, it is not a number that inference computes.
        """
        test = self.result.get("metrics", {}).get("test")
        if not test or self.settings.get("class_weights"):
            return None
        name, value = next(iter(test.items()))
        return (name, float(value)) if isinstance(value, int | float) else None

    @contextlib.contextmanager
    def local_weights(self) -> Iterator[Path]:
        """Provide the weights as a local file, with verified SHA-256 and content.

        Raises:
            WeightsError: They are missing, altered, not HDF5, or those of another model.
        """
        with contextlib.ExitStack() as stack:
            if self.run:
                path = stack.enter_context(self.run.local_weights(self.checkpoint))
            else:
                path = stack.enter_context(weights_file.local_copy(self.weights))
                if self.result:
                    recorded = self.result["weights"]["sha256"]
                    weights_file.verify_digest(path, self.weights, recorded)
            shapes, model = self.described["weights"], _model_name(self.settings)
            weights_file.verify_content(path, self.weights, shapes, model)
            yield path


def choose_model(settings: Settings) -> ModelSource:
    """Find the model that the settings specify.

    Args:
        settings: STORAGE, RUN and WEIGHTS are used; MODEL permits a user's model, NOISE, SHOTS,
            TRAJECTORIES and SAMPLER replace those of the training, ZNE and ZNE_FIT are added, and
            others must match the recorded ones.

    Raises:
        RunError: The run does not exist, is not finished, or has links to other places.
        WeightsError: model.json or the weights are missing or damaged.
        SettingsError: RUN or CHECKPOINT is set in addition to WEIGHTS, a setting contradicts the
            recorded one, ZNE does not fit the model, or the model is a user's own and must be
            named.
    """
    if settings.inference.weights and settings.job.run:
        raise SettingsError(
            f"WEIGHTS={settings.inference.weights} and RUN={settings.job.run} both select weights:"
            " set only one of them"
        )
    checkpoint = settings.inference.checkpoint
    if settings.inference.weights and checkpoint != "last":
        raise SettingsError(
            f"WEIGHTS={settings.inference.weights} and CHECKPOINT={checkpoint} both select weights:"
            " set only one of them"
        )
    if settings.inference.weights:
        source = _from_path(storage.path(settings.inference.weights))
    else:
        run = runs.resolve(storage.path(settings.job.storage), settings.job.run)
        source = _from_run(run, checkpoint)
    _check_consistency(settings, source)
    source = _with_zne(settings, _with_noise(settings, source))
    _require_states(settings, source)
    source = replace(source, code=_user_code(settings, source))
    source.code.require(source.settings["model"], source.described["source"])
    return source


def _with_noise(settings: Settings, source: ModelSource) -> ModelSource:
    """Return the model with the given NOISE, SHOTS and TRAJECTORIES in place of the recorded.

    SAMPLER is that of this inference: whoever made the run named the module that a recorded one
    would import.
    """
    given = {name: settings.get(name) for name in REPLACED}
    changed = {
        name: value
        for name, value in given.items()
        if value not in ("", None, source.settings.get(name))
    }
    if source.settings.get("sampler") and not given["sampler"]:
        changed |= {"sampler": "", "shots": given["shots"] or NO_SHOTS}
    if not changed:
        return source
    if source.settings.get("task") == GATE:
        name = min(changed).upper()
        raise SettingsError(
            f"{name} does not fit {source.title}, whose pulse is for the device of its training:"
            f" omit {name}"
        )
    recorded = {**source.settings, **changed, "gradient": "noisy"}
    if given["sampler"]:
        recorded |= SAMPLED
    try:
        merged = Settings.from_record(recorded)
    except ValueError as error:
        names = [name.upper() for name in changed]
        is_advised = any(f"omit {name}" in str(error) for name in names)
        advice = "" if is_advised else f"; {', '.join(names)} can be left out"
        raise SettingsError(f"{error}{advice}") from None
    if given["trajectories"]:
        require_noise_of_trajectories(merged.model)
    described = {**source.described, "settings": recorded}
    # The recorded metrics are those of the noise of the training.
    result = {**source.result, "metrics": {}}
    return replace(source, described=described, result=result, has_other_noise=True)


def _with_zne(settings: Settings, source: ModelSource) -> ModelSource:
    """Return the model with ZNE and ZNE_FIT among its settings, if ZNE is given.

    Raises:
        SettingsError: The model has no noise, or no readouts, or normalises or samples them.
    """
    zne, recorded = settings.inference.zne, source.settings
    if not zne:
        return source
    if (task := recorded.get("task")) in ("state", GATE):
        raise SettingsError(
            f"ZNE={zne} does not fit TASK={task}, whose fidelities are no readouts: omit ZNE"
        )
    if recorded.get("normalize_readouts"):
        raise SettingsError(
            f"ZNE={zne} does not fit NORMALIZE_READOUTS=true, which scales readouts by their"
            " statistics under the noise: omit ZNE"
        )
    if recorded.get("sampler"):
        raise SettingsError(
            f"ZNE={zne} can't be used with SAMPLER={recorded['sampler']}, since folded circuits are"
            " simulated: omit one"
        )
    noise = str(recorded.get("noise") or NO_NOISE)
    if noise == NO_NOISE:
        raise SettingsError(
            f"ZNE={zne} has no noise to extrapolate, since {source.title} has NOISE={noise}: set"
            " NOISE, for example to depolarizing:0.01, or omit ZNE"
        )
    added = {"zne": zne, "zne_fit": settings.inference.zne_fit}
    described = {**source.described, "settings": {**recorded, **added}}
    # The recorded metrics are those of readouts with noise.
    return replace(source, described=described, result={**source.result, "metrics": {}})


def _require_states(settings: Settings, source: ModelSource) -> None:
    """Raise if a model of ENCODER=amplitude gets a setting that has no initial states.

    Raises:
        SettingsError: It is ZNE, SAMPLER or the noise of a device.
    """
    encoding = source.described.get("encoding", {})
    if encoding.get("placement") != "amplitude":
        return
    if zne := settings.inference.zne:
        raise SettingsError(
            f"ZNE={zne} does not fit ENCODER=amplitude of {source.title}, whose folded circuits"
            " would need initial states: omit ZNE"
        )
    try:
        merged = Settings.from_record(source.settings)
        check_amplitudes(merged.model, merged.data, merged.training)
    except ValueError as error:
        raise SettingsError(f"{error}, where the model is that of {source.title}") from None


def _user_code(settings: Settings, source: ModelSource) -> UserCode:
    named = settings.model.model if "model" in settings.explicit else ""
    folder = source.run.path if source.run else source.weights.parent
    # Weights outside of a run lie in the received folder, or in its folder model/ID.
    nested = folder.parent.parent if folder.parent.name == "model" else folder
    outer = folder.parent if source.run else nested
    places = [storage.path(settings.job.storage), outer]
    local = tuple(place for place in places if isinstance(place, Path))
    return UserCode(named, local, settings.job.verbose, settings.model.sampler)


def _from_run(run: runs.Run, checkpoint: str = "last") -> ModelSource:
    run.require_own_files()
    described, record = run.model(checkpoint), run.record()
    weights = run.weights_of(checkpoint)
    if described["settings"] != record["settings"]:
        raise WeightsError(
            f"{weights.parent / 'model.json'} describes a model with other settings than run"
            f" {run.name}: {RETRAIN_HINT}"
        )
    metrics, result = run.metrics(), run.result()
    if checkpoint == "best":  # the recorded metrics are those of the last epoch
        result |= {"weights": result["best"], "metrics": {}, "pruned": None}
    return ModelSource(
        *(weights, described, run.predictions, run, record, result, metrics), checkpoint=checkpoint
    )


def _from_path(path: StoragePath) -> ModelSource:
    """Return the model of weights at a path, or in a folder: that of weights, or of a run."""
    run = _run_of(path)
    if run and run.finished():
        return _from_run(run)
    if run:
        raise RunError(
            f"{path} belongs to run {run.name}, which is not finished: `{command('train')}"
            f" RUN={run.name}` continues it"
        )
    if path.suffix not in (".h5", ".hdf5"):
        if not storage.exists(path / "weights.h5"):
            raise WeightsError(
                f"WEIGHTS={path} does not contain a weights.h5: give a weights.h5 next to its"
                " model.json, or the folder of both"
            )
        path = path / "weights.h5"
    if not storage.exists(path):
        raise WeightsError(f"WEIGHTS={path} does not exist: give the path of a weights.h5")
    predictions = path.parent / "predictions"
    _require_plain_folder(predictions)
    described = runs.read_model(path.parent / "model.json")
    if described is None:
        raise WeightsError(
            f"there is no model.json next to {path}, which describes the model of the weights:"
            " copy it from the same folder of the run"
        )
    result, unverified = _read_result(path), ""
    if not result:
        unverified = f"the SHA-256 of {path} was not verified: there is no result.json next to it"
    return ModelSource(path, described, predictions, result=result, unverified=unverified)


def _require_plain_folder(folder: StoragePath) -> None:
    """Raise if a folder would lead what is written to it to another place."""
    if entry := storage.foreign_entry(folder):
        raise WeightsError(f"predictions can't be written next to the weights: {entry}; delete it")


def _run_of(path: StoragePath) -> runs.Run | None:
    """Return the run of a folder RUN, RUN/model or RUN/model/ID, or of the weights in the last."""
    folder = path.parent if path.name == "weights.h5" else path
    candidates = [folder] if folder == path else []
    if folder.name == "model" and folder == path:
        candidates.append(folder.parent)
    if folder.parent.name == "model":
        candidates.append(folder.parent.parent)
    return next((run for run in map(runs.Run, candidates) if run.exists()), None)


def _read_result(weights: StoragePath) -> dict[str, Any]:
    """Return the result.json next to the weights or above their folder model/ID; else empty."""
    folders = [weights.parent]
    if weights.parent.parent.name == "model":
        folders.append(weights.parent.parent.parent)
    for folder in folders:
        try:
            result = storage.read_json(folder / "result.json")
            records.check_weights_result(result)
        except FileNotFoundError:
            continue
        except ValueError as error:
            raise WeightsError(
                f"{folder / 'result.json'} is damaged: {error}; {RETRAIN_HINT}"
            ) from None
        found: dict[str, Any] = result
        return found
    return {}


def _check_consistency(settings: Settings, source: ModelSource) -> None:
    """Raise if a setting of the model or its data differs from the recorded one."""
    for name, field_ in Settings.fields().items():
        if field_.group not in ("model", "data") or name not in source.settings:
            continue
        if name == "seed" or name in REPLACED:
            continue
        value, recorded = settings.get(name), source.settings[name]
        if name in settings.explicit and value not in (recorded, field_.default):
            hint = f"leave {name.upper()} out"
            if name == "data":
                hint = "use INPUT for a table of new examples"
            raise SettingsError(
                f"{name.upper()}={_shown(value)} contradicts {source.title}, which was trained with"
                f" {name.upper()}={_shown(recorded)}: {hint}"
            )


def _shown(value: object) -> str:
    """Return a value as a command line has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _model_name(settings: Mapping[str, object]) -> str:
    model = short_model(str(settings.get("model")))
    # A model of the user's has the qubits that its factory gives it.
    return model if ":" in model else f"{model}, {plural(int(str(settings['qubits'])), 'qubit')}"
