"""Export of runs to MLflow: real stores, read back by MLflow's client."""

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.runs import main
from common import runs, storage
from common.errors import RunError, SettingsError, StorageError
from common.runs import Run, mlflow_store
from common.runs.mlflow_store import MlflowStore
from common.storage import StoragePath
from tests.support.finished_run import finish


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run with results, seven epochs and a report."""
    run = finish(tmp_path_factory.mktemp("runs"), "one")
    result = run.result() | {"metrics": {"test": {"mse": 0.25, "accuracy": None}}}
    storage.write_json(run.path / "result.json", result)
    storage.write_atomic(run.predictions / "report.html", "<p>report</p>")
    storage.write_atomic(run.text_log(0, 1), "epoch 1/7\n")
    return run


@pytest.fixture
def copied(trained: Run, root: StoragePath) -> Run:
    """The same run in another STORAGE."""
    for path in storage.files(trained.path):
        assert isinstance(path, Path)
        storage.write_atomic(root / "one" / path.relative_to(trained.path).as_posix(), path)
    return Run.at(root, "one")


@pytest.fixture
def own(trained: Run, tmp_path: Path) -> Run:
    """The same run in a folder of one test."""
    for path in trained.path.rglob("*"):
        if path.is_file():  # type: ignore[union-attr]
            place = tmp_path / "runs" / "one" / path.relative_to(trained.path)
            storage.write_atomic(place, path)
    return Run.at(tmp_path / "runs", "one")


def exported(folder: Path) -> list[Any]:
    """Return the runs of a store with their metrics of all epochs."""
    from mlflow import MlflowClient

    client = MlflowClient(folder.as_uri())
    experiment = client.get_experiment_by_name(mlflow_store.EXPERIMENT)
    found = client.search_runs([experiment.experiment_id])
    for one in found:
        history = {name: client.get_metric_history(one.info.run_id, name) for name in
                   one.data.metrics}  # fmt: skip
        one.history = {name: [(point.step, point.value) for point in points]
                       for name, points in history.items()}  # fmt: skip
        one.times = [point.timestamp for point in history.get("mse", [])]
    return list(found)


def artifacts(one: Any) -> dict[str, bytes]:
    """Return the content of a run's artifacts by path."""
    place = Path(one.info.artifact_uri.removeprefix("file://"))
    files = [path for path in place.rglob("*") if path.is_file()]
    return {path.relative_to(place).as_posix(): path.read_bytes() for path in files}


def test_export_has_settings_curves_lineage_and_files(copied: Run, tmp_path: Path) -> None:
    runs.promote(copied, "production")
    assert not MlflowStore(tmp_path / "mlruns").write(copied)
    (one,) = exported(tmp_path / "mlruns")
    record, result = copied.record(), copied.result()
    assert (one.info.run_name, one.info.status) == ("one", "FINISHED")
    assert {"qubits": "4", "epochs": "3", "seed": "0"}.items() <= one.data.params.items()
    assert "classes" not in one.data.params  # it is empty
    assert one.history["mse"] == [(epoch, 1 / epoch) for epoch in range(1, 8)]
    assert one.history["val_mse"][6] == (7, pytest.approx(1.1 / 7))
    assert one.history["test/mse"] == [(7, 0.25)]
    assert "test/accuracy" not in one.history
    assert one.times == sorted(one.times)
    tags, weights = one.data.tags, result["weights"]["sha256"]
    assert tags["qfleet.run"].endswith("/one")
    assert tags["qfleet.aliases"] == "production"
    assert (tags["qfleet.data"], tags["qfleet.weights"]) == (record["data"], weights)
    assert tags["qfleet.version.python"] == "3.11"
    (data,) = one.inputs.dataset_inputs
    assert data.dataset.name == record["other"]["dataset"]
    files = artifacts(one)
    assert hashlib.sha256(files.pop("model/last/weights.h5")).hexdigest() == weights
    assert json.loads(files.pop("model/last/model.json")) == copied.model()
    assert json.loads(files.pop("run.json")) == record
    assert files.pop("predictions/report.html") == b"<p>report</p>"
    assert files.keys() == {"result.json", "metrics.jsonl", "text/worker-0.attempt-1.log"}


