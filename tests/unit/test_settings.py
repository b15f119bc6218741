"""Settings: sources and their precedence, errors, resolved values, identity and scopes."""

import dataclasses
import os
import time
from pathlib import Path

import pytest

from common.errors import SettingsError
from common.settings import (
    Scope,
    Settings,
    TrainingSettings,
    __main__,
    flag,
    names_in_scope,
)
from common.settings.registry import GROUPS
from common.settings.schema import describe_constraint, help_text, markdown_table

MODEL = (
    "model",
    "angles",
    "qubits",
    "layers",
    "pooling",
    "activation",
    "filters",
    "simulator",
    "device",
    "method",
    "noise",
    "shots",
    "trajectories",
    "sampler",
    "gradient",
    "normalize_readouts",
)
DATA = ("task", "data", "label_column", "id_column", "classes", "class_weights", "encoder",
        "train_examples", "validation_examples", "test_examples", "partitions", "seed",
        "data_memory")  # fmt: skip
TRAINING = ("workers", "min_workers", "state_shards", "batch", "epochs",
            "learning_rate", "loss", "initializations", "initialization_epochs", "prune",
            "reproducible", "micro_batch", "steps_per_call", "threads")  # fmt: skip
CHECKPOINTING = ("checkpoint_interval", "keep_checkpoints", "keep_best")
FAULT_TOLERANCE = ("deadline", "max_attempts", "max_restarts", "rendezvous_timeout",
                   "stall_timeout_min", "stall_timeout_max",
                   "rendezvous_port", "peer_timeout", "elastic_after")  # fmt: skip
INFERENCE = {"parallelism", "weights", "checkpoint", "input", "zne", "zne_fit"}

SUGGESTED = {
    "starts": "initializations",
    "start_epochs": "initialization_epochs",
    "label": "label_column",
    "examples": "train_examples",
    "validation": "validation_examples",
    "test": "test_examples",
    "lanes": "partitions",
    "split": "state_shards",
    "checkpoint_every": "checkpoint_interval",
    "attempts": "max_attempts",
    "restarts": "max_restarts",
    "gate_port": "rendezvous_port",
    "profile": "profile_steps",
    "upload_every": "log_upload_interval",
    "price": "price_per_worker_hour",
    "preemptions": "preemption_rate",
    "notice": "preemption_notice_fraction",
    "recovery": "restart_seconds",
    "stragglers": "step_time_cv",
    "parallel": "parallelism",
    "exmples": "train_examples",
    "batch-size": "batch",
    "batch_per_worker": "batch",
    "lr": "learning_rate",
    "num_workers": "workers",
    "epocs": "epochs",
    "quibits": "qubits",
    "pruner": "early_stopping",
}


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("QFLEET_")]:
        monkeypatch.delenv(name)


def test_sources_of_several_values_have_precedence(tmp_path, monkeypatch):
    file = tmp_path / "mine.yaml"
    file.write_text("epochs: 3\nseed: 3\nqubits: 3\n")
    monkeypatch.setenv("QFLEET_EPOCHS", "4")
    monkeypatch.setenv("QFLEET_SEED", "4")
    settings = Settings.from_args([f"CONFIG={file}", "EPOCHS=5"])
    assert settings.training.epochs == 5
    assert settings.data.seed == 4
    assert settings.model.qubits == 3
    assert settings.training.workers == 2
    assert settings.explicit == {"config", "epochs", "seed", "qubits"}


def test_config_in_the_environment_is_read(tmp_path, monkeypatch):
    file = tmp_path / "mine.yaml"
    file.write_text("seed: 3\n")
    monkeypatch.setenv("QFLEET_CONFIG", str(file))
    assert Settings.from_args([]).data.seed == 3
    assert Settings.from_args(["CONFIG="]).data.seed == 0


@pytest.mark.parametrize("args", [["--train-examples", "5"], ["--train-examples=5"],
                                  ["TRAIN_EXAMPLES=5"], ["--train_examples=5"]])  # fmt: skip
def test_argument_in_each_form_is_read(args):
    assert Settings.from_args(args).data.train_examples == 5


