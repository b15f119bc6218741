"""Records of a run that point to other files, large writes, and scripts in a page."""

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from common.data import dataset_dir
from common.errors import DataError, StorageError, run_main
from common.runs import records
from common.settings import Settings
from inference import inference_input, model_source
from inference.__main__ import main
from tests.support.finished_run import finish, model_folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "runs"
    finish(root, "received", "MODEL=qcnn", "QUBITS=3")
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "runs"))


def record(root: Path, *, other: dict | None = None, **settings: object) -> None:
    """Change what the run records, consistently, as its author can."""
    run = root / "received"
    for path in (run / "run.json", model_folder(run) / "model.json"):
        content = json.loads(path.read_text())
        content["settings"].update(settings)
        if other and path.name == "run.json":
            content["other"].update(other)
        path.write_text(json.dumps(content))


def resolve(root: Path, *args: str) -> inference_input.InferenceInput:
    settings = Settings.from_args([f"STORAGE={root}", *args])
    return inference_input.resolve_input(settings, model_source.choose_model(settings))


def content(folder: Path) -> list[tuple[str, int]]:
    return [(str(p), p.stat().st_size) for p in sorted(folder.rglob("*"))]


def test_large_data_set_is_not_generated(root: Path) -> None:
    shutil.rmtree(root / "datasets")
    record(root, train_examples=900_000_000, partitions=64)
    before = content(root)
    with pytest.raises(DataError, match=r"900,000,070 examples: create it with `make dataset"):
        resolve(root)
    assert content(root) == before


def test_small_data_set_is_generated_again(root: Path) -> None:
    before = content(root / "datasets")
    shutil.rmtree(root / "datasets")
    assert resolve(root).total == 60
    assert content(root / "datasets") == before


@pytest.mark.parametrize("data", ["{folder}/private.csv", "{folder}/sets/theirs", "gs://b/x.npz"])
def test_recorded_path_is_read_only_if_named(data: str, root: Path, tmp_path: Path) -> None:
    (tmp_path / "private.csv").write_text("a,b,label\n" + "1,2,0\n3,4,1\n" * 30)
    shutil.copytree(next((root / "datasets").iterdir()), tmp_path / "sets" / "theirs")
    path = data.format(folder=tmp_path)
    record(root, data=path, other={"dataset": "missing"})
    before = content(tmp_path)
    with pytest.raises(DataError, match=re.escape(f"set DATA={path} if you trust its path")):
        resolve(root)
    (tmp_path / "new.csv").write_text("x_00,x_01,x_02\n1,2,3\n")
    inputs = resolve(root, f"INPUT={tmp_path / 'new.csv'}")
    assert inputs.data is None
    assert "is read only if you name it" in inputs.missing
    (tmp_path / "new.csv").unlink()
    assert content(tmp_path) == before


def test_named_path_is_read(root: Path, tmp_path: Path) -> None:
    path = shutil.copytree(next((root / "datasets").iterdir()), tmp_path / "sets" / "theirs")
    record(root, data=str(path), other={"dataset": "missing"})
    assert resolve(root, f"DATA={path}").data is not None
    shutil.rmtree(path)
    with pytest.raises(DataError, match="can't be created again"):
        resolve(root, f"DATA={path}")


@pytest.mark.parametrize("name", ["/etc", "..", "../datasets/x", "a/b", "", ".", "a\x00", "\x1b["])
def test_recorded_name_of_a_data_set_leads_nowhere_else(name: str, root: Path) -> None:
    record(root, other={"dataset": name})
    before = content(root)
    with pytest.raises(DataError, match="not the name of a folder"):
        resolve(root)
    assert content(root) == before


def _manifest(change: Callable[[dict], object]) -> Callable[[Path], None]:
    def alter(folder: Path) -> None:
        path = folder / "manifest.json"
        manifest = json.loads(path.read_text())
        del manifest["fingerprint"]
        change(manifest)
        manifest["fingerprint"] = dataset_dir.fingerprint(manifest)
        path.write_text(json.dumps(manifest))

    return alter


def _shard(**fields: object) -> Callable[[Path], None]:
    return _manifest(lambda m: m["splits"]["test"]["shards"][0].update(fields))


