"""Settings: where a value comes from, and what is said when it is wrong."""

import pytest

from common.errors import SettingsError
from common.settings import Settings, flag
from common.settings.schema import help_text, markdown_table


@pytest.fixture(autouse=True)
def _no_settings_around(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("QFLEET_")]:
        monkeypatch.delenv(name)


def test_a_value_comes_from_flag_then_environment_then_file_then_default(tmp_path, monkeypatch):
    file = tmp_path / "mine.yaml"
    file.write_text("epochs: 3\nseed: 3\nqubits: 3\n")
    monkeypatch.setenv("QFLEET_EPOCHS", "4")
    monkeypatch.setenv("QFLEET_SEED", "4")
    settings = Settings.from_args([f"CONFIG={file}", "EPOCHS=5"])
    assert (settings.epochs, settings.seed, settings.qubits, settings.workers) == (5, 4, 3, 2)


@pytest.mark.parametrize("args", [["--batch-per-worker", "5"], ["--batch-per-worker=5"],
                                  ["BATCH_PER_WORKER=5"], ["--batch_per_worker=5"]])  # fmt: skip
def test_a_flag_may_be_written_in_each_usual_way(args):
    assert Settings.from_args(args).global_batch == 10


def test_a_switch_needs_no_value():
    assert Settings.from_args(["--verbose", "SEED=1"]).verbose


def test_an_empty_value_is_the_default_even_where_the_environment_says_more(monkeypatch):
    monkeypatch.setenv("QFLEET_RUN", "mine")
    assert Settings.from_args(["RUN="]).run == ""


def test_settings_survive_the_way_to_another_process(monkeypatch):
    settings = Settings.from_args(["STORAGE=a b='c", "EXAMPLES=7", "VERBOSE=yes", "PROFILE=2:3"])
    monkeypatch.setenv("QFLEET_SEED", "9")
    assert Settings.from_args(settings.to_args()) == settings


def test_epochs_workers_and_logging_do_not_make_another_run():
    one = Settings.from_args(["EPOCHS=3", "WORKERS=1", "VERBOSE=1", "RUN=a"])
    other = Settings.from_args(["EPOCHS=4", "WORKERS=3", "PROFILE=1:2", "RUN=b"])
    assert one.fingerprint() == other.fingerprint()


@pytest.mark.parametrize("args", [["SEED=1"], ["QUBITS=9"], ["BATCH=32"], ["LEARNING_RATE=0.01"],
                                  ["BATCH_PER_WORKER=16"], ["LANES=8"]])  # fmt: skip
def test_what_changes_the_weights_makes_another_run(args):
    assert Settings.from_args(args).fingerprint() != Settings.from_args([]).fingerprint()


def test_the_same_global_batch_said_in_two_ways_is_the_same_run():
    said = Settings.from_args(["BATCH_PER_WORKER=32", "WORKERS=2"])
    assert said.fingerprint() == Settings.from_args(["BATCH=64"]).fingerprint()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["EPOCS=5"], "EPOCS is not a setting: did you mean EPOCHS?"),
        (["--quibits=5"], "did you mean QUBITS?"),
        (["xyzzy=5"], "--help list them all"),
        (["epochs"], "NAME=value"),
        (["--epochs"], "--epochs needs a value: a whole number from 1"),
        (["RUN=../x"], "RUN is small letters"),
        (["BATCH=64", "BATCH_PER_WORKER=32"], "set one of them"),
        (["BATCH=auto", "BATCH_PER_WORKER=32"], "BATCH=auto and BATCH_PER_WORKER=32 say the same"),
        (["WORKERS=65"], "LANES=64"),
        (["WORKERS=8", "BATCH=4"], "raise BATCH or lower WORKERS"),
        (["PROFILE=9:3"], "first:last"),
    ],
)
def test_a_mistake_is_one_sentence(args, words):
    with pytest.raises(SettingsError) as error:
        Settings.from_args(args)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_an_unknown_name_in_the_environment_is_refused(monkeypatch):
    monkeypatch.setenv("QFLEET_EPOCS", "5")
    with pytest.raises(SettingsError, match=r"QFLEET_EPOCS in the environment .*EPOCHS"):
        Settings.from_args([])


def test_a_wrong_value_in_the_environment_is_named_by_its_variable(monkeypatch):
    monkeypatch.setenv("QFLEET_SEED", "-1")
    with pytest.raises(SettingsError, match="QFLEET_SEED=-1 is not allowed"):
        Settings.from_args([])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epocs: 3", "did you mean EPOCHS?"),
        ("epochs: many", "epochs: many in"),
        ("- 3", "name: value"),
        ("a: [", "not a YAML file"),
        ("\x00", "not a YAML file"),
        ("1: 2", "name: value"),
    ],
)
def test_a_wrong_settings_file_is_one_sentence_that_names_it(tmp_path, text, words):
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as error:
        Settings.from_args([f"CONFIG={file}"])
    assert words in str(error.value)
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)


def test_every_setting_stands_in_help_and_table_with_its_meaning():
    for name, field in Settings.model_fields.items():
        assert field.description
        assert name.upper() in help_text(Settings.model_fields)
        assert f"`{name.upper()}`" in markdown_table(Settings.model_fields)
        assert "_" not in flag(name)