def test_bool_flag_without_value_is_true():
    settings = Settings.from_args(["--verbose", "SEED=1"])
    assert settings.job.verbose
    assert settings.data.seed == 1


def test_empty_argument_is_the_default(monkeypatch):
    monkeypatch.setenv("QFLEET_RUN", "mine")
    monkeypatch.setenv("QFLEET_EPOCHS", "7")
    settings = Settings.from_args(["RUN=", "EPOCHS="])
    assert settings.job.run == ""
    assert settings.training.epochs == 170


def test_to_args_of_any_settings_round_trips(monkeypatch):
    args = ["STORAGE=a b='c", "TRAIN_EXAMPLES=7", "VERBOSE=yes", "PROFILE_STEPS=2:3", "BATCH=auto"]
    settings = Settings.from_args(args)
    monkeypatch.setenv("QFLEET_SEED", "9")
    assert Settings.from_args(settings.to_args()) == settings


def test_every_setting_is_in_help_and_table():
    fields = Settings.fields()
    for name, field in fields.items():
        assert field.description
        assert describe_constraint(field)
        assert name.upper() in help_text(fields)
        assert f"`{name.upper()}`" in markdown_table(fields.values())
        assert "_" not in flag(name)


def test_words_for_true_and_false_are_those_of_the_docs():
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    for value in (True, False):
        row = next(line for line in page.splitlines() if line.startswith(f"| {value} |".lower()))
        words = row.split("`")[1::2]
        assert len(words) == 6
        for word in (*words, *map(str.upper, words)):
            assert Settings.from_args([f"VERBOSE={word}"]).job.verbose is value


def test_every_group_has_a_docstring():
    for group in GROUPS.values():
        assert group.__doc__
        assert group.__doc__ != group.__base__.__doc__


def test_table_with_a_repeated_setting_has_one_anchor():
    field = Settings.fields()["epochs"]
    table = markdown_table([field, field])
    assert table.count('id="epochs"') == 1
    assert table.count('href="#epochs"') == 2


def test_main_with_stale_table_refuses_it(tmp_path):
    file = tmp_path / "configuration.md"
    file.write_text(f"# Before\n{__main__.BEGIN}\nold\n{__main__.END}\nafter\n")
    with pytest.raises(SettingsError, match="make settings-table"):
        __main__.main(["--check", str(file)])
    assert __main__.main(["--write", str(file)]) == 0
    assert __main__.main(["--check", str(file)]) == 0
    assert file.read_text().startswith("# Before\n")
    assert file.read_text().endswith("\nafter\n")


# Access and changes.


def test_get_of_each_name_equals_the_group_field():
    settings = Settings.from_args([])
    assert list(settings.flat()) == list(Settings.fields())
    for name, field in Settings.fields().items():
        assert settings.get(name) == getattr(getattr(settings, field.group), name)
        assert settings.flat()[name] == field.default
    with pytest.raises(KeyError):
        settings.get("epocs")


def test_replace_of_two_groups_changes_a_copy():
    settings = Settings.from_args([])
    changed = settings.replace(run="x", workers=3)
    assert (changed.job.run, changed.training.workers) == ("x", 3)
    assert (settings.job.run, settings.training.workers) == ("", 2)
    assert {"run", "workers"} <= changed.explicit
    with pytest.raises(TypeError, match="epocs"):
        settings.replace(epocs=3)


def test_from_values_ignores_the_environment(monkeypatch):
    monkeypatch.setenv("QFLEET_SEED", "9")
    settings = Settings.from_values(qubits=2)
    assert (settings.model.qubits, settings.data.seed) == (2, 0)
    with pytest.raises(TypeError, match="quibits"):
        Settings.from_values(quibits=2)
    with pytest.raises(ValueError, match="qubits"):
        Settings.from_values(qubits=0)


def test_settings_are_immutable():
    settings = Settings.from_args([])
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.job = None
    with pytest.raises(ValueError, match="frozen"):
        settings.job.run = "x"


@pytest.mark.parametrize(
    ("args", "name"),
    [([], "hybrid"), (["MODEL=my_pkg.net:Make"], "my-pkg-net-make"), (["RUN=a"], "a")],
)
def test_run_name_is_run_or_the_model(args, name):
    assert Settings.from_args(args).run_name == name