MANIFESTS: dict[str, Callable[[Path], None]] = {
    "file of another folder": _shard(file="../../received/run.json"),
    "absolute file": _shard(file="/etc/passwd"),
    "file a list": _shard(file=[]),
    "many rows": _shard(rows=10**9),
    "rows of a split": _manifest(lambda m: m["splits"]["train"].update(rows=10**9)),
    "no splits": _manifest(lambda m: m.update(splits={})),
    "splits a list": _manifest(lambda m: m.update(splits=[])),
    "shards a number": _manifest(lambda m: m["splits"]["test"].update(shards=3)),
    "segments": _manifest(lambda m: m["splits"]["test"].update(segments=10**9)),
    "partitions": _manifest(lambda m: m.update(partitions=10**9)),
    "columns": _manifest(lambda m: m.update(columns=["x"])),
    "encoding": _manifest(lambda m: m.update(encoding={"kind": "none"})),
    "unknown field": _manifest(lambda m: m.update(more=1)),
    "recipe": _manifest(lambda m: m.update(recipe=3)),
}


@pytest.mark.parametrize("case", MANIFESTS)
def test_hostile_manifest_is_refused(case: str, root: Path) -> None:
    (folder,) = (root / "datasets").iterdir()
    MANIFESTS[case](folder)
    fingerprint = json.loads((folder / "manifest.json").read_text())["fingerprint"]
    path = root / "received" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "data": fingerprint}))
    with pytest.raises(DataError):
        resolve(root)


def test_link_in_a_data_set_is_not_followed(root: Path, tmp_path: Path) -> None:
    (folder,) = (root / "datasets").iterdir()
    shard = next(folder.glob("test-*"))
    shard.rename(tmp_path / "moved")
    shard.symlink_to(tmp_path / "moved")
    with pytest.raises(DataError, match="symbolic link"):
        resolve(root)


@pytest.mark.parametrize("linked", ["set", "root"])
def test_linked_data_set_folder_is_not_written(linked: str, root: Path, tmp_path: Path) -> None:
    (folder,) = (root / "datasets").iterdir()
    victim = tmp_path / "victim"
    if linked == "set":
        shutil.rmtree(folder)
        victim.mkdir()
        folder.symlink_to(victim)
    else:
        shutil.rmtree(root / "datasets")
        victim.mkdir()
        (root / "datasets").symlink_to(victim)
    (victim / "writing.json").write_text("kept")
    with pytest.raises(DataError, match="symbolic link"):
        resolve(root)
    assert [path.name for path in victim.iterdir()] == ["writing.json"]


def test_packed_shard_is_refused(root: Path) -> None:
    (folder,) = (root / "datasets").iterdir()
    shard = next(folder.glob("test-*"))
    names = ["x_00", "x_01", "x_02", "label"]
    table = pa.table({name: np.zeros(6_000_000, np.float32) for name in names})
    pa.parquet.write_table(table, shard, compression="zstd", store_schema=False)
    digest = hashlib.sha256(shard.read_bytes()).hexdigest()
    _shard(bytes=shard.stat().st_size, sha256=digest)(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    path = root / "received" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "data": manifest["fingerprint"]}))
    with pytest.raises(DataError, match="is not a shard of 60 rows"):
        resolve(root)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_recorded_text_is_no_markup_in_the_report(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "\"><script>alert(1)</script><img src=x onerror='alert(2)'>\x1b[2J[red]\u202e"
    path = root / "received" / "run.json"
    read = json.loads(path.read_text())
    path.write_text(json.dumps({**read, "versions": {evil: evil, "python": evil}}))
    record(root, label_column=evil, other={"workers": evil})
    (root / "received" / "metrics.jsonl").write_text(
        json.dumps({"epoch": 1, "mse": 1e29, "val_mse": 0.5, evil: evil}) + "\n"
    )
    monkeypatch.setattr(sys, "argv", ["inference", f"STORAGE={root}"])
    assert run_main(main) == 0
    page = (root / "received" / "predictions" / "report.html").read_text()
    tags = _Tags()
    tags.feed(page)
    assert evil.partition("\x1b")[0] not in page
    assert "&lt;script&gt;" in page
    assert not {"script", "img", "iframe", "object", "base", "form"} & {
        tag for tag, _ in tags.found
    }
    for _, attributes in tags.found:
        assert not [name for name in attributes if name.startswith("on")]
    assert not {"\x1b", "\u202e"} & set(page + "".join(capsys.readouterr()))


def test_recorded_settings_are_those_of_settings() -> None:
    with pytest.raises(ValueError, match="qubits"):
        records.settings_of({"qubits": 10**6})
    with pytest.raises(ValueError, match="wrong type"):
        records.settings_of({"qubits": "8"})
    assert records.settings_of({"qubits": 8, "unknown": []}).model.qubits == 8


def test_fifo_as_input_does_not_wait(root: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "new.csv")
    with pytest.raises(StorageError, match="FIFO"):
        resolve(root, f"INPUT={tmp_path / 'new.csv'}")
