"""Every example keeps the row of the user's table that it comes from."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from common import storage
from common.data import Dataset, dataset_dir, load, prepare, read_examples, read_table
from common.data.origin import Origin
from common.errors import DataError, SettingsError
from common.settings import Settings


def frame(rows: int = 90) -> pd.DataFrame:
    """Return a table in which each row has its own feature; names are its identifiers."""
    names = [["007", "1.10", "1.1", "née", ""][i % 5] + f"-{i}" * (i > 4) for i in range(rows)]
    return pd.DataFrame(
        {
            "name": names,
            "x": np.random.default_rng(0).permutation(rows) / rows,
            "label": ["up", "down", "none"] * (rows // 3),
        }
    )


def prepared(folder: Path, path: str, **values: object) -> Dataset:
    settings = Settings.from_values(
        data=path, partitions=4, workers=1, classes="up,down", id_column="name", **values
    )
    return prepare(settings, folder / "datasets")


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_origin_of_every_split_names_the_rows_of_the_table(ending: str, tmp_path: Path) -> None:
    table, path = frame(), tmp_path / f"t{ending}"
    if ending == ".csv":
        text = table.to_csv(index=False)
        path.write_text(text.replace("\n", "\n\n", 3))  # blank lines do not count
    elif ending == ".parquet":
        table.to_parquet(path)
    else:
        np.savez(path, **{name: np.array(table[name].tolist()) for name in table})
    data = load(prepared(tmp_path, str(path)).path)
    assert data.encoding.columns == ("x",)
    seen = []
    for split in data.splits:
        origin, examples = data.origin(split), data.split(split)
        rows = table.iloc[origin.rows - 1]
        np.testing.assert_array_equal(data.encoding.apply(rows[["x"]].to_numpy()), examples.angles)
        assert (rows["label"] == np.where(examples.labels < 0, *data.target.classes)).all()
        assert origin.ids.tolist() == rows["name"].tolist()
        seen += origin.rows.tolist()
    assert sorted(seen) == sorted(np.flatnonzero(table["label"] != "none") + 1)


def test_shards_of_a_large_split_have_the_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = frame()
    table.to_csv(tmp_path / "t.csv", index=False)
    whole = prepared(tmp_path / "whole", str(tmp_path / "t.csv"))
    monkeypatch.setattr(dataset_dir, "SHARD_ROWS", 20)
    cut = prepared(tmp_path / "cut", str(tmp_path / "t.csv"))
    assert len(cut.shards("train")) > 1
    shard = pd.read_parquet(cut.path / cut.shards("train")[1].file)
    assert (table.iloc[shard["row"] - 1]["name"].to_numpy() == shard["id"]).all()
    for split in cut.splits:
        for one, other in zip(cut.origin(split), whole.origin(split), strict=True):
            assert one.tolist() == other.tolist()


def test_generated_examples_have_no_origin(tmp_path: Path) -> None:
    data = prepare(Settings.from_values(train_examples=9, workers=1), tmp_path)
    assert data.manifest.origin == []
    assert data.origin("train") is None


def test_new_examples_need_no_identifier(tmp_path: Path) -> None:
    table = frame()
    table.to_csv(tmp_path / "t.csv", index=False)
    encoding = prepared(tmp_path, str(tmp_path / "t.csv")).encoding
    table[["name", "x"]].to_csv(tmp_path / "new.csv", index=False)
    assert read_examples(str(tmp_path / "new.csv"), encoding).origin.ids.tolist() == [
        *table["name"]
    ]
    table[["x"]].to_csv(tmp_path / "bare.csv", index=False)
    origin = read_examples(str(tmp_path / "bare.csv"), encoding).origin
    assert origin.ids is None
    assert origin.rows.tolist() == list(range(1, 91))


def test_id_column_that_the_table_lacks_is_refused(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match="ID_COLUMN"):
        read_table(str(tmp_path / "t.csv"), "label", id_column="patient")


@pytest.mark.parametrize("data", ["excitations", "digits"])
def test_id_column_of_a_built_in_data_set_is_refused(data: str, tmp_path: Path) -> None:
    settings = Settings.from_values(data=data, id_column="name", workers=1)
    with pytest.raises(SettingsError, match="ID_COLUMN=name"):
        prepare(settings, tmp_path)


def test_shard_with_a_damaged_identifier_is_refused(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "t.csv", index=False)
    data = prepared(tmp_path, str(tmp_path / "t.csv"))
    (shard,) = data.shards("test")
    content = bytearray(storage.read_bytes(data.path / shard.file))
    content[content.index(b"n\xc3\xa9e") + 1] = 0xFF
    with pytest.raises(ValueError, match="utf-8"):
        dataset_dir.decode_origin(bytes(content), data.manifest.origin)
    long = Origin(np.array([1]), np.array(["x" * 2000], dtype=object))
    examples = type(data.split("test"))(np.zeros((1, 1), "f4"), np.ones(1, "f4"))
    with pytest.raises(ValueError, match="characters"):
        dataset_dir.decode_origin(dataset_dir.encode(examples, ["a"], long), ["row", "id"])