# Epochs and initializations.


@pytest.mark.parametrize(
    ("args", "count", "each"),
    [
        ([], 8, 15),
        (["EPOCHS=1000000"], 8, 15),
        (["EPOCHS=159"], 8, 14),
        (["EPOCHS=11"], 8, 1),
        (["EPOCHS=10"], 7, 1),
        (["EPOCHS=3"], 2, 1),
        (["EPOCHS=2"], 1, 0),
        (["EPOCHS=1"], 1, 0),
        (["EPOCHS=20", "INITIALIZATIONS=3"], 3, 5),
        (["EPOCHS=4", "INITIALIZATIONS=3"], 3, 1),
        (["EPOCHS=20", "INITIALIZATION_EPOCHS=5"], 3, 5),
        (["EPOCHS=20", "INITIALIZATION_EPOCHS=10"], 1, 0),
        (["EPOCHS=20", "INITIALIZATIONS=1", "INITIALIZATION_EPOCHS=30"], 1, 0),
        (["EPOCHS=10", "INITIALIZATIONS=3", "INITIALIZATION_EPOCHS=3"], 3, 3),
    ],
)
def test_initializations_for_epochs_are_resolved(args, count, each):
    training = Settings.from_args(args).training
    assert training.initialization_count == count
    assert training.epochs_per_initialization == each
    assert training.initialization_phase_epochs == count * each
    assert training.main_phase_epochs == training.epochs - count * each
    assert training.main_phase_epochs >= 1


@pytest.mark.parametrize(
    ("args", "least"),
    [
        (["EPOCHS=9", "INITIALIZATIONS=3", "INITIALIZATION_EPOCHS=3"], "10"),
        (["EPOCHS=3", "INITIALIZATIONS=3"], "4"),
        (["EPOCHS=10", "INITIALIZATION_EPOCHS=10"], "21"),
    ],
)
def test_initializations_without_main_phase_are_refused(args, least):
    with pytest.raises(SettingsError) as error:
        Settings.from_args(args)
    for words in (args[0], "INITIALIZATIONS", "INITIALIZATION_EPOCHS", f"at least {least},"):
        assert words in str(error.value)


def test_training_group_alone_is_usable():
    training = TrainingSettings(batch=15, workers=3)
    assert training.global_batch == 15
    assert training.initialization_phase_epochs == 120


def test_continued_run_inherits_its_initializations():
    recorded = Settings.from_args(["EPOCHS=10"]).identity()
    longer = Settings.from_args(["EPOCHS=100"])
    assert longer.identity() != recorded
    assert longer.inherit_initializations(recorded).identity() == recorded
    explicit = Settings.from_args(["EPOCHS=100", "INITIALIZATIONS=4"])
    assert explicit.inherit_initializations(recorded).training.initialization_count == 4
    single = Settings.from_args(["EPOCHS=1"]).identity()
    assert longer.inherit_initializations(single).identity() == single
    with pytest.raises(SettingsError, match="EPOCHS=5"):
        Settings.from_args(["EPOCHS=5"]).inherit_initializations(recorded)


# Identity.


def test_fingerprint_of_equal_weights_is_equal():
    one = Settings.from_args(["EPOCHS=200", "WORKERS=1", "VERBOSE=1", "RUN=a"])
    other = Settings.from_args(["EPOCHS=400", "WORKERS=3", "PROFILE_STEPS=1:2", "RUN=b"])
    assert one.fingerprint() == other.fingerprint()


@pytest.mark.parametrize("args", [["SEED=1"], ["QUBITS=9"], ["BATCH=32"], ["LEARNING_RATE=0.01"],
                                  ["PARTITIONS=8"], ["EPOCHS=10"],
                                  ["INITIALIZATIONS=2"]])  # fmt: skip
def test_fingerprint_of_other_weights_differs(args):
    assert Settings.from_args(args).fingerprint() != Settings.from_args([]).fingerprint()


def test_fingerprint_of_resolved_values_is_equal():
    default = Settings.from_args([]).fingerprint()
    for args in (["BATCH=64"], ["INITIALIZATIONS=8"],
                 ["INITIALIZATIONS=8", "INITIALIZATION_EPOCHS=15"]):  # fmt: skip
        assert Settings.from_args(args).fingerprint() == default


