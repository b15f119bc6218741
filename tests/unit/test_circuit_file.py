"""MODEL as the file of a circuit: what is read, recorded and refused."""

import json
from pathlib import Path

import cirq
import pytest
import sympy

from common import start_check
from common.data.target import Target
from common.errors import SettingsError
from common.models.ansatz import ansatz_circuit
from common.settings import Settings, circuit_file
from common.settings.circuit_file import short_model

A, B = cirq.LineQubit.range(2)
ENERGY = ("TASK=energy", "DATA=tfim:2:1.0")
TARGET = Target("energy", "energy", terms=("II", "ZZ"), coefficients=(0.0, 1.0))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a file of a circuit to the current folder."""
    monkeypatch.chdir(tmp_path)
    turn = sympy.Symbol("turn")
    circuit = cirq.Circuit(cirq.ry(turn)(A), cirq.CNOT(A, B), cirq.rz(-turn / 2)(B))
    content = {
        "format": 1, "name": "s-0", "circuit": json.loads(cirq.to_json(circuit)),
        "angles": {"turn": 0.25}, "origin": {"search": "s", "seed": 3, "error": 0.1},
    }  # fmt: skip
    Path("0.model.json").write_text(json.dumps(content))
    return "0.model.json"


def change(file: str, **values: object) -> None:
    content = json.loads(Path(file).read_text())
    Path(file).write_text(json.dumps({**content, **values}))


def test_model_is_the_circuit_of_a_file_with_its_angles(file: str) -> None:
    settings = Settings.from_args([*ENERGY, f"MODEL={file}"], "train")
    Path(file).unlink()  # nothing reads it again
    again = Settings.from_record(settings.identity())
    assert (settings.run_name, short_model(again.model.model)) == ("s-0", "s-0")
    circuit = ansatz_circuit(Settings.from_args(settings.to_args()), TARGET)
    assert (circuit.parameters, circuit.initial) == (("turn",), (0.25,))
    assert [str(one) for one in circuit.observables] == ["1.000*Z(q(0))*Z(q(1))"]
    origin = circuit_file.origin_of(again.model.model)
    assert origin == {"search": "s", "search_seed": 3, "search_error": 0.1}


def test_other_models_have_no_origin() -> None:
    assert circuit_file.origin_of("hardware-efficient") == {}
    assert short_model("my_model:build") == "my_model:build"


@pytest.mark.parametrize(
    ("changes", "qubits", "word"),
    [
        ({"angles": {"turn": 0.1, "other": 0.2}}, 2, "other symbols"),
        ({"circuit": {"cirq_type": "Circuit"}}, 2, "can't be read"),
        ({}, 3, "circuit of 2 qubits"),
    ],
)
def test_circuit_that_does_not_fit_is_refused(file: str, changes, qubits, word) -> None:
    change(file, **changes)
    args = ("TASK=energy", f"DATA=tfim:{qubits}:1.0", f"MODEL={file}")
    settings = Settings.from_args(args, "train")
    with pytest.raises(SettingsError, match=word):
        ansatz_circuit(settings, TARGET)


def test_circuit_of_another_width_is_refused_at_the_start(file: str) -> None:
    settings = Settings.from_args(["TASK=energy", "DATA=tfim:3:1.0", f"MODEL={file}"])
    with pytest.raises(SettingsError, match="QUBITS=3"):
        start_check.check(settings)


def test_circuit_that_is_too_large_is_refused(file: str) -> None:
    names = [f"{cirq.testing.random_unitary(2, random_state=n)[0, 0]}" for n in range(2000)]
    change(file, angles=dict.fromkeys(names, 0.1))
    with pytest.raises(SettingsError, match="fewer gates"):
        Settings.from_args([*ENERGY, f"MODEL={file}"], "train")


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["MODEL=none.json"], "MODEL=none.json can't be read"),
        (["MODEL=rubbish.json"], "it lacks"),
        (["MODEL=good.json", "TASK=classification", "DATA=excitations"], "TASK=classification"),
    ],
)
def test_model_file_that_does_not_fit_is_refused(tmp_path, monkeypatch, args, word) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rubbish.json").write_text("{}")
    content = {"format": 1, "name": "s-0", "circuit": {}, "angles": {}, "origin": {}}
    Path("good.json").write_text(json.dumps(content))
    given = {one.partition("=")[0]: one for one in ("TASK=energy", "DATA=tfim:4:1.0", *args)}
    with pytest.raises(SettingsError) as error:
        Settings.from_args([*given.values()], "train")
    assert word in str(error.value)


@pytest.mark.parametrize("text", ["circuit/a/", "circuit/a/AAAA", "circuit/a/eJyrrgUAAXUA-Q=="])
def test_text_of_a_circuit_that_is_damaged_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="it "):
        circuit_file.read_circuit(text)
