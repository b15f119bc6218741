"""The settings that each program uses: the table against the code, and the refusals."""

import re
import shlex
from pathlib import Path

import pytest

from common.errors import SettingsError
from common.settings import DataSettings, Scope, Settings, names_in_scope
from common.settings.conditions import CONDITIONS
from common.settings.options import OPTIONS, option_fields
from common.settings.programs import (
    POD_SETTINGS,
    PROGRAMS,
    REFUSED,
    used_anywhere,
    used_by,
)
from common.settings.sources import last_of_each
from studies.definition import StudyDefinition
from tests.support.setting_reads import settings_read_by

ROOT = Path(__file__).parents[2]
CLIENT, SLURM = "launch.commands.", "launch.slurm.commands"
STUDY = ("studies.__main__", "main")
FLEET = ("planning.fleet.__main__", "main")
SEARCH = ("studies.search.__main__", "main")
SLURM_WORKER, WORKER = ("training.launcher.slurm_task", "main"), ("training.worker", "main")

CODE = {
    ("train", "local"): [("training.__main__", "main")],
    ("train", "k8s"): [(f"{CLIENT}run", "run"), WORKER],
    ("train", "slurm"): [(SLURM, "run"), SLURM_WORKER],
    ("infer", "local"): [("inference.__main__", "main")],
    ("infer", "k8s"): [(f"{CLIENT}infer", "infer"), ("inference.worker", "main")],
    ("study", "local"): [STUDY, ("training.__main__", "main")],
    ("study", "k8s"): [STUDY, (f"{CLIENT}run", "run")],
    ("study", "slurm"): [STUDY, SLURM_WORKER],
    **{("search", one): [SEARCH] for one in ("local", "slurm")},
    ("search", "k8s"): [SEARCH, (f"{CLIENT}search", "search")],
    **{("plan", one): [("planning.__main__", "main")] for one in PROGRAMS["plan"]},
    **{("fleet", one): [FLEET] for one in PROGRAMS["fleet"]},
    ("data", "any"): [("common.data.__main__", "main")],
    ("runs", "any"): [("cli.runs", "main")],
    ("tensorboard", "local"): [("launch.tensorboard_launcher", "main")],
    ("tensorboard", "k8s"): [(f"{CLIENT}tensorboard", "tensorboard")],
    ("cluster manifests", "any"): [("launch.manifests", "main")],
    ("cluster render", "k8s"): [(f"{CLIENT}render", "render")],
    ("cluster check", "k8s"): [(f"{CLIENT}check", "check"), WORKER],
    ("cluster status", "k8s"): [(f"{CLIENT}status", "status")],
    ("cluster status", "slurm"): [(SLURM, "status")],
    ("cluster logs", "k8s"): [(f"{CLIENT}logs", "logs")],
    ("cluster logs", "slurm"): [(SLURM, "logs")],
    ("cluster stop", "k8s"): [(f"{CLIENT}stop", "stop")],
    ("cluster stop", "slurm"): [(SLURM, "stop")],
    ("cluster list", "k8s"): [(f"{CLIENT}status", "list_jobs")],
    ("cluster list", "slurm"): [(SLURM, "list_jobs")],
    ("cluster delete", "k8s"): [(f"{CLIENT}stop", "delete")],
    ("report", "local"): [("cli.report", "main")],
}  # fmt: skip
"""Program and TARGET -> the functions that run there."""

SELECTING = {"config", "target"}
"""Settings that `Settings.from_args` and the Makefile read."""

ALL_PARTS = used_anywhere("cluster manifests")
"""Settings that the manifests of all parts read: a command renders the manifests of one part."""

RECORDED = {
    "epochs", "initialization_epochs", "initializations", "learning_rate", "loss", "min_workers",
    "prune", "workers",
}  # fmt: skip

DEFAULTS = {"angles", "model", "loss", *names_in_scope(Scope.POD_SPEC), "state_shards",
            "batch", "min_workers", "prune"}  # fmt: skip
