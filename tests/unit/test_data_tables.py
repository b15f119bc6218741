"""The same table reads the same from CSV, Parquet and NPZ."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from common.data import Encoding, prepare, read_examples, read_table
from common.data.target import Target
from common.errors import DataError
from common.settings import Settings

FRAME = pd.DataFrame(
    {
        "height": [1.5, 2.0, -3.25],
        "kind": ["cat", "dog", "cat"],
        "count": [1, 2, 3],
        "wild": [True, False, True],
    }
)


def written(folder: Path, ending: str, frame: pd.DataFrame = FRAME) -> str:
    path = folder / f"table{ending}"
    if ending == ".csv":
        frame.to_csv(path, index=False)
    elif ending == ".parquet":
        frame.to_parquet(path)
    else:
        arrays = {name: frame[name].to_numpy() for name in frame}
        # Texts as texts: an array of Python objects would have to be pickled.
        np.savez(path, **{n: a.astype(str) if a.dtype == object else a for n, a in arrays.items()})
    return str(path)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_features_labels_and_names_are_read(ending: str, tmp_path: Path) -> None:
    table = read_table(written(tmp_path, ending), "kind")
    assert table.names == ("height", "count", "wild")
    np.testing.assert_array_equal(table.features, [[1.5, 1, 1], [2, 2, 0], [-3.25, 3, 1]])
    assert table.labels.tolist() == ["cat", "dog", "cat"]


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_read_table_returns_columns_in_the_given_order(ending: str, tmp_path: Path) -> None:
    path = written(tmp_path, ending)
    table = read_table(path, "kind", columns=("wild", "height", "count"))
    np.testing.assert_array_equal(table.features[0], [1, 1.5, 1])


def test_an_array_of_several_columns_is_numbered(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "t.npz", x=np.arange(6.0).reshape(3, 2), y=[0, 1, 0], z=np.float16([1, 2, 3])
    )
    table = read_table(str(tmp_path / "t.npz"), "y")
    assert table.names == ("x_0", "x_1", "z")
    np.testing.assert_array_equal(table.features, [[0, 1, 1], [2, 3, 2], [4, 5, 3]])


def test_an_index_that_pandas_kept_in_parquet_is_no_feature(tmp_path: Path) -> None:
    frame = FRAME.set_index(np.array([7, 8, 9]))
    frame.to_parquet(tmp_path / "t.parquet", index=True)
    assert read_table(str(tmp_path / "t.parquet"), "kind").names == ("height", "count", "wild")


def test_a_byte_order_mark_quotes_and_line_breaks_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeff"a","the\nlabel"\r\n1e-3,"x, y"\r\n-.5,z\r\n'.encode())
    table = read_table(str(path), "the\nlabel")
    assert table.labels.tolist() == ["x, y", "z"]
    assert table.features.tolist() == [[0.001], [-0.5]]


@pytest.mark.parametrize(
    "labels", [[3, 6, 3], [3.0, 6.0, 3.0], ["3", " 6", "3"], [b"3", b"6", b"3"]]
)
def test_a_label_is_the_same_as_number_and_as_text(labels: list, tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", x=np.ones(3), label=np.array(labels))
    assert read_table(str(tmp_path / "t.npz"), "label").labels.tolist() == ["3", "6", "3"]


def encoding() -> Encoding:
    """Of the columns of FRAME: center 0, matrix 1, so an angle is feature / 3 * pi / 2."""
    columns = ("height", "count", "wild")
    matrix = tuple(tuple(row) for row in np.eye(3).tolist())
    return Encoding(
        "angle", "angle", columns, Target("signs", "kind", ("cat", "dog")), (0.0, 0.0, 0.0), matrix
    )


def test_new_examples_are_read_with_and_without_labels(tmp_path: Path) -> None:
    angles, labels = read_examples(written(tmp_path, ".csv"), encoding())
    assert labels.tolist() == [-1, 1, -1]
    np.testing.assert_allclose(angles[0], np.pi / 2 * np.array([0.5, 1 / 3, 1 / 3]), rtol=1e-6)
    bare, none = read_examples(written(tmp_path, ".csv", FRAME.drop(columns="kind")), encoding())
    assert none is None
    np.testing.assert_array_equal(bare, angles)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (FRAME.drop(columns="wild"), "lacks 'wild' of the 3 columns"),
        (FRAME.assign(id=1), "has 'id', which the model was not trained on"),
        (FRAME.assign(kind=["cat", "cow", "dog"]), "row 2 has the label 'cow' in column 'kind'"),
        (FRAME.assign(height=[1, np.nan, 2]), "row 2 of column 'height'"),
        (FRAME[:0], "no rows"),
    ],
)
def test_new_examples_that_do_not_fit_the_model_are_refused(
    frame: pd.DataFrame, words: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=words):
        read_examples(written(tmp_path, ".csv", frame), encoding())


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_read_examples_encodes_rows_as_in_training(ending: str, tmp_path: Path) -> None:
    generator = np.random.default_rng(5)
    frame = pd.DataFrame({"a": generator.normal(size=60), "b": generator.normal(size=60)})
    frame["label"] = np.where(frame["a"] > 0, "up", "down")
    path = written(tmp_path, ending, frame)
    data = prepare(Settings.from_values(data=path, partitions=4, workers=1), tmp_path / "datasets")
    assert [data.rows(split) for split in data.splits] == [39, 9, 12]
    assert data.target.classes == ("down", "up")
    angles, labels = read_examples(path, data.encoding)
    everything = {tuple(row) for row in np.column_stack([angles, labels]).tolist()}
    for split in data.splits:
        examples = data.split(split)
        rows = {tuple(row) for row in np.column_stack(examples).tolist()}
        assert len(rows) == data.rows(split)
        assert rows <= everything
        everything -= rows
    assert everything == set()
