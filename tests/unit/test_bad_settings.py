"""A mistake of a user: one line that names the setting, exit code 2, and nothing is written."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from common.errors import run_main
from common.processes import tfq_environment
from common.settings import Settings
from common.settings.options import synonym_fields
from common.settings.programs import listed_fields, used_by
from planning import __main__ as plan
from studies import __main__ as study
from studies.search import __main__ as search
from studies.search import plan as search_plan
from tests.support.devices import made_up_device, write_device
from tests.support.training_processes import ROOT
from training import __main__ as train

TRAINING = {
    "train": (train.main, ("QUBITS=2", "EPOCHS=1")),
    "plan": (plan.main, ("QUBITS=2",)),
    "study": (study.main, ("NAME=s", "QUBITS=2", "EPOCHS=2", "LEARNING_RATE=0.1,0.2")),
}
ISING = ("NAME=s", "DATA=tfim:4:1.0", "BUDGET=40evaluations", "METHOD=random")
TABLE = ("NAME=s", "TASK=classification", "DATA=table.csv", "QUBITS=2", "BUDGET=40evaluations")
STATE = ("NAME=s", "TASK=state", "DATA=ghz", "QUBITS=3", "BUDGET=40evaluations")

OF_TRAINING = [
    ("NOISE=broken.yaml", "NOISE=broken.yaml"),
    ("NOISE=made_up.yaml QUBITS=7", "QUBITS=7"),
    ("TASK=energy DATA=tfim:4", "DATA=tfim:4"),
    ("TASK=energy DATA=tfim:x:1", "DATA=tfim:x:1"),
    ("TASK=energy DATA=broken.txt", "DATA=broken.txt"),
    ("TASK=energy DATA=none.txt", "DATA=none.txt"),
    ("TASK=state DATA=cat", "DATA=cat"),
    ("TASK=state DATA=none.npy", "DATA=none.npy"),
    ("DATA=none.csv", "DATA=none.csv"),
    ("DATA=empty.csv", "DATA=empty.csv"),
    ("DATA=table.csv LABEL_COLUMN=zz", "DATA=table.csv"),
    ("DATA=table.csv CLASSES=1,9", "CLASSES=1,9"),
    ("MODEL=nomodel", "MODEL=nomodel"),
    ("BATCH=0", "BATCH=0"),
]
OF_DATA = [
    *OF_TRAINING[-7:-2],
    ("TASK=gate DATA=cz", "TASK=gate"),
    ("QUBITS=25", "QUBITS=25"),
    ("NOISE=made_up.yaml QUBITS=6", "NOISE"),
    ("ENCODER=amplitude-norm", "ENCODER=amplitude"),
]
OF_ISING = [
    *OF_TRAINING[2:6],
    ("NOISE=made_up.yaml DATA=tfim:6:1.0", "NOISE=made_up"),
    ("NOISE=made_up.yaml DATA=h2o:0.96", "NOISE=made_up"),
    ("DATA=tfim:25:1.0", "DATA=tfim:25:1.0"),
    ("SPACE=none.json", "SPACE=none.json"),
    ("SPACE=layers:9999", "SPACE=layers:9999"),
    ("METHOD=evolution BUDGET=3evaluations", "BUDGET=3evaluations"),
    ("REDUCTION_FACTOR=3", "REDUCTION_FACTOR=3"),
]
OF_STATE = [
    ("DATA=cat", "DATA=cat"),
    ("DATA=random", "DATA=random"),
    ("DATA=none.npy", "DATA=none.npy"),
    ("QUBITS=12", "QUBITS=12"),
]
OF_STORAGE = [
    ("STORAGE=s3://bucket/x", "STORAGE=s3://bucket/x"),
    ("STORAGE=table.csv", "STORAGE=table.csv"),
    ("STORAGE=table.csv/new", "STORAGE=table.csv/new"),
    ("STORAGE=/proc/new", "STORAGE=/proc/new"),
]
OF_TRIALS = [
    ("METRIC=acuracy", "did you mean accuracy?"),
    ("METRIC=log_loss", "METRIC=log_loss"),
    ("METRIC=huber LOSS=huber,log_cosh EARLY_STOPPING=halving", "METRIC=huber"),
    ("METRIC=log_loss DATA=table.csv QUBITS=2", "METRIC=log_loss"),
    ("METRIC=accuracy TASK=energy DATA=tfim:2:1", "METRIC=accuracy"),
    ("DEVICE=cuda:99", "DEVICE=cuda:99"),
    ("TRAJECTORIES=5", "TRAJECTORIES=5"),
    ("SIMULATOR=tfq", "SIMULATOR=tfq"),
    ("QUBITS=40 METHOD=state_vector", "QUBITS"),
    ("STATE_SHARDS=2 WORKERS=2", "STATE_SHARDS=2"),
    ("METRIC=energy_error TASK=energy DATA=heisenberg:21 QUBITS=21", "METRIC=energy_error"),
]
OF_TEXT = {
    "config": "none.yaml",
    "data": "none.csv",
    "device": "cuda:99",
    "label_column": "none",
    "metric": "none",
    "noise": "none.yaml",
    "storage": "gcs://none",
}
"""Wrong values of the settings whose type allows any text."""

OF_SEARCH = [
    (base, *case)
    for base, cases in ((ISING, OF_ISING), (TABLE, OF_DATA), (STATE, OF_STATE))
    for case in cases
]


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., None]:
    """Return a function that checks a refusal by a program."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")  # no Slurm
    monkeypatch.setattr(tfq_environment, "FOLDER", tmp_path / "none")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # of processes that are started
    rows = "".join(f"{at % 7},{at % 5 + 1},{at % 2}\n" for at in range(90))
    Path("table.csv").write_text(f"a,b,label\n{rows}")
    Path("empty.csv").write_text("")
    Path("broken.txt").write_text("1.0 [Q0 Z1")
    Path("broken.yaml").write_text("qubits: 3\n")
    write_device(tmp_path, made_up_device(qubits=5))
    before = sorted(tmp_path.rglob("*"))

    def check(main: Callable[[], int | None], base: tuple[str, ...], args: str, name: str) -> None:
        given = {one.partition("=")[0]: one for one in (*base, *args.split())}
        monkeypatch.setattr(sys, "argv", ["program", *given.values()])
        assert run_main(main) == 2
        text = "".join(capfd.readouterr())
        assert text.count("\n") == 1, text
        assert name in text
        assert sorted(tmp_path.rglob("*")) == before

    return check