"""Checks of a training, which a data set has to pass with the defaults."""

TRAINED = {"device", "gradient", "method", "ports", "reproducible", "sampler", "shots",
           "simulator", "trajectories", "workers_per_node"}  # fmt: skip
"""Settings in the script of Slurm for a training, on which that of a search is built."""

READ_OTHERWISE = {
    "train": ALL_PARTS,
    "infer": RECORDED | ALL_PARTS,
    "study": ALL_PARTS,
    "plan": {*names_in_scope(Scope.PLAN_FILE)},  # the file is for all programs
    "fleet": {"prune", "reproducible"},
    "data": DEFAULTS,
    "runs": {"model", "qubits", "task"},  # of the listed runs
    "search": {*DataSettings.model_fields, *DEFAULTS, *TRAINED} | ALL_PARTS,  # TASK=energy refuses
    "tensorboard": ALL_PARTS,
    "cluster check": ALL_PARTS,
    "cluster status": ALL_PARTS,
    "cluster logs": ALL_PARTS,
    "report": RECORDED | ALL_PARTS,
}  # fmt: skip
"""Settings that a program's code reads, but not as given on its command line."""


def read_by(program: str, target: str) -> set[str]:
    # A step benchmark gets the settings of Scope.BENCHMARK only.
    found = [settings_read_by(*one, without=["training.benchmark.worker"])
             for one in CODE[program, target]]  # fmt: skip
    return set().union(*found)


def test_table_of_programs_has_code_for_each():
    assert CODE.keys() == {(name, one) for name, targets in PROGRAMS.items() for one in targets}


@pytest.mark.parametrize(("program", "target"), CODE)
def test_used_settings_are_those_that_the_code_reads(program, target):
    read = read_by(program, target)
    assert set(PROGRAMS[program][target]) - SELECTING <= read
    assert read <= used_anywhere(program) | READ_OTHERWISE.get(program, set())


def test_pod_gets_the_settings_that_its_worker_reads():
    own = {*names_in_scope(Scope.POD_SPEC), "target"}
    assert set(settings_read_by(*WORKER)) - own == POD_SETTINGS["training"]
    inference = set(settings_read_by("inference.worker"))
    assert POD_SETTINGS["inference"] <= inference <= POD_SETTINGS["inference"] | own | RECORDED


@pytest.mark.parametrize(
    ("program", "args", "words"),
    [
        ("train", ["PARTITION=4"], ["TARGET=slurm", "mean PARTITIONS?"]),
        ("train", ["TIME_LIMIT=5"], ["TARGET=slurm", "mean DEADLINE?"]),
        ("train", ["CPU=4"], ["TARGET=k8s or slurm"]),
        ("train", ["MAX_RESTARTS=4", "TARGET=k8s"], ["TARGET=local"]),
        ("train", ["QUEUE=team", "TARGET=slurm"], ["TARGET=k8s"]),
        ("train", ["ZNE=1,3,5"], ["make inference"]),
        ("train", ["EARLY_STOPPING=halving"], ["make study"]),
        ("train", ["--filters", "5"], ["MODEL=multi-filter"]),
        ("train", ["KEEP_BEST=true", "MODEL=kernel"], ["MODEL other than kernel"]),
        ("train", ["PROFILER_PORT=2223", "MODEL=kernel"], ["MODEL other than kernel"]),
        ("train", ["BATCH=8", "TASK=gate", "QUBITS=1", "DATA=x"], ["TASK other than gate"]),
        ("train", ["INITIALIZATION_EPOCHS=2", "MODEL=kernel"], ["MODEL other than kernel"]),
        ("train", ["ACTIVATION=relu", "MODEL=pulse", "TASK=energy"], ["TASK=classification"]),
        ("train", ["LABEL_COLUMN=kind"], ["DATA="]),
        ("train", ["PRICE_PER_WORKER_HOUR=2"], ["make study"]),
        ("infer", ["EPOCHS=5"], ["make training"]),
        ("infer", ["ZNE_FIT=linear"], ["with ZNE"]),
        ("train", ["QUICK=1"], ["make plan", "make fleet"]),
        ("study", ["COMPARE=a,b"], ["make runs"]),
        ("plan", ["PREEMPTION_RATE=0.1"], ["make fleet"]),
        ("", ["PROMOTE=a"], ["command"]),
        ("runs", ["INPUT=x.csv"], ["make inference"]),
        ("data", ["WORKERS=4"], ["make training"]),
        ("fleet", ["LEARNING_RATE=0.2"], ["make training"]),
        ("tensorboard", ["EPOCHS=3"], ["make training"]),
        ("tensorboard", ["RUN=a", "TARGET=k8s"], ["TARGET=local"]),
        ("tensorboard", ["HOST=::1", "TARGET=k8s"], ["TARGET=local"]),
        ("train", ["PORT=5001"], ["make tensorboard", "RENDEZVOUS_PORT?"]),
        ("cluster stop", ["MEMORY=4Gi", "TARGET=k8s"], ["make training"]),
    ],
)  # fmt: skip
def test_argument_that_is_not_used_is_refused(program, args, words):
    with pytest.raises(SettingsError) as error:
        Settings.from_args(args, program)
    name = args[0].partition("=")[0].removeprefix("--").upper()
    assert all(word in str(error.value) for word in [name, *words])


