"""SAMPLER: the user's factory, and errors in it."""

import sys
from pathlib import Path

import cirq
import pytest

from common.data.problems import energies
from common.errors import SettingsError
from common.models.samplers import sampler_arguments
from common.models.variational import build_variational_model
from common.settings import Settings
from launch.user_model import UserModel
from planning.workload_analysis import _analyze

SOURCE = """
import cirq

def build(settings):
    return cirq.Simulator(seed=settings.data.seed)

def wrong(settings):
    return 3

def failing(settings):
    raise KeyError("token")

def no_arguments():
    return cirq.Simulator()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_sampler.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_sampler", raising=False)
    return tmp_path


def arguments(name: str) -> dict:
    return sampler_arguments(Settings.from_args([f"SAMPLER={name}", "SHOTS=7"]))


def test_sampler_is_made_by_its_factory(folder: Path) -> None:
    found = arguments("my_sampler:build")
    assert isinstance(found["sampler"], cirq.Sampler)
    assert found["shots"] == 7
    assert sampler_arguments(Settings.from_args([])) == {}


def test_sampler_measures_the_energy(folder: Path) -> None:
    arguments = ["TASK=energy", "DATA=tfim:2:1", "MODEL=hardware-efficient", "QUBITS=2"]
    found = []
    for more in ([], ["SAMPLER=my_sampler:build", "SHOTS=10000"]):
        settings = Settings.from_args([*arguments, *more])
        splits, encoding = energies(settings.data, 2)
        rows = splits["test"].read(0, 1).angles
        model = build_variational_model(rows.shape[1], settings, encoding.target)
        found.append(float(model(rows)[0, 0]))
    assert found[1] != found[0]
    assert found[1] == pytest.approx(found[0], abs=0.1)


@pytest.mark.parametrize("name", ["wrong", "failing", "no_arguments", "absent"])
def test_wrong_sampler_is_one_sentence(folder: Path, name: str) -> None:
    with pytest.raises(SettingsError) as caught:
        arguments(f"my_sampler:{name}")
    message = str(caught.value)
    assert f"SAMPLER=my_sampler:{name}" in message
    assert "\n" not in message


def test_pods_mount_the_file_of_a_sampler(folder: Path) -> None:
    settings = Settings.from_args(["SAMPLER=my_sampler:build", "SHOTS=7", "TARGET=k8s"])
    files = UserModel.from_settings(settings)
    assert [mount["subPath"] for mount in files.mounts] == ["my_sampler.py"]
    (config,) = files.objects("r", "training")
    assert config["data"] == {"my_sampler.py": SOURCE}
    with pytest.raises(SettingsError, match="SAMPLER=absent:build"):
        UserModel.from_settings(Settings.from_args(["SAMPLER=absent:build", "SHOTS=7"]))


def test_files_too_large_for_a_config_map_are_refused(folder: Path) -> None:
    for name in ("my_sampler.py", "my_model.py"):
        (folder / name).write_text("def build(*arguments): ...\n" + "#" * 500_000)
    arguments = ["SAMPLER=my_sampler:build", "SHOTS=7", "MODEL=hybrid"]
    assert UserModel.from_settings(Settings.from_args(arguments)).files
    settings = Settings.from_args(arguments).replace(model="my_model:build")
    with pytest.raises(SettingsError, match="MODEL and SAMPLER"):
        UserModel.from_settings(settings)


def test_plan_of_a_sampler_with_noise_counts_gradients(folder: Path) -> None:
    state = ("TASK=state", "DATA=w", "MODEL=hardware-efficient", "QUBITS=2", "LAYERS=1")
    sampler = ("SAMPLER=my_sampler:build", "SHOTS=7", "NOISE=depolarizing:0.01")
    found = _analyze(Settings.from_args([*state, *sampler, f"STORAGE={folder}"]))
    assert found.backward_flops > 0
    assert found.fidelity is not None