def test_identity_has_the_recorded_names():
    training = ("batch", "learning_rate", "loss", "initializations", "initialization_epochs",
                "prune", "reproducible", "micro_batch")  # fmt: skip
    identity = Settings.from_args([]).identity()
    assert set(identity) == {*MODEL, *DATA, *training} - {"data_memory", "device"}
    assert identity["batch"] == 64
    assert identity["initializations"] == 8
    assert identity["initialization_epochs"] == 15


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["EPOCHS=1"],
        ["EPOCHS=10"],
        ["EPOCHS=5000", "INITIALIZATIONS=100", "INITIALIZATION_EPOCHS=20"],
        ["BATCH=1", "WORKERS=1"],
        ["PARTITIONS=1", "WORKERS=1"],
        ["CLASSES=a,b", "LEARNING_RATE=1e-4"],
    ],
)
def test_from_record_of_an_identity_round_trips(args, monkeypatch):
    settings = Settings.from_args(args)
    monkeypatch.setenv("QFLEET_SEED", "9")
    again = Settings.from_record(settings.identity() | {"no_setting": 1})
    assert again.identity() == settings.identity()
    assert again.fingerprint() == settings.fingerprint()


def test_from_record_of_a_wrong_value_raises():
    with pytest.raises(ValueError, match="qubits"):
        Settings.from_record({"qubits": 4097})


# Errors.


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["EPOCS=5"], "EPOCS is not a setting: did you mean EPOCHS?"),
        (["HEARTBEAT_FILE=/h"], "HEARTBEAT_FILE is not a setting: qfleet chooses"),
        (["xyzzy=5"], "--help list all settings"),
        (["epochs"], "NAME=value"),
        (["--epochs"], "--epochs needs a value: a whole number from 1 to 1,000,000"),
        (["EPOCHS=0"], "EPOCHS=0 is not allowed: EPOCHS is a whole number from 1 to 1,000,000"),
        (["WORKERS=-1"], "WORKERS=-1 is not allowed"),
        (["WORKERS=1_0"], "WORKERS=1_0 is not allowed"),
        (["LEARNING_RATE=0.0_1"], "LEARNING_RATE=0.0_1 is not allowed"),
        (["DEADLINE=2h"], "to 31,536,000, in seconds"),
        (["RUN=../x"], "RUN is lower-case letters"),
        (["STATE_SHARDS=3"], "set STATE_SHARDS to 2 or 4"),
        (["STATE_SHARDS=4", "WORKERS=6"], "a multiple of 4"),
        (["WORKERS=65"], "PARTITIONS=64"),
        (["WORKERS=6", "PARTITIONS=2", "STATE_SHARDS=2"], "4 (PARTITIONS=2 groups of"),
        (["WORKERS=8", "BATCH=4"], "raise BATCH or lower WORKERS"),
        (["BATCH=32", "REPRODUCIBLE=true", "MICRO_BATCH=33"], "is more than BATCH=32"),
        (["PROFILE_STEPS=9:3"], "PROFILE_STEPS is first:last"),
        (["LAYERS=1", "MODEL=qcnn"], "omit LAYERS, or use MODEL=hybrid"),
        (["LAYERS=4"], "LAYERS=4 is more than 3"),
        (["QUBITS=4097"], "QUBITS is a whole number from 1 to 4,096"),
        (["METHOD=tensor_network", "SIMULATOR=tensorflow"], "omit METHOD"),
        (["METHOD=subspace", "STATE_SHARDS=2", "WORKERS=2"], "METHOD=subspace can't be used"),
    ],
)
def test_wrong_argument_raises_one_sentence(args, words):
    with pytest.raises(SettingsError) as error:
        Settings.from_args(args)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "setting"), SUGGESTED.items())
def test_unknown_name_suggests_the_setting(name, setting, tmp_path, monkeypatch):
    expected = rf"not a setting: did you mean {setting.upper()}\?"
    with pytest.raises(SettingsError, match=expected):
        Settings.from_args([f"{name.upper()}=1"])
    file = tmp_path / "mine.yaml"
    file.write_text(f"{name}: 1\n")
    with pytest.raises(SettingsError, match=expected):
        Settings.from_args([f"CONFIG={file}"])
    monkeypatch.setenv(f"QFLEET_{name.upper()}", "1")
    with pytest.raises(SettingsError, match=expected):
        Settings.from_args([])


