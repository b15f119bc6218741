"""Small files that declare or unpack to more than any memory: one sentence, in time and memory."""

import gzip
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from common.data import Encoding, read_table
from common.data.encoding import fit
from common.data.tables import label_text
from common.data.target import SIGNS
from common.errors import DataError

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS, LIMIT_BYTES = 20, 2 * 2**30

READ = f"""
import resource, sys, time
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, ({LIMIT_BYTES}, {LIMIT_BYTES}))
from common.data import prepare
from common.errors import DataError
from common.settings import Settings
for path in sys.argv[1:]:
    start = time.process_time()
    try:
        prepare(Settings.from_values(data=path, qubits=4), Path("/nothing/is/written"))
    except DataError as error:
        print(time.process_time() - start, error)
"""


def rows(path: Path) -> None:
    """Half a billion equal rows, in a few kilobytes."""
    zeros = pa.array(np.zeros(50_000_000, np.int8))
    table = pa.table({"x": zeros, "label": zeros})
    with pa.parquet.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(10):
            writer.write_table(table, row_group_size=50_000_000)


def texts(path: Path) -> None:
    """One long label, which many rows refer to."""
    codes = np.arange(2_000_000, dtype=np.int32) % 2
    labels = pa.DictionaryArray.from_arrays(codes, ["a" * 500_000, "b"])
    table = pa.table({"x": pa.array(np.zeros(2_000_000)), "label": labels})
    pa.parquet.write_table(table, path, compression="zstd")


def large_text(path: Path) -> None:
    """A feature of few rows that unpacks to a gigabyte."""
    values = pa.array(["z" * 350_000_000, "y", "y" * 350_000_000], pa.large_string())
    pa.parquet.write_table(pa.table({"x": values, "label": [0, 1, 0]}), path, compression="zstd")


def columns_of_csv(count: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        names = ",".join(f"c{i}" for i in range(count))
        row = "1," * count
        path.write_text(f"{names},label\n{row}0\n{row}1\n")

    return write


def zeros_of_npz(path: Path) -> None:
    np.savez_compressed(path, x=np.zeros((150_000_000, 2), np.float16), label=np.zeros(3))


def columns_of_npz(path: Path) -> None:
    np.savez_compressed(path, x=np.zeros((0, 100_000_000), np.float32), label=np.zeros(0))


def packed_csv(path: Path) -> None:
    """Two gigabytes of rows, in two megabytes."""
    path.write_bytes(gzip.compress(b"x,label\n" + b"1,0\n" * 2**22, 6) * 128)


BOMBS: dict[str, tuple[Callable[[Path], None], str]] = {
    "texts.parquet": (texts, "labels of up to 500,000 characters"),
    "wide.csv": (columns_of_csv(120_000), "120,001 columns"),
    "columns.npz": (columns_of_npz, "100,000,000 columns"),
}
LARGE_BOMBS: dict[str, tuple[Callable[[Path], None], str]] = {
    "rows.parquet": (rows, "500,000,000 rows"),
    "large.parquet": (large_text, "DATA_MEMORY"),
    "wider.csv": (columns_of_csv(1_500_000), "1,500,001 columns"),
    "packed.csv.gz": (packed_csv, "unpacks to more than DATA_MEMORY"),
    "zeros.npz": (zeros_of_npz, "MiB: set DATA_MEMORY"),
}


def check(bombs: dict[str, tuple[Callable[[Path], None], str]], folder: Path) -> None:
    """Read all bombs in one process with little memory."""
    for name, (write, _) in bombs.items():
        write(folder / name)
    done = subprocess.run(
        [sys.executable, "-c", READ, *(str(folder / name) for name in bombs)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(bombs)
    for line, (name, (_, words)) in zip(lines, bombs.items(), strict=True):
        seconds, _, message = line.partition(" ")
        assert float(seconds) < LIMIT_SECONDS
        assert name in message
        assert words in message


def test_bombs_are_refused_in_one_sentence_each(tmp_path: Path) -> None:
    check(BOMBS, tmp_path)


# Writing the bombs takes half a minute.
@pytest.mark.nightly
def test_large_bombs_are_refused_in_one_sentence_each(tmp_path: Path) -> None:
    check(LARGE_BOMBS, tmp_path)


def test_table_within_its_memory_is_read(tmp_path: Path) -> None:
    columns_of_csv(3000)(tmp_path / "t.csv")
    assert read_table(str(tmp_path / "t.csv"), "label", memory=1).features.shape == (2, 3000)
    columns_of_csv(30_000)(tmp_path / "t.csv")
    with pytest.raises(DataError, match="which need 2 MiB: set DATA_MEMORY"):
        read_table(str(tmp_path / "t.csv"), "label", memory=1)


def test_gzipped_csv_larger_than_data_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"x,label\n" + b"1,0\n" * 2**18))
    with pytest.raises(DataError, match="unpacks to more than DATA_MEMORY=1 MiB"):
        read_table(str(tmp_path / "t.csv.gz"), "label", memory=1)


def test_file_larger_than_data_memory_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "t.parquet").open("wb") as file:
        file.truncate(40 * 2**30)
    with pytest.raises(DataError, match="more than DATA_MEMORY=1024 MiB"):
        read_table(str(tmp_path / "t.parquet"), "label")


