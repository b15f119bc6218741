"""Tables that can't be trained on: how each is written, and its error message.

Used by the tests of the readers and by those of whole programs.
"""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet


class MalformedTable(NamedTuple):
    """One case.

    Attributes:
        name: What is wrong.
        file: Name of the file.
        write: Writes it to the path that it is given.
        words: Texts that the error message contains, in addition to the file's name.
        settings: Settings besides DATA, by name.
    """

    name: str
    file: str
    write: Callable[[Path], object]
    words: tuple[str, ...]
    settings: dict[str, Any] = {}


def columns(rows: int = 40) -> dict[str, np.ndarray]:
    """A good table of two features and two classes."""
    generator = np.random.default_rng(0)
    return {
        "a": generator.normal(size=rows),
        "b": generator.normal(size=rows),
        "label": np.arange(rows) % 2,
    }


def csv(path: Path, **changed: Any) -> None:
    """Write the good table as CSV, with columns changed, added, or (None) left out."""
    kept = {name: c for name, c in {**columns(), **changed}.items() if c is not None}
    pd.DataFrame(kept).to_csv(path, index=False)


def parquet(path: Path, **changed: Any) -> None:
    """The same as Parquet."""
    kept = {name: c for name, c in {**columns(), **changed}.items() if c is not None}
    pd.DataFrame(kept).to_parquet(path)


def checked_parquet(path: Path) -> None:
    """Parquet with a checksum for each page, which pandas does not write unless asked."""
    pd.DataFrame(columns()).to_parquet(path, write_page_checksum=True, compression=None)


def npz(path: Path, **arrays: Any) -> None:
    """Arrays as NPZ."""
    np.savez(path, **arrays)


def text(content: str | bytes) -> Callable[[Path], object]:
    """Write this content."""
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content)


def cut(write: Callable[[Path], object], share: float = 0.6) -> Callable[[Path], object]:
    """Write, then cut the file short."""

    def written(path: Path) -> None:
        write(path)
        path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])

    return written


def damaged(write: Callable[[Path], object]) -> Callable[[Path], object]:
    """Write, then overwrite some bytes of the data."""

    def written(path: Path) -> None:
        write(path)
        content = bytearray(path.read_bytes())
        content[300:340] = b"\xff" * 40
        path.write_bytes(content)

    return written


def put(column: str, row: int, value: Any) -> dict[str, np.ndarray]:
    """The column with one value changed; rows count from 1."""
    changed = columns()[column].astype(object)
    changed[row - 1] = value
    return {column: changed}


def two_of_a_name(path: Path) -> None:
    """Parquet with two columns of one name, which pandas does not write."""
    values = pa.array([1.0, 2.0])
    table = pa.table([values, values, pa.array([0, 1])], names=["a", "a", "label"])
    pa.parquet.write_table(table, path)


FEATURES, LABELS = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
GARBAGE = bytes(np.random.default_rng(1).integers(0, 256, 4000, dtype=np.uint8))

