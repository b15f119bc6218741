"""Sets that are refused; malformed tables are in test_malformed.py."""

from pathlib import Path

import pytest

from common.data import prepare
from common.errors import DataError, SettingsError
from common.settings import Settings


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
