"""No setting is accepted without an effect: a real training reads each one that it accepts."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from common import start_check
from common.errors import QfleetError
from common.settings import DataSettings, ModelSettings, Settings, TrainingSettings
from common.settings.groups.operations import MonitoringSettings
from common.settings.groups.training import CheckpointingSettings
from tests.support.ports import own_port

ROOT = Path(__file__).parents[2]

GROUPS = (DataSettings, ModelSettings, TrainingSettings, CheckpointingSettings, MonitoringSettings)

KINDS = {
    "labels": ["QUBITS=3"],
    "qcnn": ["MODEL=qcnn", "QUBITS=3"],
    "kernel": ["MODEL=kernel", "QUBITS=3"],
    "pulse": ["MODEL=pulse", "QUBITS=2"],
    "energy": ["TASK=energy", "DATA=h2:0.74"],
    "energy-pulse": ["TASK=energy", "DATA=h2:0.74", "MODEL=pulse"],
    "state": ["TASK=state", "DATA=ghz", "QUBITS=3"],
    "gate": ["TASK=gate", "DATA=x", "QUBITS=1", f"NOISE={ROOT}/examples/tasks/two_transmons.yaml"],
}

OTHER_VALUES = {
    "noise": "depolarizing:0.01",
    "shots": "10",
    "loss": "huber",
    "profile_steps": "1:2",
    "id_column": "id",
    "label_column": "kind",
    "class_weights": "balanced",
    "classes": "1,8",
    "device": "cpu",
    "method": "state_vector",
    "trajectories": "3",
    "min_workers": "1",
    "initializations": "2",
    "layers": "1",
    "learning_rate": "0.2",
    "prune": "0.5",
    "train_examples": "10",
    "validation_examples": "10",
    "test_examples": "10",
}
"""Values of settings whose other values do not follow from their type."""

SPECIAL = {
    "config", "data", "task", "model", "qubits",  # of the kind
    "simulator",  # other libraries
    "state_shards", "workers", "min_workers", "threads",  # of the launcher
    "log_upload_interval",  # of buckets
    "noise", "shots", "sampler", "trajectories", "gradient",  # are read together
}  # fmt: skip

TRACED = """
import sys
from common.settings.fields import SettingsGroup
read, get, path = set(), SettingsGroup.__getattribute__, sys.argv.pop(1)
def reader(frame):
    name = frame.f_globals["__name__"]
    is_property = name == "__main__" or name.startswith("common.settings.groups.")
    return reader(frame.f_back) if is_property and frame.f_back else name
def traced(self, name):
    if name in type(self).__dict__.get("__pydantic_fields__", ()) and name not in read:
        module = reader(sys._getframe(1))
        if module.startswith(("common.", "training.")) and not module.startswith("common.settings"):
            read.add(name)
            with open(path, "a") as file:
                file.write(name + "\\n")
    return get(self, name)
SettingsGroup.__getattribute__ = traced
from training.worker import exit_worker, main
exit_worker(main)
"""


def trained_reads(folder: Path, kind: str) -> set[str]:
    """Return the settings that a worker of a real training reads."""
    file = folder / "read.txt"
    steps = [] if kind == "kernel" else ["EPOCHS=1"]
    args = [f"STORAGE={folder}", "RUN=r", "WORKERS=1", f"RENDEZVOUS_PORT={own_port()}"]
    program = [sys.executable, "-c", TRACED, str(file), *args, *steps, *KINDS[kind]]
    environment = {name: value for name, value in os.environ.items() if "QFLEET" not in name}
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(file.read_text().split())


def accepted(kind: str) -> Iterator[str]:
    """Yield the settings of which a training of a kind accepts another value than the default."""
    for name, field in Settings.fields().items():
        if name in SPECIAL or not any(name in group.model_fields for group in GROUPS):
            continue
        default = Settings.from_args(KINDS[kind]).get(name)
        value = OTHER_VALUES.get(name)
        if value is None and field.choices:
            value = next(one for one in field.choices if one != default)
        if value is None:
            value = "true" if default is False else str(int(default or 1) + 1)
        try:
            start_check.check(
                Settings.from_args([*KINDS[kind], f"{name.upper()}={value}"], "train")
            )
        except QfleetError:
            continue
        yield name


@pytest.mark.parametrize("kind", KINDS)
def test_accepted_setting_is_read_by_the_training(kind: str, tmp_path: Path) -> None:
    read = trained_reads(tmp_path, kind)
    assert "seed" in read
    found = set(accepted(kind))
    assert found - read == set()
    assert found