CASES = [
    MalformedTable("missing", "t.csv", lambda path: None, ("does not exist",)),
    MalformedTable("a folder", "t.csv", lambda path: path.mkdir(), ("is a folder",)),
    MalformedTable("another ending", "t.xlsx", text("a,label\n1,0\n"), (".csv, .parquet, .npz",)),
    MalformedTable("empty CSV", "t.csv", text(""), ("is empty",)),
    MalformedTable("blank CSV", "t.csv", text("\n\n\n"), ("text", "header")),
    MalformedTable("only a header", "t.csv", text("a,label\n"), ("no rows",)),
    MalformedTable("a workbook", "t.csv", text(b"PK\x03\x04" + bytes(99)), ("Excel", "as CSV")),
    MalformedTable("gzip", "t.csv", text(gzip.compress(b"a,label\n1,0\n")), ("name it .csv.gz",)),
    MalformedTable("Parquet", "t.csv", parquet, ("name it .parquet",)),
    MalformedTable("a page", "t.csv", text("<html><body>404</body></html>"), ("has no rows",)),
    MalformedTable("other digits", "t.csv", text("a,label\n1.5,0\n٣,1\n"), ("row 2", "'٣'")),
    MalformedTable("garbage CSV", "t.csv", text(GARBAGE), ("not text in UTF-8",)),
    MalformedTable(
        "Latin-1", "t.csv", text("a,größe,label\n1,2,0\n".encode("latin-1")), ("UTF-8", "byte 5")
    ),
    MalformedTable("a row too long", "t.csv", text("a,label\n1,0\n1,0,3\n"), ("row 2", "3 fields")),
    MalformedTable(
        "a row too short", "t.csv", text("a,b,label\n1,2,0\n1,0\n"), ("row 2", "2 fields")
    ),
    MalformedTable("an open quote", "t.csv", text('a,label\n"1,0\n2,1\n'), ("row 1",)),
    MalformedTable(
        "decimal commas", "t.csv", text("a;label\n1,5;0\n"), ("row 1", "'1,5'", "decimal point")
    ),
    MalformedTable(
        "no label",
        "t.csv",
        lambda p: csv(p, label=None),
        ("no label column 'label'", "'a', 'b'", "LABEL"),
    ),
    MalformedTable(
        "LABEL_COLUMN elsewhere",
        "t.csv",
        csv,
        ("no label column 'kind'", "'label'"),
        {"label_column": "kind"},
    ),
    MalformedTable(
        "label alone", "t.csv", lambda p: csv(p, a=None, b=None), ("only the label column",)
    ),
    MalformedTable("two of a name", "t.csv", text("a,a,label\n1,2,0\n"), ("two columns", "'a'")),
    MalformedTable("NaN", "t.csv", lambda p: csv(p, **put("a", 7, np.nan)), ("row 7", "'a'")),
    MalformedTable("infinity", "t.csv", lambda p: csv(p, **put("b", 3, np.inf)), ("row 3", "inf")),
    MalformedTable("too large", "t.csv", lambda p: csv(p, **put("b", 3, -1e200)), ("row 3", "'b'")),
    MalformedTable(
        "a word", "t.csv", lambda p: csv(p, **put("a", 5, "many")), ("row 5", "'a'", "'many'")
    ),
    MalformedTable(
        "a date", "t.csv", lambda p: csv(p, a=["2026-01-02"] * 40), ("row 1", "'a'", "not a number")
    ),
    MalformedTable("an empty column", "t.csv", lambda p: csv(p, a=[None] * 40), ("row 1", "'a'")),
    MalformedTable(
        "a missing label", "t.csv", lambda p: csv(p, **put("label", 9, None)), ("row 9", "'label'")
    ),
    MalformedTable(
        "one class", "t.csv", lambda p: csv(p, label=[1] * 40), ("only the label 1", "two classes")
    ),
    MalformedTable(
        "a class of one row",
        "t.csv",
        lambda p: csv(p, label=[i % 3 for i in range(39)] + [3]),
        ("no row of the class '3'", "CLASSES"),
    ),
    MalformedTable(
        "a class that is not there", "t.csv", csv, ("no label '7'", "0, 1"), {"classes": "0,7"}
    ),
    MalformedTable("one class twice", "t.csv", csv, ("twice",), {"classes": "1,1"}),
    MalformedTable(
        "two rows", "t.csv", text("a,label\n1,0\n2,1\n"), ("2 rows of its classes", "too few")
    ),
    MalformedTable(
        "one row of a class",
        "t.csv",
        lambda p: csv(p, label=[1] + [0] * 39),
        ("no row of the class '1'",),
        {"train_examples": 2},
    ),
    MalformedTable(
        "EXAMPLES",
        "t.csv",
        csv,
        ("40 rows of its classes", "TRAIN_EXAMPLES=39"),
        {"train_examples": 39},
    ),
    MalformedTable(
        "VALIDATION",
        "t.csv",
        csv,
        ("40 rows of its classes", "VALIDATION_EXAMPLES=40"),
        {"validation_examples": 40},
    ),
    MalformedTable(
        "TEST",
        "t.csv",
        csv,
        ("40 rows of its classes", "TEST_EXAMPLES=4000"),
        {"test_examples": 4000},
    ),
    MalformedTable(
        "more features than qubits",
        "t.npz",
        lambda p: npz(p, x=np.arange(360.0).reshape(40, 9) ** 0.5, label=LABELS),
        ("9 features", "QUBITS=8", "ENCODER=pca"),
        {"encoder": "angle"},
    ),
    MalformedTable("empty Parquet", "t.parquet", text(""), ("is empty",)),
    MalformedTable("garbage Parquet", "t.parquet", text(GARBAGE), ("Parquet", "not Parquet")),
    MalformedTable("Parquet cut short", "t.parquet", cut(parquet), ("Parquet", "incomplete")),
    MalformedTable(
        "damaged Parquet", "t.parquet", damaged(checked_parquet), ("Parquet", "damaged")
    ),
    MalformedTable("CSV called Parquet", "t.parquet", csv, ("Parquet",)),
    MalformedTable("two of a name in Parquet", "t.parquet", two_of_a_name, ("two columns", "'a'")),
    MalformedTable(
        "no rows in Parquet",
        "t.parquet",
        lambda p: pd.DataFrame({"a": [], "label": []}).to_parquet(p),
        ("no rows",),
    ),
    MalformedTable(
        "NaN in Parquet",
        "t.parquet",
        lambda p: parquet(p, a=[*[0.5] * 39, np.nan]),
        ("row 40", "'a'"),
    ),
    MalformedTable(
        "lists in Parquet", "t.parquet", lambda p: parquet(p, a=[[1, 2]] * 40), ("row 1", "'a'")
    ),
    MalformedTable("empty NPZ", "t.npz", text(""), ("is empty",)),
    MalformedTable("garbage NPZ", "t.npz", text(GARBAGE), ("not an NPZ",)),
    MalformedTable("CSV called NPZ", "t.npz", csv, ("not an NPZ",)),
    MalformedTable(
        "NPZ cut short",
        "t.npz",
        cut(lambda p: npz(p, x=FEATURES, label=LABELS)),
        ("not an NPZ", "incomplete"),
    ),
    MalformedTable(
        "damaged NPZ",
        "t.npz",
        damaged(lambda p: npz(p, x=FEATURES, label=LABELS)),
        ("damaged array 'x'",),
    ),
    MalformedTable("NPZ of nothing", "t.npz", lambda p: npz(p), ("no array",)),
    MalformedTable(
        "pickled NPZ",
        "t.npz",
        lambda p: npz(p, x=np.array([{}] * 40, object), label=LABELS),
        ("Python objects", "'x'"),
    ),
    MalformedTable(
        "unequal lengths",
        "t.npz",
        lambda p: npz(p, x=FEATURES, label=LABELS[:30]),
        ("40 rows", "30", "'label'"),
    ),
    MalformedTable(
        "a cube", "t.npz", lambda p: npz(p, x=np.ones((40, 2, 2)), label=LABELS), ("(40, 2, 2)",)
    ),
    MalformedTable("only a number", "t.npz", lambda p: npz(p, x=3.0, label=LABELS), ("shape ()",)),
    MalformedTable(
        "complex numbers", "t.npz", lambda p: npz(p, x=FEATURES * 1j, label=LABELS), ("complex128",)
    ),
    MalformedTable(
        "no label in NPZ", "t.npz", lambda p: npz(p, x=FEATURES), ("no label column 'label'",)
    ),
    MalformedTable(
        "NaN in NPZ",
        "t.npz",
        lambda p: npz(
            p, x=np.where(np.isclose(FEATURES, FEATURES[11, 2]), np.nan, FEATURES), label=LABELS
        ),
        ("row 12", "'x_2'"),
    ),
]