@pytest.mark.parametrize("program", PROGRAMS)
def test_shared_source_with_other_settings_is_accepted(program, tmp_path, monkeypatch):
    file = tmp_path / "mine.yaml"
    file.write_text("zne: 1,3\ncompare: a,b\nfilters: 2\npartition: gpu\n")
    monkeypatch.setenv("QFLEET_TRIALS", "4")
    settings = Settings.from_args([f"CONFIG={file}", "EARLY_STOPPING="], program)
    assert settings.inference.zne == "1,3"


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("runs", ["YES=1"]),
        ("runs", ["PROMOTE=a"]),
        ("runs", ["COMPARE=a,b", "DELETE=c"]),
        ("runs", ["PROMOTE=a", "AS=A!"]),
        ("runs", ["PAGE=a.html"]),
        ("runs", ["PAGE=a.csv", "COMPARE=a,b"]),
        ("runs", ["STORE=mlruns"]),
        ("runs", ["TO=tensorboard", "EXPORT=a"]),
        ("fleet", ["RESTART_SECONDS=soon"]),
        ("plan", ["APPLY=perhaps"]),
    ],
)
def test_option_of_a_command_that_is_wrong_is_refused(program, arguments):
    with pytest.raises(SettingsError) as error:
        Settings.with_options(arguments, program, OPTIONS[program])
    assert arguments[0].partition("=")[0] in str(error.value) or "AS" in str(error.value)


@pytest.mark.parametrize("program", OPTIONS)
def test_option_is_in_help_of_its_command_only(program, capsys):
    shared = {"budget", "price_per_worker_hour", "quick", "early_stopping", "reduction_factor"}
    shared |= REFUSED.get(program, set())
    own = {one.variable for name, one in option_fields(program).items() if name not in shared}
    for other in ("train", *OPTIONS):
        with pytest.raises(SystemExit):
            Settings.from_args(["--help"], other)
        words = capsys.readouterr().out.split()
        assert own <= {*words} if other == program else not own & {*words}


def test_option_in_a_shared_source_is_read_by_its_command(tmp_path, monkeypatch):
    file = tmp_path / "mine.yaml"
    file.write_text("preemption_rate: 0.5\nqubits: 9\n")
    monkeypatch.setenv("QFLEET_RESTART_SECONDS", "7")
    args = [f"CONFIG={file}", "STEP_TIME_CV=0.1"]
    settings, options = Settings.with_options(args, "fleet", OPTIONS["fleet"])
    values = (options.preemption_rate, options.restart_seconds, options.step_time_cv)
    assert (settings.model.qubits, values) == (9, (0.5, 7.0, 0.1))
    assert Settings.from_args(settings.to_args()) == settings.replace(config=None)


