"""Defaults of MODEL and QUBITS that follow TASK and DATA, and where they are used."""

import pytest

from common.settings import Settings
from common.settings.programs import POD_SETTINGS
from launch.job_parts import settings_map
from planning import plan_file
from planning.costs import MachineMemory, WorkerOption

HERE = MachineMemory(cores=2, memory_bytes=1 << 30, dedicated=False)


@pytest.mark.parametrize(
    ("args", "model", "qubits"),
    [
        ([], "hybrid", 8),
        (["TASK=regression"], "hybrid", 8),
        (["TASK=energy"], "hardware-efficient", 8),
        (["TASK=state", "DATA=w"], "hardware-efficient", 8),
        (["TASK=energy", "MODEL=uccsd", "DATA=h2:0.74"], "uccsd", 4),
        (["TASK=energy", "DATA=lih:1.6"], "hardware-efficient", 12),
        (["TASK=energy", "DATA=lih-frozen:1.5,1.6"], "hardware-efficient", 10),
        (["TASK=energy", "DATA=h2o:0.96"], "hardware-efficient", 8),
        (["TASK=energy", "DATA=tfim:3:0.5..1.5/4"], "hardware-efficient", 3),
        (["TASK=energy", "DATA=heisenberg:11", "QUBITS=5"], "hardware-efficient", 5),
        (["TASK=energy", "DATA=ham.txt"], "hardware-efficient", 3),
        (["TASK=energy", "DATA=gs://b/ham.txt"], "hardware-efficient", 8),
        (["TASK=energy", "DATA=tfim:x:1"], "hardware-efficient", 8),
    ],
)
def test_default_model_and_qubits_fit_the_task(args, model, qubits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ham.txt").write_text("0.5 [X0 Z2] + 1.0 [Z1]")
    settings = Settings.from_args(args, "train")
    assert (settings.model.model, settings.model.qubits) == (model, qubits)
    given = {arg.partition("=")[0].lower() for arg in args}
    assert settings.explicit == given  # inference compares what is explicit with the run
    assert Settings.from_args(settings.to_args()) == settings
    recorded = Settings.from_record(settings.identity()).model
    assert (recorded.model, recorded.qubits) == (model, qubits)


def test_default_of_the_task_reaches_pods_and_plans():
    settings = Settings.from_values(task="energy", data="tfim:3:1")
    maps = {name: settings_map(name, settings)["data"] for name in POD_SETTINGS}
    assert maps["training"]["QFLEET_MODEL"] == "hardware-efficient"
    assert maps["training"]["QFLEET_QUBITS"] == "3"
    assert not {"QFLEET_MODEL", "QFLEET_QUBITS"} & maps["inference"].keys()
    values = plan_file.apply_plan(settings, WorkerOption(1, 8, 1), HERE)
    assert (values["model"], values["qubits"]) == ("hardware-efficient", 3)