@pytest.mark.parametrize("command", TRAINING)
@pytest.mark.parametrize(("args", "name"), OF_TRAINING)
def test_mistake_ends_a_training(refused, command: str, args: str, name: str) -> None:
    refused(*TRAINING[command], args, name)


@pytest.mark.parametrize("main", [search.main, study.main], ids=["search", "study"])
def test_wrong_storage_ends_a_command(refused, main) -> None:
    base = ISING if main is search.main else TRAINING["study"][1]
    for args, name in OF_STORAGE:
        refused(main, base, args, name)


@pytest.mark.parametrize(("args", "name"), OF_TRIALS)
def test_mistake_of_a_trial_ends_a_study(refused, args: str, name: str) -> None:
    refused(*TRAINING["study"], args, name)


@pytest.mark.parametrize("command", ["train", "study"])
def test_states_without_room_end_before_the_start(refused, command: str) -> None:
    refused(*TRAINING[command], "QUBITS=40 MODEL=hybrid", "QUBITS")


def test_mistake_of_a_kernel_ends_a_study(refused) -> None:
    kernels = ("NAME=s", "QUBITS=2", "MODEL=kernel", "SEED=1,2")
    refused(study.main, kernels, "TRAIN_EXAMPLES=99999999", "TRAIN_EXAMPLES=")


@pytest.mark.parametrize(
    ("program", "main", "base"),
    [("study", study.main, (*TABLE[:-1], "EPOCHS=1")), ("search", search.main, TABLE)],
)
def test_each_setting_is_checked_before_the_start(refused, program: str, main, base) -> None:
    used = used_by(program, "local", Settings.from_args([])) | synonym_fields(program).keys()
    for name in sorted(used & listed_fields(program).keys()):
        refused(main, base, f"{name.upper()}={OF_TEXT.get(name, '§')}", name.upper())


@pytest.mark.parametrize("main", [search.main, search_plan.main], ids=["search", "plan"])
@pytest.mark.parametrize(("base", "args", "name"), OF_SEARCH)
def test_mistake_ends_a_search(refused, main, base, args: str, name: str) -> None:
    refused(main, base, args, name)


@pytest.mark.parametrize("main", [search.main, study.main], ids=["search", "study"])
def test_machine_without_slurm_ends_a_command(refused, main) -> None:
    base = ISING if main is search.main else TRAINING["study"][1]
    refused(main, base, "TARGET=slurm", "TARGET=slurm")
