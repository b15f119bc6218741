"""`qfleet.service`: arguments that become settings and tables, and mistakes."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from qfleet import service

FEATURES = np.arange(12.0).reshape(6, 2)
LABELS = np.array(["a", "b"] * 3)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def frame() -> pd.DataFrame:
    return pd.DataFrame({"x0": FEATURES[:, 0], "x1": FEATURES[:, 1], "label": LABELS})


def test_frame_and_arrays_are_written_once_by_content(folder: Path) -> None:
    first, second = service._path_of(frame()), service._path_of((FEATURES, LABELS))
    assert first == second
    assert pd.read_parquet(first).equals(frame())
    assert service._path_of((FEATURES + 1, LABELS)) != first
    assert len(list((folder / service.TABLES).iterdir())) == 2


class PolarsFrame:
    """A frame with polars' method; the package is not in this environment."""

    def write_parquet(self, file: object) -> None:
        frame().to_parquet(file)


def test_other_frame_is_written_by_its_own_method() -> None:
    assert pd.read_parquet(service._path_of(PolarsFrame())).equals(frame())


def test_path_and_name_stay_what_they_are() -> None:
    assert service._path_of("digits") == "digits"
    assert service._path_of(Path("a/b.csv")) == "a/b.csv"


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda: service.train(qubit=3), "did you mean QUBITS?"),
        (lambda: service.train(qubits=0), "QUBITS=0 is not allowed"),
        (lambda: service.train(data=3), "data is a int"),
        (lambda: service.train(data=(FEATURES, LABELS[:3])), "(6, 2) and (3,)"),
        (lambda: service.train(data=frame().drop(columns="label")), "no label column 'label'"),
        (lambda: service.train(data="missing.csv"), "missing.csv"),
        (lambda: service.train(model="no_such:build"), "no_such"),
        (lambda: service.train(seeds="0..3"), "SEEDS is not a setting"),
    ],
)
def test_mistake_raises_one_sentence_before_a_worker_starts(
    call: Callable[[], object], part: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(service.ServiceError) as error:
        call()
    assert error.value.exit_code == 2
    assert part in str(error.value)
    assert "\n" not in str(error.value)
    assert not capsys.readouterr().out
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("data", "part"),
    [
        ((), "a tuple of 0"),
        ((FEATURES, LABELS, LABELS), "a tuple of 3"),
        (([[1, 2], [3]], [0, 1]), "different lengths"),
        ((FEATURES * 1j, LABELS), "column 'x0'"),
        (np.zeros((2, 2)), "data is a ndarray"),
        (pd.concat([frame(), frame()["label"]], axis=1), "two columns named 'label'"),
        (frame().assign(label=[1, "a"] * 3), "column 'label'"),
        (frame().assign(more=[object()] * 6), "column 'more'"),
        (frame().assign(more=[2**70] * 6), "column 'more'"),
        (frame().assign(more=pd.arrays.SparseArray(LABELS)), "column 'more'"),
    ],
)
def test_data_that_no_table_holds_is_named(data: object, part: str) -> None:
    with pytest.raises(service.ServiceError, match=re.escape(part)) as error:
        service._path_of(data)
    assert error.value.exit_code == 2


def test_folder_that_cannot_be_written_is_named(folder: Path) -> None:
    (folder / service.TABLES).write_text("")
    with pytest.raises(service.ServiceError, match="qfleet-tables can't be written"):
        service._path_of(frame())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (np.True_, "true"),
        (["a", "b"], "a,b"),
        (["True", "False"], "True,False"),
        ((1, 3, 5), "1,3,5"),
        ({"depolarizing": 0.01, "readout": 0.02}, "depolarizing:0.01,readout:0.02"),
    ],
)
def test_value_becomes_the_text_of_a_setting(value: service.Value, text: str) -> None:
    assert service._text(value) == text


def test_import_needs_no_package_of_the_service() -> None:
    program = "import sys, qfleet.service; print({'pandas', 'cirq', 'pydantic'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[2], check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "set()\n"


def test_foreign_module_called_common_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    other = type(sys)("common")
    other.__file__ = "/home/me/common.py"
    monkeypatch.setitem(sys.modules, "common", other)
    with pytest.raises(service.ServiceError, match=r"/home/me/common\.py"):
        service.load("hybrid")
