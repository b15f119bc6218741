"""Law of all settings: any text is read as a value, or refused in a sentence."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from common.errors import SettingsError
from common.settings import Settings
from common.settings.fields import SettingField
from common.settings.options import OPTIONS, option_fields
from studies.definition import StudyDefinition

TEXTS = (
    *("x", "-1", "0", "1e400", "nan", "0x10", "1_000", "٣", "+1", " 1", "1 ", "1\n2", "\t"),
    *("x" * 300, "é", "../x", "/", "gs://", "gs://b", "[1]", "{}", "None", "=", "a=b"),
    *("a,b", ",", ";", "0,x", "1;2;y", "1,2,3", "0.5,0.1", "true,false"),
    *("0..x", "1..", "..", "..5", "-5..5", "1..2..3", "1e-400..1", "1e3..1e4", "0..9" + "9" * 20),
)


def fields(program: str) -> Mapping[str, SettingField]:
    return {**Settings.fields(), **option_fields(program)}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("program", OPTIONS)
def test_any_value_is_read_or_refused(program: str) -> None:
    refused = 0
    for name in fields(program):
        for text in TEXTS:
            try:
                Settings.with_options([f"{name.upper()}={text}"], program, OPTIONS[program])
            except SettingsError:
                refused += 1
    assert refused > 1000


@pytest.mark.parametrize("search", [(), ("SEARCH=tpe", "TRIALS=2")])
def test_any_value_of_a_study_is_read_or_refused(search: tuple[str, ...]) -> None:
    refused = 0
    for name in fields("study"):
        for text in TEXTS:
            try:
                StudyDefinition.from_args(["NAME=s", *search, f"{name.upper()}={text}"])
            except SettingsError:
                refused += 1
    assert refused > 1000
