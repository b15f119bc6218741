"""Export of runs to a folder of MLflow: `make runs EXPORT=a,b TO=mlflow STORE=mlruns`.

One run of MLflow per run, found again by the tag `qfleet.id`:

    params      the settings
    metrics     the numbers of metrics.jsonl by epoch, and those of result.json as test/mse
    tags        lineage: data set, study, aliases, code, versions, weights
    inputs      the data set
    artifacts   run.json, result.json, metrics.jsonl, the report, logs of workers, weights
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from common import storage
from common.commands import command
from common.environments import MLFLOW
from common.errors import RunError, SettingsError, StorageError
from common.runs import records
from common.runs.aliases import aliases
from common.runs.run import Run
from common.storage import StoragePath
from common.text import printable

EXPERIMENT = "qfleet"
"""Name of the experiment that has all runs."""

ID = "qfleet.id"
"""Tag that names the exported run."""

_CONSENT = "MLFLOW_ALLOW_FILE_STORE"
"""Variable of the environment by which MLflow 3 consents to folders."""

_ENVIRONMENT = {_CONSENT: "true", "MLFLOW_DISABLE_TELEMETRY": "true"}
"""Variables that MLflow reads."""

VIEW_COMMAND = f"{_CONSENT}=true mlflow ui"
"""Shows a folder."""

MAX_BATCH = 1000
"""Most metrics that MLflow takes in one call."""

MAX_DIGEST = 36
"""Most characters of the digest of a data set in MLflow."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
"""Names of settings and metrics that are exported: MLflow makes files of them."""

_COMMIT = re.compile(r"\+([0-9a-f]{7,40})\b")


class MlflowStore:
    """A folder of MLflow.

    Args:
        folder: The folder; it is created.

    Raises:
        SettingsError: MLflow is not installed, or the folder has other content.
        StorageError: The folder can't be written.
        RunError: MLflow can't use the folder.
    """

    def __init__(self, folder: StoragePath) -> None:
        if not isinstance(folder, Path):
            raise SettingsError(f"STORE={folder} is a bucket: give a folder of this machine")
        _require_own(folder)
        self._folder = folder.resolve()
        self._mlflow = _import_mlflow()
        with self._translated():
            self._client = self._mlflow.MlflowClient(self._folder.as_uri())
            self._experiment = self._find_experiment()
            found = self._client.search_runs([self._experiment], max_results=50_000)
        self._known = {one.data.tags.get(ID): one.info.run_id for one in found}

    def write(self, run: Run) -> bool:
        """Write a run, or what is new of it.

        Args:
            run: A run with an epoch.

        Returns:
            True if the store had the run already.

        Raises:
            RunError: No epoch has ended, a file is damaged, or MLflow refuses the run.
            StorageError, StorageUnavailable: A file can't be read or written.
            WeightsError: The weights are missing or were altered.
        """
        run.require_own_files()
        record, rows = run.record(), run.metrics()
        result = run.result() if run.finished() else {}
        if not rows and not result:
            raise RunError(
                f"run {run.name} has no finished epoch to export: run"
                f" `{command('train')} {run.arguments}` to {run.continuation}"
            )
        start = _milliseconds(_started(run, record))
        end = _milliseconds(records.finish_time(result)) if result else None
        identity = _identity(run, record)
        with self._translated():
            exists = identity in self._known
            if not exists:
                created = self._client.create_run(self._experiment, start, run_name=run.name)
                self._known[identity] = created.info.run_id
            own = self._known[identity]
            self._write_tags(own, {ID: identity, **_tags(run, record, result)})
            self._write_params(own, record)
            self._write_metrics(own, [*_curves(rows, start), *_results(result, end)])
            self._write_data_set(own, record)
            for copy, folder in _artifacts(run, result):
                with copy as file:
                    self._client.log_artifact(own, str(file), folder or None)
            self._client.set_terminated(own, "FINISHED" if result else "RUNNING", end)
        return exists

    def _find_experiment(self) -> str:
        found = self._client.get_experiment_by_name(EXPERIMENT)
        if found is None:
            return str(self._client.create_experiment(EXPERIMENT))
        if found.lifecycle_stage != "active":
            raise RunError(
                f"the experiment {EXPERIMENT} of STORE={self._folder} was deleted: restore it in"
                " MLflow, or choose another STORE"
            )
        return str(found.experiment_id)

    def _write_tags(self, own: str, tags: Mapping[str, str]) -> None:
        before = self._client.get_run(own).data.tags
        for name in [one for one in before if one.startswith("qfleet.") and one not in tags]:
            self._client.delete_tag(own, name)  # such as an alias that names another run now
        for name, value in tags.items():
            self._client.set_tag(own, name, printable(value))

    def _write_params(self, own: str, record: Mapping[str, Any]) -> None:
        sizes = {name: record["other"].get(name) for name in ("epochs", "workers")}
        for name, value in {**record["settings"], **sizes}.items():
            if value is not None and value != "" and _NAME.fullmatch(name):
                self._client.log_param(own, name, printable(str(value)))

    def _write_metrics(self, own: str, points: Iterable[tuple[str, float, int, int]]) -> None:
        """Write (name, value, milliseconds, epoch) that the store does not have."""
        names = self._client.get_run(own).data.metrics
        known = {
            (name, point.step)
            for name in names
            for point in self._client.get_metric_history(own, name)
        }
        new = [
            self._mlflow.entities.Metric(*one) for one in points if (one[0], one[3]) not in known
        ]
        for first in range(0, len(new), MAX_BATCH):
            self._client.log_batch(own, metrics=new[first : first + MAX_BATCH])

    def _write_data_set(self, own: str, record: Mapping[str, Any]) -> None:
        source = printable(str(record["settings"].get("data", "")))
        name = printable(str(record["other"].get("dataset") or source))
        if not name or not record["data"]:
            return
        entities = self._mlflow.entities
        data = entities.Dataset(
            name, record["data"][:MAX_DIGEST], "local", json.dumps({"uri": source})
        )
        context = entities.InputTag("mlflow.data.context", "training")
        self._client.log_inputs(own, datasets=[entities.DatasetInput(data, [context])])

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Convert errors of MLflow and of the operating system."""
        try:
            with _writing(self._folder):
                yield
        except self._mlflow.exceptions.MlflowException as error:
            raise RunError(
                f"MLflow can't use STORE={self._folder} ({error.error_code}): give an empty folder"
            ) from error


def _import_mlflow() -> Any:
    """Return the module.

    Raises:
        SettingsError: It is not installed.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import mlflow
        import mlflow.entities
        import mlflow.exceptions
    except ImportError:
        raise SettingsError(
            f"TO=mlflow needs MLflow, which is not installed: {MLFLOW.mend}"
        ) from None
    return mlflow