def test_unknown_variable_is_refused_by_name(monkeypatch):
    monkeypatch.setenv("QFLEET_EPOCS", "5")
    with pytest.raises(SettingsError, match=r"QFLEET_EPOCS in the environment .*EPOCHS"):
        Settings.from_args([])


def test_wrong_variable_is_refused_by_name(monkeypatch):
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
        (None, "is not a file"),
        ("seed: 3\nepochs: 4\nseed: 5\n", "seed is set twice"),
        ("seed: 1:30", "seed: 1:30 in"),
        ("seed: 0x10", "seed: 0x10 in"),
        ("epochs: [3]", "has several values"),
        ("epochs: {a: 3}", "has several values"),
        ("a: &a [x]\nb: *a", "alias (*)"),
        ("seed: !!python/object/apply:os.getpid []", "tag (!)"),
        ("seed: !!int 3", "tag (!)"),
        ("<<: {seed: 3}", "name: value"),
        ("seed: 3\n---\nseed: 4", "not a YAML file"),
        ("epochs: " + "[" * 50_000, "nested too deep"),
        ("? [a]\n: 3", "name: value"),
        ("x" * 2_000_000 + ": 1", "more than 1 MiB"),
        ("\x1b[31m: 1", "not a YAML file"),
        ('storage: "a\\eb"\nepochs: no', "epochs: no in"),
    ],
    ids=range(22),
)
def test_wrong_file_raises_one_sentence(tmp_path, text, words):
    file = tmp_path / "mine.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SettingsError) as error:
        Settings.from_args([f"CONFIG={file}"])
    assert words in str(error.value)
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)


def test_aliases_that_multiply_are_refused_at_once(tmp_path):
    file = tmp_path / "mine.yaml"
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    file.write_text("\n".join(lines))
    start = time.process_time()
    with pytest.raises(SettingsError, match="alias"):
        Settings.from_args([f"CONFIG={file}"])
    assert time.process_time() - start < 10


def test_file_has_the_values_of_the_command_line(tmp_path):
    lines = {"seed": "017", "learning_rate": "1e-3", "verbose": "on", "classes": "1,8", "run": "7",
             "label_column": "yes", "train_examples": "~", "storage": "'null'"}  # fmt: skip
    file = tmp_path / "mine.yaml"
    file.write_text("".join(f"{name}: {value}\n" for name, value in lines.items()))
    given = {**lines, "train_examples": "", "storage": "null"}
    expected = Settings.from_args([f"{name}={value}" for name, value in given.items()])
    read = Settings.from_args([f"CONFIG={file}"])
    assert read.replace(config=None) == expected.replace(config=None)
    assert read.data.seed == 17
    assert read.job.run == "7"


# Scopes: the literal sets are the contracts of launch/ and planning/.


def test_scope_worker_is_all_but_cluster_and_client():
    excluded = {"target", "storage", "run", "config", "workers", "threads", "max_restarts"}
    assert {*names_in_scope(Scope.POD_SPEC), *names_in_scope(Scope.CLIENT)} == excluded
    fields = Settings.fields()
    cluster = {name for name, field in fields.items() if field.group in ("cluster", "slurm")}
    commands = INFERENCE
    assert set(names_in_scope(Scope.WORKER)) == set(fields) - excluded - cluster - commands


def test_scope_pod_spec_is_set_by_the_manifest():
    assert set(names_in_scope(Scope.POD_SPEC)) == {
        "storage", "run", "workers", "threads",
    }  # fmt: skip


def test_scope_benchmark_pod_is_the_passed_groups():
    groups = {*MODEL, *DATA, *TRAINING, *CHECKPOINTING, *FAULT_TOLERANCE}
    excluded = {"workers", "threads", "min_workers", "elastic_after"}
    assert set(names_in_scope(Scope.BENCHMARK_POD)) == groups - excluded
    assert names_in_scope(Scope.BENCHMARK_ENV) == ("workers", "threads")


