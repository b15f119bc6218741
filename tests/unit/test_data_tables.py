"""The same table reads the same from CSV, Parquet and NPZ."""

import contextlib
import csv
import datetime
import gzip
import io
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from common.data import Encoding, prepare, read_examples, read_table
from common.data.class_selection import require_all_classes
from common.data.column_notes import suspicious
from common.data.tables import label_text
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


ODD_LABELS = (
    "01", "1", "TRUE", "true", "12:30", "1e5", "1E5", "9007199254740993", "2026-01-02", "NA",
    "null", "+1", "-0", "inf", "0x10", "1_000", "2026-01-02 03:04", "-.5", "#N/A", "a,b", "'q'",
)  # fmt: skip

LABELS = st.sampled_from(ODD_LABELS) | st.from_regex(r"[0-9TF:.,e+-]{1,6}", fullmatch=True)
TEXTS = LABELS | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1
).filter(lambda text: text.strip() and text.strip().lower() != "nan")


def write_labels(path: Path, labels: Sequence[str]) -> None:
    """Write a CSV table of one feature, and labels as they are given."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["x", "kind"], *([i, text] for i, text in enumerate(labels))])


def read_labels(path: Path) -> list[str]:
    labels = read_table(str(path), "kind").labels
    assert labels is not None
    return list(labels)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(labels=st.lists(TEXTS, min_size=1, max_size=8))
def test_csv_label_depends_on_no_other_row(labels: list[str], tmp_path: Path) -> None:
    """Any texts, such as numbers among dates: each is read as it is alone."""
    write_labels(tmp_path / "t.csv", labels)
    assert read_labels(tmp_path / "t.csv") == [label_text(text) for text in labels]


@given(text=TEXTS)
def test_label_text_is_the_text_unless_it_is_a_decimal(text: str) -> None:
    found = label_text(text)
    assert label_text(found) == found
    try:
        float(text)
    except ValueError:
        assert found == unicodedata.normalize("NFC", text.strip())
    else:
        assert float(found) == float(text)


@pytest.mark.parametrize("text", ODD_LABELS)
def test_csv_column_of_one_label_keeps_its_text(text: str, tmp_path: Path) -> None:
    write_labels(tmp_path / "t.csv", [text, f" {text}  "])
    assert read_labels(tmp_path / "t.csv") == ["0" if text == "-0" else text] * 2


@pytest.mark.parametrize(
    ("labels", "texts"),
    [
        (pa.array([True, False]), ["True", "False"]),
        (pa.array([2**53 + 1, 1]), ["9007199254740993", "1"]),
        (pa.array([0.1, 3.0], pa.float32()), ["0.1", "3"]),
        (pa.array([0.1, 1e-7]), ["0.1", "1e-07"]),
        (pa.array([datetime.date(2026, 1, 2)] * 2), ["2026-01-02"] * 2),
        (pa.array([10**18 + 1] * 2, pa.timestamp("ns")), ["2001-09-09 01:46:40"] * 2),
        (pa.array(["01", "1"]), ["01", "1"]),
        (pa.array([b"01", b"1"]), ["01", "1"]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_typed_label_has_the_text_that_python_prints(
    labels: pa.Array, texts: list[str], tmp_path: Path
) -> None:
    pa.parquet.write_table(pa.table({"x": [1, 2], "kind": labels}), tmp_path / "t.parquet")
    assert read_labels(tmp_path / "t.parquet") == texts


def test_labels_of_lists_are_refused(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"x": [1, 2], "kind": [[1], [2]]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="column 'kind'"):
        read_labels(tmp_path / "t.parquet")


@pytest.mark.parametrize("bad", ["many", "1_000", "12:30", "1,5", "True"])
def test_target_that_is_no_number_is_named_with_its_row(bad: str, tmp_path: Path) -> None:
    write_labels(tmp_path / "t.csv", ["1", "2.5", bad, "4"])
    with pytest.raises(DataError, match=f"row 3 of column 'kind' holds '{bad}'"):
        read_table(str(tmp_path / "t.csv"), "kind", numeric=True)


def test_names_of_columns_have_no_blanks(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a, b , kind\n1, 2, x\n")
    table = read_table(str(tmp_path / "t.csv"), "kind")
    assert (table.names, list(table.labels)) == (("a", "b"), ["x"])


def test_npz_of_foreign_byte_order_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", x=np.array([1.5], ">f4"), kind=np.array([3], ">i4"))
    table = read_table(str(tmp_path / "t.npz"), "kind")
    assert (table.features.tolist(), list(table.labels)) == ([[1.5]], ["3"])


def test_targets_of_a_csv_are_numbers(tmp_path: Path) -> None:
    write_labels(tmp_path / "t.csv", ["01", "2.50", "1e1"])
    labels = read_table(str(tmp_path / "t.csv"), "kind", numeric=True).labels
    assert labels.tolist() == [1, 2.5, 10]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(header=st.text(st.sampled_from('ab",\r\n \x0b\u2028'), min_size=1, max_size=8))
def test_csv_label_below_any_header_keeps_its_text(header: str, tmp_path: Path) -> None:
    """Quotes, blank lines and line breaks: the readers of header and rows agree."""
    path = tmp_path / "t.csv"
    path.write_bytes(f"id,{header},last\n".encode())
    with path.open(newline="", encoding="utf-8") as file:
        names = next(csv.reader(file), [])
    assume(len(set(names)) == len(names) > 2)
    path.write_bytes(f"id,{header},last\n{','.join(['01'] * len(names))}\n".encode())
    with contextlib.suppress(DataError):  # a line break may end the header early
        labels = read_table(str(path), names[-1]).labels
        assert labels is not None
        assert set(labels.tolist()) <= {"01", "last"}


NAMES = st.lists(
    st.text(st.sampled_from("ab;, \t"), max_size=4).map("c".__add__),
    min_size=1,
    max_size=4,
    unique_by=str.strip,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    names=NAMES,
    label=TEXTS,
    numbers=st.floats(-1e9, 1e9, allow_nan=False),
    separator=st.sampled_from(",;\t"),
    packed=st.booleans(),
    named=st.booleans(),
)
def test_csv_reads_the_same_with_any_separator(
    names: list[str],
    label: str,
    numbers: float,
    separator: str,
    packed: bool,
    named: bool,
    tmp_path: Path,
) -> None:
    """As pandas, R and Excel write them: texts with any separator in double quotes."""
    text = io.StringIO(f"sep={separator}\r\n" if named else "")
    text.seek(0, io.SEEK_END)
    writer = csv.writer(text, delimiter=separator, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerows([["kind", *names], [label, *[numbers] * len(names)]])
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    table = read_table(str(path), "kind")
    assert table.names == tuple(map(str.strip, names))
    assert table.features.tolist() == [[numbers] * len(names)]
    assert table.labels.tolist() == [label_text(label)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a;kind\n1;0\n1,5;1\n", "row 2 of column 'a' holds '1,5'.*decimal point"),
        ("a\tkind\n1,234.5\t0\n", "row 1 of column 'a' holds '1,234.5'.*decimal point"),
        ("a,b,kind\n1,5,2,0\n", "4 fields in row 1.*commas.*decimal point"),
        ("a|b|kind\n1|2|0\n", "separate columns by commas"),
        ("a,x;b,kind\n1,2;3,0\n", "commas and semicolons in its header"),
        ('"a,kind\n' + "1," * 100_000, "stray quote"),
        ("0.5,1.5,A\n1,2,B\n", "write a line of names above"),
        ("0.5,0.5,A\n1,2,B\n", "two columns.*write a line of names above"),
        ("a,b\n1,2\n", "column of labels$"),
    ],
)
def test_separator_or_mark_that_is_not_read_is_named(
    content: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(DataError, match=words):
        read_table(str(tmp_path / "t.csv"), "kind")


@pytest.mark.parametrize("header", ["speed; m/s,a,kind", "speed\t,a;b,kind"])
def test_names_with_other_separators_are_read(header: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"{header}\n1,2,x\n")
    names = tuple(name.strip() for name in header.split(",")[:2])
    assert read_table(str(tmp_path / "t.csv"), "kind").names == names


@pytest.mark.parametrize(
    "change", [lambda c: c[:-9], lambda c: c[:20] + b"\xff" * 9, lambda c: b"a,kind\n1,0\n"]
)
def test_damaged_gzip_is_refused(change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    packed = gzip.compress(b"a,kind\n" + b"1,0\n" * 50)
    (tmp_path / "t.csv.gz").write_bytes(change(packed))
    with pytest.raises(DataError, match="gzipped CSV"):
        read_table(str(tmp_path / "t.csv.gz"), "kind")


@pytest.mark.parametrize("name", ["", " ", "Unnamed: 0"])
def test_index_of_pandas_is_left_out_with_a_note(name: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    FRAME.to_csv(path, index_label=name or None)
    table = read_table(str(path), "kind")
    assert table.names == ("height", "count", "wild")
    assert "column 1 has no name" in table.notes[0]


def test_inference_takes_a_table_with_its_index_or_without(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.random.default_rng(0).normal(size=60), "label": [0, 1] * 30})
    frame.to_csv(tmp_path / "t.csv")
    data = prepare(
        Settings.from_values(data=str(tmp_path / "t.csv"), workers=1), tmp_path / "datasets"
    )
    assert data.encoding.columns == ("a",)
    expected, *_ = read_examples(str(tmp_path / "t.csv"), data.encoding)
    frame.to_csv(tmp_path / "bare.csv", index=False)
    found, *_ = read_examples(str(tmp_path / "bare.csv"), data.encoding)
    np.testing.assert_array_equal(found, expected)


def test_model_that_was_trained_on_an_index_gets_it(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "t.csv")
    table = read_table(str(tmp_path / "t.csv"), "kind", columns=("count", "", "height", "wild"))
    assert table.features[:, 1].tolist() == [0, 1, 2]
    assert not table.notes


ROWS = np.arange(12)
CLASSES = st.lists(st.sampled_from(["a", "b", "3"]), min_size=12, max_size=12).filter(
    lambda labels: len(set(labels)) > 1
)


@given(
    labels=CLASSES,
    codes=st.permutations([1.5, -2.0, 3.0]),
    first=st.integers(-1000, 1000),
    order=st.permutations(range(12)),
)
def test_suspicious_columns_are_named_by_their_kind(
    labels: list[str], codes: list[float], first: int, order: list[int]
) -> None:
    renamed = dict(zip(["a", "b", "3"], codes, strict=True))
    good = np.sqrt(ROWS + 2)
    numbers = np.array(order) + first
    columns = [good, [renamed[one] for one in labels], numbers]
    names = ["good", "answer", "number"]
    notes = suspicious(names, np.array(columns, float).T, np.array(labels))
    kinds = ("numbers of the rows", "label of every row")
    assert len(notes) == 2
    for note, kind, name in zip(notes, kinds, ["number", "answer"], strict=True):
        assert kind in note
        assert [one for one in names if repr(one) in note] == [name]


@pytest.mark.parametrize(
    "same", [7, 1e15 + np.arange(60) % 3, 1e-170 * np.arange(60)], ids=["", "rounding", "tiny"]
)
def test_column_of_one_value_is_left_out_everywhere(
    same: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    frame = pd.DataFrame({"a": np.sqrt(np.arange(60)), "same": same, "label": [0, 1] * 30})
    frame.to_csv(tmp_path / "t.csv", index=False)
    path = str(tmp_path / "t.csv")
    settings = Settings.from_values(data=path, workers=1)
    data = prepare(settings, tmp_path / "datasets")
    assert "'same'" in caplog.text
    assert data.encoding.columns == ("a",)
    assert Encoding.from_json(data.encoding.to_json()) == data.encoding
    angles = read_examples(path, data.encoding).angles
    frame.drop(columns="same").to_csv(path, index=False)
    np.testing.assert_array_equal(read_examples(path, data.encoding).angles, angles)
    frame.drop(columns="a").to_csv(path, index=False)
    with pytest.raises(DataError, match="'same'"):
        prepare(settings, tmp_path / "datasets")


def test_target_in_a_second_column_is_named() -> None:
    targets = np.sqrt(ROWS)
    notes = suspicious(["x", "y"], np.array([targets**2 + 3, targets]).T, targets)
    assert len(notes) == 1
    assert "'y'" in notes[0]


def test_label_like_a_missing_value_is_named() -> None:
    notes = suspicious(["x"], np.sqrt(ROWS)[:, None], np.array(["NA", "b"] * 6))
    assert "'NA'" in notes[0]


def test_labels_that_differ_in_capitals_are_named() -> None:
    labels = np.array(["Yes", "yes", "no", "n o", "No way", "maybe"] * 2)
    (note,) = suspicious(["x"], np.sqrt(ROWS)[:, None], labels)
    assert "'Yes', 'n o', 'no', 'yes' differ" in note
    labels = np.array(["a", "a\u200b", "b"] * 4)
    (note,) = suspicious(["x"], np.sqrt(ROWS)[:, None], labels)
    assert r"'a', 'a\u200b' differ" in note


def test_numbers_with_few_rows_each_propose_a_regression() -> None:
    target = Target("classes", "kind", ("0.1", "0.2", "0.3"))
    with pytest.raises(DataError, match="TASK=regression"):
        require_all_classes({"train": np.array(["0.1", "0.2"])}, target, "t.csv")
    named = Target("classes", "kind", ("0.1", "0.2", "c"))
    with pytest.raises(DataError, match=r"CLASSES$"):
        require_all_classes({"train": np.array(["0.1", "0.2"])}, named, "t.csv")


def test_prepare_logs_the_notes_of_a_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    frame = pd.DataFrame({"a": np.random.default_rng(0).normal(size=60), "label": [0, 1] * 30})
    frame.assign(copy=frame["label"]).to_csv(tmp_path / "t.csv", index=False)
    settings = Settings.from_values(data=str(tmp_path / "t.csv"), workers=1)
    prepare(settings, tmp_path / "datasets")
    assert "'copy'" in caplog.text


def test_inference_reads_labels_as_training_did(tmp_path: Path) -> None:
    write_labels(tmp_path / "t.csv", ["01", "1", "1e0"] * 20)
    trained = prepare(
        Settings.from_values(data=str(tmp_path / "t.csv"), label_column="kind", workers=1),
        tmp_path / "datasets",
    )
    assert trained.target.classes == ("01", "1", "1e0")
    write_labels(tmp_path / "new.csv", ["1", "01"])
    _, labels, _ = read_examples(str(tmp_path / "new.csv"), trained.encoding)
    assert labels.tolist() == [1, 0]


def encoding() -> Encoding:
    """Of the columns of FRAME: center 0, matrix 1, so an angle is feature / 3 * pi / 2."""
    columns = ("height", "count", "wild")
    matrix = tuple(tuple(row) for row in np.eye(3).tolist())
    return Encoding(
        "angle", "angle", columns, Target("signs", "kind", ("cat", "dog")), (0.0, 0.0, 0.0), matrix
    )


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_new_examples_are_read_with_and_without_labels(ending: str, tmp_path: Path) -> None:
    angles, labels, _ = read_examples(written(tmp_path, ending), encoding())
    assert labels.tolist() == [-1, 1, -1]
    np.testing.assert_allclose(angles[0], np.pi / 2 * np.array([0.5, 1 / 3, 1 / 3]), rtol=1e-6)
    bare, none, _ = read_examples(written(tmp_path, ending, FRAME.drop(columns="kind")), encoding())
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
    angles, labels, _ = read_examples(path, data.encoding)
    everything = {tuple(row) for row in np.column_stack([angles, labels]).tolist()}
    for split in data.splits:
        examples = data.split(split)
        rows = {tuple(row) for row in np.column_stack(examples).tolist()}
        assert len(rows) == data.rows(split)
        assert rows <= everything
        everything -= rows
    assert everything == set()