def test_export_of_a_later_state_updates_the_same_run(own: Run, tmp_path: Path) -> None:
    folder, rows = tmp_path / "mlruns", own.path / "metrics.jsonl"
    complete, result = storage.read_bytes(rows), storage.read_bytes(own.path / "result.json")
    storage.delete(own.path / "result.json")
    storage.write_atomic(rows, b"".join(complete.splitlines(keepends=True)[:2]))
    assert not MlflowStore(folder).write(own)
    (one,) = exported(folder)
    assert (one.info.status, len(one.history["mse"])) == ("RUNNING", 2)

    storage.write_atomic(rows, complete)
    storage.write_atomic(own.path / "result.json", result)
    for alias in ("production", ""):
        if alias:
            runs.promote(own, alias)
        else:
            storage.delete(own.path.parent / "production")
        assert MlflowStore(folder).write(own)
        (one,) = exported(folder)
        assert [step for step, _ in one.history["mse"]] == [*range(1, 8)]
        assert one.history["test/mse"] == [(7, 0.25)]
        assert one.data.tags.get("qfleet.aliases", "") == alias
    assert one.info.status == "FINISHED"


def test_runs_that_were_trained_anew_are_separate(own: Run, tmp_path: Path) -> None:
    record = own.record()
    for year in ("2025", "2026"):
        storage.write_json(own.path / "run.json", record | {"created": f"{year}-01-02T00:00:00Z"})
        MlflowStore(tmp_path / "mlruns").write(own)
    assert len(exported(tmp_path / "mlruns")) == 2


def test_names_of_another_user_lead_to_no_other_file(own: Run, tmp_path: Path) -> None:
    row = {"epoch": 1, "../../x": 1.0, "a/b": 2.0, "mse": 0.5, "nan": None}
    storage.write_atomic(own.path / "metrics.jsonl", json.dumps(row) + "\n")
    record = own.record()
    record["settings"]["../../y"] = "1"
    storage.write_json(own.path / "run.json", record)
    MlflowStore(tmp_path / "mlruns").write(own)
    (one,) = exported(tmp_path / "mlruns")
    assert one.history.keys() == {"mse", "test/mse"}
    assert not [path for path in tmp_path.rglob("*") if path.name in ("x", "y", "b")]


def without_epochs(run: Run) -> None:
    for name in ("result.json", "metrics.jsonl"):
        storage.delete(run.path / name)


def with_link(run: Run) -> None:
    Path(str(run.path), "text", "worker-1.attempt-1.log").symlink_to("/etc/hostname")


def with_other_weights(run: Run) -> None:
    storage.write_atomic(run.weights, b"other")


def with_wrong_time(run: Run) -> None:
    storage.write_json(run.path / "run.json", run.record() | {"created": "yesterday"})


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (without_epochs, "no finished epoch"),
        (with_link, "symbolic link"),
        (with_other_weights, "altered"),
        (with_wrong_time, "created is not a time"),
    ],
)
def test_run_that_has_nothing_to_export_is_refused(
    own: Run, tmp_path: Path, damage: Any, words: str
) -> None:
    damage(own)
    with pytest.raises(Exception, match=words) as error:
        MlflowStore(tmp_path / "mlruns").write(own)
    assert getattr(error.value, "exit_code", 0) == 2
    assert "\n" not in str(error.value)


def test_store_in_a_bucket_or_with_other_files_is_refused(gs: str, trained: Run) -> None:
    before = sorted(trained.path.parent.iterdir())  # type: ignore[union-attr]
    for folder in (storage.path(gs), trained.path.parent):
        with pytest.raises(SettingsError, match="STORE="):
            MlflowStore(folder)
    assert sorted(trained.path.parent.iterdir()) == before  # type: ignore[union-attr]


def test_store_that_is_not_writable_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "mlruns"):
        with pytest.raises(StorageError, match=r"STORE=.*\(not a directory\)"):
            MlflowStore(folder)


def test_deleted_experiment_is_named(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    MlflowStore(tmp_path)
    client = MlflowClient(tmp_path.as_uri())
    found = client.get_experiment_by_name(mlflow_store.EXPERIMENT)
    client.delete_experiment(found.experiment_id)
    with pytest.raises(RunError, match="was deleted: restore it"):
        MlflowStore(tmp_path)


def test_environment_without_mlflow_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(SettingsError, match=r"TO=mlflow needs MLflow.*setup\.sh '' \.venv"):
        MlflowStore(tmp_path)


def test_command_exports_each_run_once(
    own: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*args: str) -> Iterator[str]:
        monkeypatch.setattr("sys.argv", ["runs", f"STORAGE={own.path.parent}", *args])
        main()
        return iter(capsys.readouterr().out.splitlines())

    folder = f"STORE={tmp_path / 'mlruns'}"
    assert next(call("EXPORT=one,one", folder)) == "Exported one"
    output = call("EXPORT=one", "TO=mlflow", folder)
    assert next(output) == "Updated one"
    assert str(tmp_path / "mlruns") in next(output)
    assert len(exported(tmp_path / "mlruns")) == 1
    with pytest.raises(RunError, match="there is no run two"):
        call("EXPORT=two", folder)