def test_scope_benchmark_holds_for_all_cases():
    assert names_in_scope(Scope.BENCHMARK) == (
        "model", "angles", "layers", "pooling", "activation", "filters", "simulator", "device",
        "method", "noise", "shots", "trajectories", "sampler", "gradient", "normalize_readouts",
        "task", "partitions", "seed", "rendezvous_timeout",
    )  # fmt: skip


def test_scope_group_is_what_identity_leaves_out():
    names = names_in_scope(Scope.GROUP)
    assert set(names) == {"state_shards", "epochs", "steps_per_call", "profile_steps"}
    assert not any(Settings.fields()[name].identity for name in names)


def test_scope_placement_is_context_to_priority():
    assert names_in_scope(Scope.PLACEMENT) == (
        "context", "namespace", "job_api", "overlay", "image", "cpu", "memory", "scratch", "queue",
        "queue_priority", "priority_class",
    )  # fmt: skip


def test_scope_profile_key_is_the_measured_pods():
    expected = {"target", "context", "namespace", "cpu", "image"}
    assert set(names_in_scope(Scope.PROFILE_KEY)) == expected


def test_scope_plan_file_is_all_but_planning():
    excluded = {"config", "study"}
    assert set(names_in_scope(Scope.PLAN_FILE)) == set(Settings.fields()) - excluded


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("QFLEET_EVENTS", "fd:9"),
        ("QFLEET_NUM_THREADS", "2"),
        ("QFLEET_HEARTBEAT_FILE", "/h"),
        ("QFLEET_JOB_ID", "j"),
        ("QFLEET_PROFILE_FOLDER", "/p"),
    ],
)
def test_environment_of_the_library_is_accepted(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert Settings.from_args([]) == Settings.from_values()


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (["MIN_WORKERS=3"], "MIN_WORKERS=3 is more than WORKERS=2"),
        (["MIN_WORKERS=3", "WORKERS=4", "STATE_SHARDS=2"], "MIN_WORKERS=3 .*STATE_SHARDS=2"),
        (["MIN_WORKERS=0"], "MIN_WORKERS is a whole number from 1 to WORKERS"),
        (["PEER_TIMEOUT=4"], "PEER_TIMEOUT is a whole number from 5 to 600"),
    ],
)
def test_impossible_limits_of_the_group_are_refused(args, names):
    with pytest.raises(SettingsError, match=names):
        Settings.from_args(args)


def test_min_workers_with_automatic_workers_is_accepted():
    assert Settings.from_args(["WORKERS=auto", "MIN_WORKERS=3"]).training.min_workers == 3


def test_misspelled_choice_of_each_setting_is_suggested():
    listed = {name: field for name, field in Settings.fields().items() if field.choices}
    assert {"model", "task", "loss", "zne_fit", "target", "verbose"} <= set(listed)
    for name, field in listed.items():
        for choice in field.choices:
            wrong = f"{choice[:-1]}_{choice[-1]}" if name == "model" else f"{choice},"
            with pytest.raises(SettingsError, match=rf"did you mean {choice}\?$"):
                Settings.from_args([f"{name.upper()}={wrong}"])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("MODEL=hybird", "hybrid"),
        ("MODEL=HYBRID", "hybrid"),
        ("LOSS=mse", "mean_squared_error"),
        ("MODEL=my_model.py", "my_model:build"),
        ("MODEL=./models/net.py:make", "models.net:make"),
        ("SAMPLER=device.py", "device:build"),
        ("MODEL=own", "own:build"),
        ("MODEL=own.make", "own:make"),
        ("NOISE=depolarising:0.1", "depolarizing"),
        ("NOISE=nome", "none"),
    ],
)
def test_similar_value_is_suggested(given, wanted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").touch()
    with pytest.raises(SettingsError, match=rf"did you mean {wanted}\?$"):
        Settings.from_args([given])


@pytest.mark.parametrize("name", ["GPU", "gpus", "PLATFORM"])
def test_name_of_another_program_is_no_misspelling(name):
    with pytest.raises(SettingsError) as error:
        Settings.from_args([f"{name}=1"])
    assert "did you mean" not in str(error.value)
