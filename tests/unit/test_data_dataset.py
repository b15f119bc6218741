"""Data sets are generated once, completely, and verified on use."""

import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from common import storage
from common.data import dataset_dir, load, prepare
from common.data.dataset import Dataset
from common.data.sampling import WorkerSampler
from common.errors import DataError, SettingsError
from common.settings import Settings
from common.storage import StoragePath

SMALL = {"train_examples": 50, "validation_examples": 20, "test_examples": 30, "partitions": 8}


def small(root: Path, **changed: object) -> Dataset:
    return prepare(Settings.from_values(**{**SMALL, **changed}), root)


def test_columns_of_a_shard_with_empty_fields_are_nan() -> None:
    sink = io.BytesIO()
    table = pa.table({"x": pa.array([1.5, None], pa.float32()), "label": pa.array([2.0, 3.0])})
    pa.parquet.write_table(table, sink)
    angles, labels = dataset_dir.columns_of(sink.getvalue())
    assert angles.dtype == labels.dtype == np.float32
    np.testing.assert_array_equal(angles, [1.5, np.nan])
    np.testing.assert_array_equal(labels, [2.0, 3.0])


def test_excitations_distribution_and_labels(tmp_path: Path) -> None:
    data = prepare(
        Settings.from_values(qubits=5, train_examples=4000, test_examples=16_000), tmp_path
    )
    assert (data.features, data.placement) == (5, "cluster")
    assert [data.rows(split) for split in data.splits] == [4000, 200, 16_000]
    angles, labels = data.split("test")
    assert angles.dtype == labels.dtype == np.float32
    assert ((angles != 0).sum(axis=1) == 1).all()
    turned = angles[angles != 0]
    np.testing.assert_array_equal(labels, np.where(np.abs(turned) <= np.pi / 2, 1, -1))
    # Uniform, to 5 standard deviations of 16,000 draws.
    assert np.abs(turned).max() <= np.pi
    assert turned.mean() == pytest.approx(0, abs=5 * np.pi / np.sqrt(3 * 16_000))
    assert turned.std() == pytest.approx(np.pi / np.sqrt(3), rel=0.03)
    assert np.abs((angles != 0).mean(axis=0) - 0.2).max() < 5 * np.sqrt(0.16 / 16_000)


def test_excitations_default_sizes(tmp_path: Path) -> None:
    data = prepare(Settings.from_values(), tmp_path)
    assert [data.rows(split) for split in data.splits] == [400, 200, 4000]


def test_splits_are_disjoint_and_depend_on_the_seed(tmp_path: Path) -> None:
    data = small(tmp_path)
    rows = Counter(tuple(row) for split in data.splits for row in data.split(split).angles.tolist())
    assert max(rows.values()) == 1
    other = small(tmp_path, seed=1)
    assert other.fingerprint != data.fingerprint
    assert not np.array_equal(other.split("train").angles, data.split("train").angles)


def test_split_size_does_not_change_other_splits(tmp_path: Path) -> None:
    data, other = small(tmp_path), small(tmp_path, test_examples=500)
    np.testing.assert_array_equal(data.split("train").angles, other.split("train").angles)


def test_digits_are_stratified_and_fitted_on_training_rows(tmp_path: Path) -> None:
    data = prepare(Settings.from_values(data="digits"), tmp_path)
    assert data.features == 8
    total = sum(data.rows(split) for split in data.splits)
    assert data.rows("test") == round(0.2 * total)
    assert data.rows("validation") == round(0.15 * total)
    for split in data.splits:
        assert abs(data.split(split).labels.sum()) <= 2 + 0.05 * data.rows(split)
    np.testing.assert_allclose(data.split("train").angles.mean(axis=0), 0, atol=0.02)
    assert np.abs(data.split("test").angles.mean(axis=0)).max() > 0.02


def test_prepare_existing_data_set_is_not_rewritten(tmp_path: Path) -> None:
    data = small(tmp_path)
    before = {file: file.stat().st_mtime_ns for file in data.path.iterdir()}
    again = small(tmp_path)
    assert again.path == data.path
    assert again.fingerprint == data.fingerprint
    assert {file: file.stat().st_mtime_ns for file in data.path.iterdir()} == before


def test_prepare_works_on_any_storage(root: StoragePath) -> None:
    data = small(root / "datasets")
    assert load(data.path).split("train").labels.shape == (50,)
    assert small(root / "datasets").fingerprint == data.fingerprint


def test_prepare_reads_tables_from_any_storage(root: StoragePath) -> None:
    rows = "".join(f"{i},{i % 2}\n" for i in range(40))
    storage.write_atomic(root / "my.csv", f"a,label\n{rows}")
    data = prepare(Settings.from_values(data=str(root / "my.csv")), root / "datasets")
    assert data.name.startswith("my-")
    with pytest.raises(DataError, match=r"other\.csv does not exist"):
        prepare(Settings.from_values(data=str(root / "other.csv")), root / "datasets")


def test_prepare_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    first, second = small(tmp_path / "a"), small(tmp_path / "b")
    assert first.fingerprint == second.fingerprint
    for file in first.path.iterdir():
        assert file.read_bytes() == (second.path / file.name).read_bytes()


@pytest.mark.parametrize(
    "changed",
    [{"seed": 1}, {"partitions": 9}, {"qubits": 7}, {"test_examples": 31}, {"train_examples": 51}],
)
def test_prepare_other_recipe_uses_another_folder(changed: dict, tmp_path: Path) -> None:
    assert small(tmp_path).path != small(tmp_path, **changed).path