def test_to_args_of_internal_calls_stays_accepted():
    settings = Settings.from_args(["TARGET=slurm", "PARTITION=x", "SEED=3"], "train")
    assert Settings.from_args(settings.to_args()) == settings


def test_trial_gets_only_settings_of_a_training(monkeypatch):
    monkeypatch.setenv("QFLEET_ZNE", "1,3")
    args = ["NAME=s", "MODEL=hybrid,multi-filter", "FILTERS=2", "PARALLELISM=3", "BUDGET=2h"]
    study = StudyDefinition.from_args([*args, "PRICE_PER_WORKER_HOUR=2"])
    trials = [study.trial_args(number, {"model": model})
              for number, model in enumerate(("hybrid", "multi-filter"))]  # fmt: skip
    assert [f"--filters={2}" in trial for trial in trials] == [False, True]
    for trial in trials:
        assert Settings.from_args(trial, "train").job.study == "s"


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (lambda: Settings.from_args(["run=a", "RUN=b"], "train"), "RUN"),
        (lambda: Settings.from_args(["--seed", "1", "SEED="], "runs"), "SEED"),
        (lambda: StudyDefinition.from_args(["NAME=s", "SEED=1", "SEEDS=2,3"]), "SEED"),
    ],
)
def test_two_values_of_a_setting_are_refused(read, name):
    with pytest.raises(SettingsError, match=f"^{name}"):
        read()
    Settings.from_args(["RUN=b", "run=b"], "train")


def test_defaults_before_given_values_leave_one_of_each():
    assert last_of_each(["run", "RUN=a", "RUN=b"]) == ["run", "RUN=b"]  # a word is not a setting
    args = ["EPOCHS=300", "SEED=1", "--epochs=9"]
    assert Settings.from_args(last_of_each(args), "train").training.epochs == 9


def test_epochs_of_the_only_initialization_are_refused():
    args = ["INITIALIZATIONS=1", "INITIALIZATION_EPOCHS=5"]
    with pytest.raises(SettingsError, match="INITIALIZATIONS above 1"):
        Settings.from_args(args, "train")
    Settings.from_args(args[1:], "train")


def test_condition_of_each_setting_can_hold():
    values = {"model": "multi-filter", "reproducible": True, "min_workers": 1, "queue": "q",
              "zne": "1,3", "data": "x.csv"}  # fmt: skip
    energy = Settings.from_values(task="energy", model="uccsd", data="x.json", min_workers=1)
    used = used_by("train", "k8s", Settings.from_values(**values)) | used_by("train", "k8s", energy)
    used |= used_by("runs", "any", Settings.from_values())
    used |= used_by("infer", "local", Settings.from_values(zne="1,3"))
    assert CONDITIONS.keys() <= used


COMMAND = re.compile(r"^ *\$? *make ([a-z-]+) (.*)$|`make ([a-z-]+) ([^`]*)`", re.MULTILINE)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda page: page.name
)
def test_documented_command_gives_used_settings(page):
    """Settings with values of a study, or placeholders, are compared by name only."""
    for one in COMMAND.finditer(page.read_text(encoding="utf-8")):
        program, text = f"make {one[1] or one[3]}", one[2] or one[4]
        if program not in PROGRAMS or "SETTING" in text:
            continue
        words = [word.partition("=") for word in shlex.split(text.split("#")[0].split(" && ")[0])]
        names = {name.lower().replace("name", "study") for name, equals, _ in words if equals}
        names = {{"seeds": "seed", "as": "alias"}.get(name, name) for name in names}
        target = next((value for name, _, value in words if name == "TARGET"), "local")
        by_target = PROGRAMS[program]
        used = by_target.get("any", by_target.get(target, used_anywhere(program)))
        unused = names - used - option_fields(program).keys()
        assert not unused, one[0]
