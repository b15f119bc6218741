"""Sets that are refused; malformed tables are in test_malformed.py."""

from pathlib import Path

import pytest

from common.data import check, prepare
from common.data.loading import MAX_CHECKED_MIB
from common.errors import DataError, QfleetError, SettingsError
from common.settings import Settings
from tests.support.malformed_tables import CASES, MalformedTable, csv
from training import __main__ as program


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"data": "excitation"}, "DATA=excitation is not a data set"),
        ({"data": "digits", "classes": "3,x"}, "no label 'x'"),
        ({"data": "digits", "encoder": "angle"}, "64 features and QUBITS=8"),
        ({"data": "digits", "test_examples": 100_000}, "too few"),
    ],
)
def test_prepare_impossible_built_in_data_set_is_refused(
    settings: dict, words: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=words):
        prepare(Settings.from_values(**settings), tmp_path / "datasets")
    assert not (tmp_path / "datasets").exists()


@pytest.mark.parametrize("settings", [{"encoder": "pca"}, {"classes": "0,1"}])
def test_excitations_inapplicable_settings_are_refused(settings: dict, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="does not fit DATA=excitations"):
        prepare(Settings.from_values(**settings), tmp_path)


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
    "data", ["missing.csv", "excitation", "TASK=energy MODEL=uccsd missing.json"]
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
    with pytest.raises(DataError, match=name):
        program.main()
    assert not list(tmp_path.iterdir())