def _require_own(folder: Path) -> None:
    """Raise if a folder has content that is not MLflow's."""
    with _writing(folder):
        if folder.exists() and any(folder.iterdir()) and not (folder / ".trash").is_dir():
            raise SettingsError(
                f"STORE={folder} has files that are not MLflow's: give a new folder, or one that"
                " MLflow has written"
            )


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Convert errors of the operating system."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"STORE={folder} can't be written ({(error.strerror or str(error)).lower()}): change"
            " its permissions, or give another folder"
        ) from error


def _identity(run: Run, record: Mapping[str, Any]) -> str:
    """Return the identity of a run, which it keeps in another STORAGE."""
    words = (run.name, record["fingerprint"], record["data"], record["created"])
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:32]


def _started(run: Run, record: Mapping[str, Any]) -> datetime:
    try:
        return records.time_of(record["created"], "created")
    except ValueError as error:
        raise RunError(f"{run.path / 'run.json'} is damaged: {error}; train it again") from None


def _milliseconds(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def _curves(rows: Sequence[Mapping[str, Any]], start: int) -> Iterator[tuple[str, float, int, int]]:
    """Yield the numbers of epochs; their time is the start and the seconds of epochs until then."""
    seconds = 0.0
    for number, row in enumerate(rows, 1):
        numbers = {name: one for name, one in row.items() if isinstance(one, int | float)}
        seconds += numbers.get("seconds", 0.0)
        epoch = int(numbers.pop("epoch", number))
        for name, value in numbers.items():
            if _NAME.fullmatch(name):
                yield name, float(value), start + round(seconds * 1000), epoch


def _results(result: Mapping[str, Any], end: int | None) -> Iterator[tuple[str, float, int, int]]:
    for split, metrics in result.get("metrics", {}).items():
        for name, value in metrics.items():
            if value is not None and _NAME.fullmatch(split) and _NAME.fullmatch(name):
                yield f"{split}/{name}", float(value), end or 0, result["epochs"]


def _tags(run: Run, record: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, str]:
    """Return the lineage of a run; values that it does not have are left out."""
    other, best = record["other"], result.get("best", {})
    named = [alias for alias, target in aliases(run.path.parent).items() if target == run]
    code = str(other.get("code") or "")
    commit = _COMMIT.search(code)
    path = run.path.resolve() if isinstance(run.path, Path) else run.path
    tags = {
        "mlflow.source.name": "qfleet",
        "mlflow.source.git.commit": commit[1] if commit else None,
        "qfleet.run": path,
        "qfleet.aliases": ", ".join(named),
        "qfleet.study": other.get("study"),
        "qfleet.code": code,
        "qfleet.settings": record["fingerprint"],
        "qfleet.data": record["data"],
        "qfleet.dataset": other.get("dataset"),
        "qfleet.device": result.get("device"),
        "qfleet.weights": result.get("weights", {}).get("sha256"),
        "qfleet.best.weights": best.get("sha256"),
        "qfleet.best.epoch": best.get("epoch"),
        **{
            f"qfleet.version.{package}": version
            for package, version in record.get("versions", {}).items()
            if _NAME.fullmatch(package.replace("-", "_"))
        },
    }
    return {name: str(value) for name, value in tags.items() if value is not None and value != ""}


def _artifacts(
    run: Run, result: Mapping[str, Any]
) -> Iterator[tuple[contextlib.AbstractContextManager[Path], str]]:
    """Yield the files, each as a copy on this machine, and the folder of its artifact."""
    for path, folder in (
        (run.path / "run.json", ""),
        (run.path / "result.json", ""),
        (run.path / "metrics.jsonl", ""),
        (run.predictions / "report.html", "predictions"),
        *((path, "text") for path in storage.children(run.path / "text")),
    ):
        if storage.is_file(path):
            yield storage.local_copy(path), folder
    for checkpoint in [one for one in ("weights", "best") if one in result]:
        which = "last" if checkpoint == "weights" else "best"
        folder = f"model/{which}"
        yield run.local_weights(which), folder
        yield storage.local_copy(run.weights_of(which).parent / "model.json"), folder
