"""Sets that are refused; malformed tables are in test_malformed.py."""

import contextlib
from pathlib import Path

import pytest

from common.built_in_data import check_built_in
from common.data import check, prepare
from common.data.loading import MAX_CHECKED_MIB
from common.errors import DataError, QfleetError, SettingsError
from common.settings import Settings
from common.settings.groups.experiment import FITTED_TO_DATA
from tests.support.malformed_tables import CASES, MalformedTable, csv
from training import __main__ as program


@pytest.mark.parametrize(
    ("words", "error", "cause"),
    [
        ("DATA=excitation", DataError, "DATA=excitation is not a data set"),
        ("DATA=digits CLASSES=3,x", DataError, "no label 'x'"),
        ("DATA=digits ENCODER=angle", DataError, "64 features and QUBITS=8"),
        ("DATA=digits TEST_EXAMPLES=100000", DataError, "too few"),
        ("DATA=digits CLASS_WEIGHTS=3:1", SettingsError, "CLASS_WEIGHTS"),
        ("DATA=digits MODEL=qcnn CLASSES=all", SettingsError, "MODEL"),
        ("CLASS_WEIGHTS=-1:0", SettingsError, "CLASS_WEIGHTS"),
        ("ENCODER=pca", SettingsError, "does not fit DATA=excitations"),
        ("CLASSES=0,1", SettingsError, "does not fit DATA=excitations"),
        ("ID_COLUMN=a", SettingsError, "ID_COLUMN"),
        ("LOSS=poisson", SettingsError, "LOSS"),
        ("TASK=regression", SettingsError, "TASK"),
        ("TASK=energy", DataError, "is not a Hamiltonian"),
        ("TASK=energy DATA=tfim:8", DataError, "tfim:8"),
        ("TASK=energy DATA=tfim:8:1 QUBITS=7", SettingsError, "QUBITS=7"),
        ("TASK=energy DATA=tfim:8:1e200", DataError, "1e.200"),
        ("TASK=energy DATA=h2:0.7,0.01", DataError, "bond length"),
        ("TASK=energy DATA=tfim:4:1 MODEL=uccsd", SettingsError, "MODEL=uccsd"),
        ("TASK=energy DATA=tfim:4:1 ENCODER=pca", SettingsError, "ENCODER"),
        ("TASK=state DATA=bell", DataError, "is not a target state"),
        ("TASK=state DATA=w QUBITS=13", SettingsError, "QUBITS=13"),
    ],
)
def test_check_and_prepare_refuse_what_does_not_fit(
    words: str, error: type[QfleetError], cause: str, tmp_path: Path
) -> None:
    settings = Settings.from_args(words.split())
    assert settings.explicit & FITTED_TO_DATA  # so `make training` checks before it starts
    with pytest.raises(error, match=cause):
        check(settings)
    with pytest.raises(error, match=cause):
        prepare(settings, tmp_path / "datasets")


@pytest.mark.parametrize(
    ("words", "is_refused"),
    [
        ("", False),
        ("DATA=digits CLASSES=3,8.0", False),
        ("DATA=digits CLASSES=all LOSS=categorical_crossentropy", False),
        ("DATA=digits MODEL=qcnn", False),
        ("LOSS=hinge ENCODER=angle", False),
        ("DATA=digits CLASSES=3,10", True),
        ("DATA=digits CLASSES=3,x", True),
        ("DATA=digits CLASSES=0,1,2 MODEL=qcnn", True),
        ("DATA=digits CLASSES=0,1,2 LOSS=huber", False),
        ("DATA=digits LOSS=categorical_hinge", True),
        ("DATA=digits TASK=regression", True),
        ("CLASSES=1,-1", True),
        ("ENCODER=reupload", True),
        ("ID_COLUMN=a", True),
        ("LOSS=poisson", True),
    ],
)
def test_built_in_data_are_checked_without_being_read(words: str, *, is_refused: bool) -> None:
    settings = Settings.from_args(words.split())
    for function in (check, check_built_in):
        with pytest.raises(QfleetError) if is_refused else contextlib.nullcontext():
            function(settings)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_check_refuses_what_prepare_refuses(case: MalformedTable, tmp_path: Path) -> None:
    path = tmp_path / case.file
    case.write(path)
    settings = Settings.from_values(data=str(path), **case.settings)
    with pytest.raises(DataError) as found:
        check(settings)
    for word in case.words:
        assert word in str(found.value)


@pytest.mark.parametrize(
    "settings", [{"task": "regression", "loss": "poisson"}, {"loss": "categorical_crossentropy"}]
)
def test_check_setting_that_misfits_the_table_is_refused(settings: dict, tmp_path: Path) -> None:
    csv(tmp_path / "t.csv")
    settings = {"data": str(tmp_path / "t.csv"), **settings}
    with pytest.raises(QfleetError) as expected:
        prepare(Settings.from_values(**settings), tmp_path / "datasets")
    with pytest.raises(type(expected.value)):
        check(Settings.from_values(**settings))


def test_check_of_good_data_writes_nothing(tmp_path: Path) -> None:
    csv(tmp_path / "t.csv")
    check(Settings.from_values(data=str(tmp_path / "t.csv"), storage=str(tmp_path)))
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_check_folder_without_a_shard_is_refused(tmp_path: Path) -> None:
    csv(tmp_path / "t.csv")
    made = prepare(Settings.from_values(data=str(tmp_path / "t.csv")), tmp_path / "datasets")
    settings = Settings.from_values(data=str(made.path))
    check(settings)
    (made.path / made.shards("train")[0].file).unlink()
    with pytest.raises(DataError, match="is missing"):
        check(settings)


def test_check_does_not_read_a_large_table(tmp_path: Path) -> None:
    with (tmp_path / "t.csv").open("wb") as file:
        file.truncate((MAX_CHECKED_MIB + 1) * 2**20)
    check(Settings.from_values(data=str(tmp_path / "t.csv")))
    with pytest.raises(DataError, match="DATA_MEMORY"):
        check(Settings.from_values(data=str(tmp_path / "t.csv"), data_memory=MAX_CHECKED_MIB))


@pytest.mark.parametrize(
    "data",
    [
        "missing.csv",
        "excitation",
        "TASK=energy MODEL=uccsd missing.json",
        "ENCODER=pca excitations",
    ],
)
def test_training_data_that_is_missing_starts_no_worker(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *task, name = data.split()
    path = tmp_path / name if "." in name else name
    monkeypatch.setattr(
        program.sys, "argv", ["training", f"STORAGE={tmp_path}", f"DATA={path}", *task]
    )
    monkeypatch.setattr(program.LocalLauncher, "train", lambda self: pytest.fail("it started"))
    with pytest.raises(QfleetError, match=name):
        program.main()
    assert not list(tmp_path.iterdir())
