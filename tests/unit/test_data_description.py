"""Descriptions of tables, and baselines on their columns, which show what PCA loses."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from common.data import Dataset, prepare
from common.data.description import describe
from common.settings import Settings
from inference import own_columns


def table(folder: Path, **values: Any) -> tuple[str, Dataset]:
    """Return a table whose label follows from one of ten columns, and its data set."""
    features = np.random.default_rng(0).normal(size=(120, 10))
    frame = pd.DataFrame(features, columns=[f"c{i}" for i in range(10)])
    frame["label"] = np.where(frame["c9"] > 0, "up", "down")
    frame["number"] = frame["c9"].round(3)
    path = str(folder / "t.csv")
    frame.drop(columns="number" if "task" not in values else "label").to_csv(path, index=False)
    settings = Settings.from_values(data=path, workers=1, **values)
    return path, prepare(settings, folder / "datasets")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"qubits": 2}, "10 columns, PCA to 2 angles from -pi/2 to pi/2, "),
        ({"qubits": 10}, "10 columns, standardized to 10 angles from -pi/2 to pi/2; 2 classes"),
        ({"qubits": 10, "encoder": "reupload"}, "angles from -pi/2 to pi/2, before each layer;"),
        ({"qubits": 10, "task": "regression", "label_column": "number"}, "; 'number' from -"),
    ],
)
def test_describe_has_columns_encoding_and_labels(
    values: dict[str, Any], words: str, tmp_path: Path
) -> None:
    text = describe(table(tmp_path, **values)[1])
    assert words in text
    if "task" not in values:
        counts = dict(pair.split() for pair in text.split(": ")[1].split(", "))
        frame = pd.read_csv(tmp_path / "t.csv")
        assert {name: int(n) for name, n in counts.items()} == dict(frame["label"].value_counts())


def test_variance_is_that_of_the_components(tmp_path: Path) -> None:
    _, data = table(tmp_path, qubits=2)
    origin = data.origin("train")
    assert origin is not None
    frame = pd.read_csv(tmp_path / "t.csv").drop(columns="label").iloc[origin.rows - 1]
    values = np.linalg.eigvalsh(np.corrcoef(frame.to_numpy().T))
    assert data.encoding.variance == pytest.approx(values[-2:].sum() / values.sum())


def compare(path: str, data: Dataset, named: str = "") -> own_columns.ColumnBaselines | None:
    source, inputs = SimpleNamespace(settings={"data": path}), SimpleNamespace()
    inputs.is_test_split, inputs.named_data = True, named
    return own_columns.compare(source, inputs, data, 30, seed=0)  # type: ignore[arg-type]


def test_own_columns_are_compared_if_the_table_is_named(tmp_path: Path) -> None:
    path, data = table(tmp_path, qubits=2)
    found = compare(path, data, named=path)
    assert found is not None
    assert found.found[0].metrics["accuracy"] > 0.8
    unread = compare(path, data)
    assert unread is not None
    assert not unread.found
    assert f"DATA={path}" in unread.hint
    Path(path).write_text("c0,label\n1,up\n")
    changed = compare(path, data, named=path)
    assert changed is not None
    assert not changed.found
    assert path in changed.hint


def test_own_columns_are_not_compared_if_nothing_is_lost(tmp_path: Path) -> None:
    path, data = table(tmp_path, qubits=10)
    assert compare(path, data, named=path) is None