@pytest.mark.parametrize("changed", [{"epochs": 7}, {"workers": 3}, {"model": "qcnn"}])
def test_prepare_other_settings_use_the_same_folder(changed: dict, tmp_path: Path) -> None:
    assert small(tmp_path).path == small(tmp_path, **changed).path


def test_prepare_table_is_identified_by_its_content(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(40.0), "label": np.arange(40) % 2})
    paths = [tmp_path / "one" / "my table.csv", tmp_path / "two" / "my table.csv"]
    for path in paths:
        path.parent.mkdir()
        frame.to_csv(path, index=False)
    made = [prepare(Settings.from_values(data=str(path)), tmp_path / "datasets") for path in paths]
    assert made[0].path == made[1].path
    assert made[0].name.startswith("my-table-")
    frame.iloc[3, 0] += 1
    frame.to_csv(paths[1], index=False)
    changed = prepare(Settings.from_values(data=str(paths[1])), tmp_path / "datasets")
    assert changed.path != made[0].path


def test_prepare_incomplete_data_set_is_completed(tmp_path: Path) -> None:
    data = small(tmp_path)
    (data.path / "manifest.json").unlink()
    shard = next(data.path.glob("train-*"))
    shard.write_bytes(b"half")
    assert small(tmp_path).fingerprint == data.fingerprint


def test_many_shards_have_the_rows_of_a_single_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = small(tmp_path / "one")
    monkeypatch.setattr(dataset_dir, "SHARD_ROWS", 4)
    cut = small(tmp_path / "many")
    for split in whole.splits:
        shards = cut.manifest.splits[split]["shards"]
        assert len(shards) == cut.layout(split).groups * cut.layout(split).segments >= 4
        for ours, theirs in zip(cut.split(split), whole.split(split), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_row_i_belongs_to_partition_i_mod_partitions(tmp_path: Path) -> None:
    one_lane, eight = small(tmp_path, partitions=1, workers=1), small(tmp_path, partitions=8)
    made, dealt = one_lane.split("train").angles, eight.split("train").angles
    np.testing.assert_array_equal(dealt, np.concatenate([made[lane::8] for lane in range(8)]))
    assert eight.partition_sizes("train") == [7, 7, 6, 6, 6, 6, 6, 6]


def test_samplers_of_all_workers_cover_the_data_set(tmp_path: Path) -> None:
    data = small(tmp_path)
    seen: Counter[int] = Counter()
    for rank in range(3):
        sampler = WorkerSampler(
            data.partition_sizes("train"), rank=rank, world_size=3, batch=16, seed=0
        )
        share = sampler.positions(0, 0, sampler.steps)
        seen.update(share.rows[share.weights == 1].tolist())
    assert seen == Counter(range(50))


def shard(data: Dataset) -> Path:
    return next(data.path.glob("test-*.parquet"))


def alter(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: shard(data).unlink(), "test-.* is missing"),
        (lambda data: shard(data).write_bytes(b""), "test-.* has 0 bytes instead of"),
        (lambda data: shard(data).write_bytes(shard(data).read_bytes()[:-9]), "bytes instead of"),
        (lambda data: alter(shard(data)), "test-.* was altered"),
    ],
)
def test_damaged_shard_is_refused(damage: object, words: str, tmp_path: Path) -> None:
    data = small(tmp_path)
    damage(data)
    with pytest.raises(DataError, match=words):
        small(tmp_path)
    with pytest.raises(DataError, match=words):
        load(data.path).split("test")
    assert load(data.path).split("train").labels.shape == (50,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda said: said.replace('"seed": 0', '"seed": 1'), "was altered"),
        (
            lambda said: said.replace('"format": 5', '"format": 4'),
            "has format 4 and .* reads format 5",
        ),
        (lambda said: said[: len(said) // 2], "not JSON"),
        (lambda said: "[]", "has format None"),
        (lambda said: "\xff", "not JSON"),
        (lambda said: "", "not JSON"),
    ],
)
def test_damaged_manifest_is_refused(change: object, words: str, tmp_path: Path) -> None:
    data = small(tmp_path)
    manifest = data.path / "manifest.json"
    manifest.write_text(change(manifest.read_text()), encoding="latin-1")
    with pytest.raises(DataError, match=f"manifest.json .*{words}"):
        small(tmp_path)


def test_folder_with_too_few_partitions_is_refused(tmp_path: Path) -> None:
    made = prepare(
        Settings.from_values(
            train_examples=50, validation_examples=20, test_examples=30, partitions=3, workers=3
        ),
        tmp_path,
    )
    there = Settings.from_values(data=str(made.path), workers=6, state_shards=2)
    assert prepare(there, tmp_path).path == made.path
    with pytest.raises(SettingsError, match=r"WORKERS=4 is more than 3 workers, .*PARTITIONS=3"):
        prepare(Settings.from_values(data=str(made.path), workers=4), tmp_path)


def test_load_folder_without_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"manifest\.json does not exist"):
        load(tmp_path)


def test_manifest_describes_the_shards_in_plain_json(tmp_path: Path) -> None:
    data = small(tmp_path)
    said = json.loads((data.path / "manifest.json").read_text())
    assert said["columns"] == [f"x_{i:02d}" for i in range(8)]
    assert said["encoding"]["placement"] == "cluster"
    assert said["splits"]["train"]["rows"] == 50
    assert sum(said["splits"]["train"]["labels"].values()) == 50
    read = pd.read_parquet(data.path / said["splits"]["train"]["shards"][0]["file"])
    assert list(read.columns) == [*said["columns"], "label"]
    assert (read.dtypes == np.float32).all()