@pytest.mark.parametrize("shape", [(40, 20), (20, 40)])
def test_components_of_a_wide_table_are_those_of_the_covariance(shape: tuple[int, int]) -> None:
    features = np.random.default_rng(0).normal(size=shape) @ np.diag(np.linspace(1, 3, shape[1]))
    encoding = fit_pca(features)
    centered = features - features.mean(axis=0)
    scores = centered @ np.array(encoding.matrix).T
    np.testing.assert_allclose(scores.T @ scores / len(scores), np.eye(4), atol=1e-9)
    scaled = centered / features.std(axis=0)
    expected = np.linalg.svd(scaled, compute_uv=False)[:4]
    directions = np.array(encoding.matrix) * features.std(axis=0)
    found = 1 / np.linalg.norm(directions, axis=1) * np.sqrt(len(features))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def fit_pca(features: np.ndarray) -> Encoding:
    names = [str(i) for i in range(features.shape[1])]
    return fit(features, "pca", 4, columns=names, target=SIGNS)


def test_wide_table_is_encoded_quickly() -> None:
    start = time.process_time()
    encoding = fit_pca(np.random.default_rng(0).normal(size=(30, 20_000)))
    assert encoding.symbols == 4
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("values", "label"),
    [
        ((1, 1.0, "1", " 1.0 ", "1.00", b"1", np.float64(1).item()), "1"),
        (("-0", "0", 0, 0.0, "0.0"), "0"),
        (("1.50", 1.5, "1.5"), "1.5"),
        (("01",), "01"),
        (("1e3",), "1e3"),
        (("gr\u00f6\u00dfe", "gro\u0308\u00dfe"), "gr\u00f6\u00dfe"),
        (("",), ""),
    ],
)
def test_equal_labels_have_equal_text(values: tuple[object, ...], label: str) -> None:
    assert {label_text(value) for value in values} == {label}


def test_table_of_both_forms_has_two_labels(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("na\u0308me,kind\n1,a\u0308\n2,\u00e4\n3,1.0\n4,1\n", encoding="utf-8")
    table = read_table(str(path), "kind")
    assert table.names == ("n\u00e4me",)
    assert table.labels is not None
    assert table.labels.tolist() == ["\u00e4", "\u00e4", "1", "1"]
    path.write_text("a\u0308,\u00e4,kind\n1,2,3\n", encoding="utf-8")
    with pytest.raises(DataError, match="two columns named"):
        read_table(str(path), "kind")
