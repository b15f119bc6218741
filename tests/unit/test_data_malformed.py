"""What can't be trained on is refused in one sentence, and nothing is left behind."""

from pathlib import Path

import pytest

from common.data import prepare
from common.errors import DataError, SettingsError
from common.settings import Settings
from tests.malformed_tables import CASES, MalformedTable


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_malformed_table_is_refused_by_name_and_place(
    case: MalformedTable, tmp_path: Path
) -> None:
    file = tmp_path / case.file
    case.write(file)
    root = tmp_path / "datasets"
    with pytest.raises(DataError) as caught:
        prepare(Settings(data=str(file), **case.settings), root)
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 500
    assert case.file in said or "ENCODER" in said or "CLASSES" in said
    for word in case.words:
        assert word in said
    assert not root.exists()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"data": "excitation"}, "DATA=excitation is not a data set"),
        ({"data": "digits", "classes": "3,x"}, "no label 'x'"),
        ({"data": "digits", "encoder": "angle"}, "64 features and QUBITS=8"),
        ({"data": "digits", "test": 100_000}, "too few"),
    ],
)
def test_a_built_in_set_that_can_not_be_made_is_refused(
    settings: dict, words: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=words):
        prepare(Settings(**settings), tmp_path / "datasets")
    assert not (tmp_path / "datasets").exists()


@pytest.mark.parametrize("settings", [{"encoder": "pca"}, {"classes": "0,1"}])
def test_settings_that_excitations_do_not_have_are_refused_not_ignored(
    settings: dict, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="does not fit DATA=excitations"):
        prepare(Settings(**settings), tmp_path)


def test_more_examples_than_memory_are_refused_before_they_are_made(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"EXAMPLES=1000000000.*GiB of memory"):
        prepare(Settings(examples=10**9, qubits=30), tmp_path)
