"""Runs of another user in a shared STORAGE: listed, skipped, deleted; never obeyed."""

import json
import os
from pathlib import Path

import pytest
from rich.console import Console

from cli import runs as command
from common import lease, models, runs
from common.errors import RunError, SettingsError, StorageError
from common.settings import Settings
from inference import model_loading, model_source
from qfleet.compiler.circuit.sampling import EXACT
from tests.support.finished_run import finish, model_folder
from tests.support.patience import seconds
from tests.support.run_mutations import nested


@pytest.fixture(autouse=True)
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", seconds(0.15))
    monkeypatch.setattr(lease, "RENEW_INTERVAL_SECONDS", seconds(0.05))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A STORAGE with the runs `mine` and `other`, which finished later."""
    for name, when in (("mine", "2026-03-01"), ("other", "2026-03-02")):
        run = finish(tmp_path / "runs", name, "MODEL=qcnn", "QUBITS=3")
        change(run.path, "result.json", finished=f"{when}T00:00:00Z")
    return tmp_path / "runs"


def change(folder: Path, file: str, /, **fields: object) -> None:
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**content, **fields}))


def table(root: Path) -> str:
    with (root / "table.txt").open("w") as file:
        command.print_runs(Console(file=file, width=200), root)
    return (root / "table.txt").read_text()


@pytest.mark.parametrize(
    "when", ["zzzz", "9999-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "", "2026-03-03"]
)
def test_latest_run_is_not_chosen_by_its_text(root: Path, when: str, caplog) -> None:
    change(root / "other", "result.json", finished=when)
    latest = runs.latest_finished(root)
    assert latest is not None
    assert latest.name == "mine"
    assert "run other is skipped" in caplog.text
    assert "finished is" in table(root)


@pytest.mark.parametrize("file", ["run.json", "result.json", "metrics.jsonl", "lease.json"])
def test_deep_json_damages_its_run_only(root: Path, file: str) -> None:
    if file == "lease.json":
        (root / "other" / "result.json").unlink()
    (root / "other" / file).write_bytes(nested(100_000))
    shown = table(root)
    assert " finished " in next(line for line in shown.splitlines() if line.startswith("mine"))
    runs.delete(root, ["other"])
    assert runs.names(root) == ["mine"]


def test_symlinked_run_is_deleted_as_a_link(root: Path, tmp_path: Path) -> None:
    (root / "other").rename(tmp_path / "elsewhere")
    (root / "other").symlink_to(tmp_path / "elsewhere")
    (root / "dangling").symlink_to(tmp_path / "none")
    before = sorted((tmp_path / "elsewhere").rglob("*"))
    assert "damaged" in table(root)
    runs.delete(root, ["other", "dangling"])
    assert not os.path.lexists(root / "other")
    assert not os.path.lexists(root / "dangling")
    assert sorted((tmp_path / "elsewhere").rglob("*")) == before


def test_link_in_a_deleted_run_is_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("kept")
    (root / "other" / "predictions").symlink_to(tmp_path / "kept")
    with pytest.raises(RunError, match="symbolic link"):
        model_source.choose_model(Settings.from_args([f"STORAGE={root}", "RUN=other"]))
    with pytest.raises(RunError, match="symbolic link"):
        runs.load(str(root / "other"))
    runs.delete(root, ["other"])
    assert (tmp_path / "kept" / "file").read_text() == "kept"


def test_terminal_escapes_are_shown_escaped(root: Path) -> None:
    escape = "\x1b]0;title\x07\x1b[2J\u202e"
    change(root / "mine", "run.json", created=escape, format=escape)
    record = json.loads((root / "other" / "run.json").read_text())
    change(root / "other", "run.json", settings={**record["settings"], "label_column": escape})
    runs_shown = table(root)
    assert "\\x1b]0;title" in runs_shown
    change(root / "mine", "run.json", **record)
    result = json.loads((root / "mine" / "result.json").read_text())
    result["metrics"]["test"] = {"mse": 1.0, escape: 1.0, "[/red]": 2.0}
    change(root / "mine", "result.json", metrics=result["metrics"])
    with (root / "compared.txt").open("w") as file:
        command.compare(Console(width=200, file=file), root, ["mine", "other"])
    compared = (root / "compared.txt").read_text()
    assert "\\x1b]0;title" in compared
    assert not {"\x1b", "\x07", "\u202e"} & set(runs_shown + compared)


@pytest.mark.parametrize("make", ["fifo", "device"])
def test_special_file_never_blocks(root: Path, make: str) -> None:
    run = root / "other"
    model = model_folder(run)
    for path in (
        run / "run.json",
        model / "weights.h5",
        model / "model.json",
        run / "metrics.jsonl",
    ):
        path.unlink()
        if make == "fifo":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
    assert "other  damaged" in " ".join(table(root).split()).replace(
        "other damaged", "other  damaged"
    )
    with pytest.raises((RunError, StorageError)):
        runs.load(str(root / "other"))
    assert model_source.choose_model(Settings.from_args([f"STORAGE={root}"])).name == "mine"


def test_user_model_of_a_run_must_be_named(root: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (root / "other" / "notes.py").write_text("open('trace', 'w').close()\ndef f(a, b): ...\n")
    record = json.loads((root / "other" / "run.json").read_text())
    for model in ("runs.other.notes:f", "antigravity:geohash", "runpy:run_path"):
        settings = {**record["settings"], "model": model}
        change(root / "other", "run.json", settings=settings)
        change(model_folder(root / "other"), "model.json", settings=settings)
        for args in (["RUN=other"], [f"WEIGHTS={root / 'other'}"], []):
            with pytest.raises(SettingsError, match=f"set MODEL={model} if you trust"):
                model_source.choose_model(Settings.from_args([f"STORAGE={root}", *args]))
        with pytest.raises(SettingsError, match="set MODEL="):
            _ = runs.load("other", storage=str(root)).model
    assert not (tmp_path / "trace").exists()


def test_sampler_of_a_run_is_not_imported(root: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "payload.py").write_text("open('trace', 'w').close()\ndef f(settings): ...\n")
    record = json.loads((root / "other" / "run.json").read_text())
    settings = {**record["settings"], "sampler": "payload:f", "shots": "7"}
    change(root / "other", "run.json", settings=settings)
    change(model_folder(root / "other"), "model.json", settings=settings)
    (layer,) = models.circuit_layers(runs.load("other", storage=str(root)).model)
    assert layer.sampling == EXACT
    source = model_source.choose_model(Settings.from_args([f"STORAGE={root}", "RUN=other"]))
    assert not source.settings["sampler"]
    assert not (tmp_path / "trace").exists()
    named = Settings.from_args([f"STORAGE={root}", "RUN=other", "SAMPLER=payload:f", "SHOTS=7"])
    with pytest.raises(SettingsError, match="SAMPLER=payload:f returned"):
        model_loading.load(model_source.choose_model(named))
