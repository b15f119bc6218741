"""The command `search`: its definition, its files and report, and what it refuses."""

import json
import os
import sys
from pathlib import Path

import cirq
import numpy as np
import pytest
import sympy

from common.errors import SettingsError, run_main
from common.settings import Settings, circuit_file
from qfleet.engine import memory
from qfleet.native.libraries import host_path
from qfleet.problems import named, target_states
from qfleet.search.qasm import from_qasm
from studies.search import __main__ as program
from studies.search.definition import SearchDefinition
from studies.search.stages import _sizes
from tests.support.devices import write_device

LINE = cirq.LineQubit.range(4)
ISING = ("NAME=s", "DATA=tfim:4:1.0")


def define(*args: str) -> SearchDefinition:
    return SearchDefinition.from_args([*ISING, *args])


def energy(circuit: cirq.Circuit) -> float:
    state = cirq.Simulator(dtype=np.complex128).simulate(circuit, qubit_order=LINE)
    problem = next(named("tfim:4:1.0").members()).pauli_sum()
    places = {one: at for at, one in enumerate(LINE)}
    return float(problem.expectation_from_state_vector(state.final_state_vector, places).real)


@pytest.fixture
def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the command in a folder; return its exit code."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> int:
        monkeypatch.setattr(sys, "argv", ["search", *args])
        return run_main(program.main)

    return run


def test_definition_has_seeds_budget_and_default_space() -> None:
    one = define("SEEDS=0..2", "BUDGET=2min,500evaluations", "METHOD=growth")
    assert (one.name, one.seeds, one.space) == ("s", (0, 1, 2), "blocks")
    assert (one.budget.seconds, one.budget.evaluations) == (120, 500)
    assert one.options.proposer == "growth"
    assert one.settings.model.qubits == 4
    assert define("OBJECTIVES=two_qubit_gates,error").to_json() == define().to_json()


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["NAME="], "NAME"),
        (["NAME=A!"], "NAME=A!"),
        (["SEEDS=0,0"], "SEED"),
        (["SEEDS=x"], "SEED"),
        (["TASK=classification", "DATA=t.csv", "METHOD=adapt"], "METHOD=adapt"),
        (["TASK=regression", "DATA=t.csv", "SPACE=blocks"], "SPACE=blocks"),
        (["METHOD=evolution:8"], "METHOD=evolution"),
        (["TASK=regression", "DATA=t.csv", "METHOD=pruning:8"], "METHOD=pruning:8"),
        (["METHOD=grwoth"], "did you mean growth?"),
        (["METHOD='"], "METHOD"),
        (["SPACE=ring"], "SPACE=ring"),
        (["SPACE=layers:0"], "SPACE=layers:0"),
        (["BUDGET=soon"], "BUDGET=soon"),
        (["BUDGET=0s"], "BUDGET=0s"),
        (["BUDGET=1s,2min"], "BUDGET"),
        (["BUDGET=5money"], "PRICE_PER_WORKER_HOUR"),
        (["NOISE=depolarizing:0.1"], "NOISE"),
        (["STORAGE=gs://bucket/runs", "TARGET=slurm"], "STORAGE"),
        (["TARGET=k8s", "SPACE=own.json"], "SPACE=own.json"),
        (["TARGET=k8s", "METHOD=bash propose.sh"], "METHOD=bash"),
        (["OBJECTIVES=depth"], "OBJECTIVES=error,depth"),
        (["OBJECTIVES=error,size"], "OBJECTIVES"),
        (["OBJECTIVES=error,duration"], "NOISE"),
        (["REDUCTION_FACTOR=3"], "EARLY_STOPPING=halving"),
        (["SPACE=mps", "METHOD=growth"], "METHOD=growth"),
        (["PARTITION=long"], "TARGET=slurm"),
        (["MIN_WORKERS=2"], "MIN_WORKERS"),
        (["TRIALS=2"], "TRIALS"),
    ],
)
def test_definition_that_is_wrong_names_the_setting(args: list[str], word: str) -> None:
    given = {one.partition("=")[0]: one for one in (*ISING, *args)}
    with pytest.raises(SettingsError) as error:
        SearchDefinition.from_args([*given.values()])
    assert word in str(error.value)


def test_search_writes_a_front_circuits_and_a_report(searched, capsys) -> None:
    args = (*ISING, "METHOD=growth", "BUDGET=400evaluations", "SEEDS=0,1")
    assert searched(*args) == 0
    output = capsys.readouterr().out
    assert "Pareto front" in output
    assert "TASK=energy DATA=tfim:4:1.0 MODEL=runs/searches/s/circuits/0.model.json" in output
    folder = Path("runs/searches/s")
    front = json.loads((folder / "front.json").read_text())
    assert [one["error"] for one in front] == sorted(one["error"] for one in front)
    for one in front:
        stem = folder / "circuits" / str(one["number"])
        circuit = cirq.read_json(stem.with_suffix(".json"))
        assert energy(circuit) == pytest.approx(one["energy"], abs=1e-6)
        qasm = from_qasm(stem.with_suffix(".qasm").read_text(), LINE)
        assert energy(qasm) == pytest.approx(one["energy"], abs=1e-6)
        assert stem.with_suffix(".svg").read_text().startswith("<svg")
    page = (folder / "report.html").read_text()
    assert all(f'id="{name}"' in page for name in ("front", "history", "circuit-0"))
    assert (folder / "front.svg").is_file()
    before = {one.name: one.read_bytes() for one in folder.glob("*.jsonl")}
    assert len(before) == 2
    assert searched(*args) == 0
    assert {one.name: one.read_bytes() for one in folder.glob("*.jsonl")} == before
    assert searched(*args, "SPACE=layers:2") == 2
    assert "SPACE=blocks" in capsys.readouterr().err


@pytest.mark.parametrize(
    "budget", ["500evaluations", pytest.param("1s", marks=pytest.mark.exhaustive)]
)
def test_pruning_adds_stages_that_a_new_start_reads(searched, budget: str) -> None:
    def content() -> list[tuple[str, bytes]]:
        files = [*folder.glob("*.jsonl"), folder / "front.json"]
        return [(one.name, one.read_bytes()) for one in sorted(files)]

    folder = Path("runs/searches/s")
    assert searched(*ISING, f"BUDGET={budget}") == 0
    before = content()
    assert {"seed-0.jsonl", "seed-0.pruned-1.jsonl"} <= {name for name, _ in before}
    assert searched(*ISING, f"BUDGET={budget}") == 0
    assert content() == before


@pytest.mark.exhaustive
def test_matrix_product_is_where_its_search_begins(searched) -> None:
    args = (*ISING, "SPACE=mps:1")
    assert searched(*args, "BUDGET=200evaluations") == 0
    first = json.loads(Path("runs/searches/s/seed-0.jsonl").read_text().splitlines()[1])
    whole = define("SPACE=mps:1").matrix_product[1]
    assert first["candidate"]["gates"] == [*whole.gates]
    assert first["error"] < 0.05
    assert searched(*args, "BUDGET=200evaluations") == 0
    assert searched("NAME=t", *args[1:], "METHOD=evolution", "BUDGET=40evaluations") == 0
    first = json.loads(Path("runs/searches/t/seed-0.jsonl").read_text().splitlines()[1])
    assert first["candidate"]["gates"] == [*whole.gates]


def test_pruned_sizes_end_with_all_gates() -> None:
    assert [*_sizes(0)] == []
    assert [*_sizes(1)] == [1]
    assert [*_sizes(10)] == [1, 2, 3, 4, 6, 8, 10]


def write_gates(*operations: cirq.Operation) -> None:
    Path("gates.json").write_text(cirq.to_json(cirq.Circuit(operations)))


def test_gates_of_a_file_are_searched(searched) -> None:
    a = sympy.Symbol("a")
    write_gates(*(cirq.ry(a)(one) for one in LINE), cirq.ZZ(LINE[0], LINE[1]) ** a)
    assert searched(*ISING, "SPACE=gates.json", "METHOD=adapt", "BUDGET=200evaluations") == 0


@pytest.mark.parametrize(
    ("args", "source", "text"),
    [
        (["BUDGET=5evaluations", "METHOD=growth"], "", "BUDGET=5evaluations is less than one"),
        (["SPACE=layers:9999"], "", "allowed are up to"),
        (["DATA=tfim:25:1.0", "SPACE=mps"], "", "DATA=tfim:25:1.0 has 25 qubits"),
        (["SPACE=none.json"], "", "none.json does not exist"),
        (["SPACE=rubbish.json"], "", "SPACE=rubbish.json is not a circuit"),
        (["SPACE=excitations"], "", "SPACE=excitations needs the number"),
        (["DATA=tfim:4:0.5,1.0"], "", "has 2 Hamiltonians"),
        (["METHOD={python} propose.py"], "print('rubbish')", "none of the 3 proposals"),
        (["METHOD={python} propose.py"], "raise SystemExit(3)", "exit code 3"),
        (["METHOD={python} propose.py"], "import none", "(ModuleNotFoundError: No module named"),
        (["METHOD={python} propose.py"], "", "has written nothing"),
        (["METHOD={python} missing.py"], "", "exit code 2"),
        (["METHOD=./propose.py"], "", "METHOD='python ./propose.py'"),
        (["METHOD=./missing.py"], "", "no program ./missing.py"),
        (["METHOD={python} propose.py", "BUDGET=1s"], "input()\nwhile 1: 1", "raise the budget"),
    ],
)
def test_search_that_is_impossible_is_one_sentence(searched, capsys, args, source, text) -> None:
    Path("rubbish.json").write_text("{}")
    Path("propose.py").write_text(source)
    given = {one.partition("=")[0]: one.format(python=sys.executable) for one in (*ISING, *args)}
    assert searched(*given.values()) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1
    name, _, value = args[0].partition("=")
    assert f"{name}={value[:8].partition('{')[0]}" in error


def test_space_that_needs_too_much_memory_is_refused_at_once(
    searched, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 4 << 30)
    assert searched(*ISING, "SPACE=layers:5000") == 2
    error = capsys.readouterr().err
    assert "SPACE=layers:5000: a generation of pruning" in error
    assert "bytes are free" in error
    assert error.count("\n") == 1


def test_search_runs_on_the_device_that_is_given(
    searched, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # of the process that asks
    args = (*ISING, "METHOD=random", "BUDGET=40evaluations")
    assert searched(*args, "DEVICE=cuda", "TARGET=slurm") == 2
    assert "TARGET=local only" in capsys.readouterr().err
    monkeypatch.setenv("QFLEET_DEVICE", "cuda:7")
    assert searched(*args) == 2
    error = capsys.readouterr().err
    assert "DEVICE=cuda:7: " in error
    assert "Error while finding" not in error
    if host_path().is_file():
        assert searched(*args, "DEVICE=host") == 0
        assert os.environ["QFLEET_DEVICE"] == "cuda:7"


def test_search_that_found_no_gate_starts_again_by_its_advice(searched, capsys) -> None:
    args = ("NAME=s", "DATA=heisenberg:4")
    assert searched(*args) == 2
    assert "set METHOD=evolution" in capsys.readouterr().err
    assert searched(*args, "METHOD=evolution", "BUDGET=40evaluations") == 0


def test_space_that_changes_no_energy_ends_the_search(searched, capsys) -> None:
    turns = cirq.Circuit(cirq.Z(LINE[0]) ** sympy.Symbol("a"), cirq.Z(LINE[1]) ** sympy.Symbol("b"))
    Path("own.json").write_text(cirq.to_json(turns))
    args = ("SPACE=own.json", "METHOD=random", "BUDGET=200evaluations")
    assert searched(*ISING, *args) == 2
    assert "SPACE=own.json changes the energy" in capsys.readouterr().err


def test_gates_that_commute_with_the_hamiltonian_end_it(searched, capsys) -> None:
    Path("diagonal.txt").write_text("1.0 [Z0 Z1] + 0.5 [Z0]")
    write_gates(*(cirq.rz(sympy.Symbol("a"))(one) for one in LINE[:2]))
    args = ("NAME=s", "DATA=diagonal.txt", "SPACE=gates.json")
    assert searched(*args) == 2
    error = capsys.readouterr().err
    assert "commute with the Hamiltonian" in error
    assert error.count("\n") == 1


def test_model_takes_a_found_circuit(searched) -> None:
    assert searched(*ISING, "METHOD=growth", "BUDGET=400evaluations") == 0
    from common.data.problems import energies
    from common.models.ansatz import ansatz_circuit

    model = "runs/searches/s/circuits/0.model.json"
    settings = Settings.from_args(["TASK=energy", "DATA=tfim:4:1.0", f"MODEL={model}"], "train")
    assert settings.run_name == "s-0"
    again = Settings.from_record(settings.identity())
    assert again.model.model == settings.model.model
    origin = circuit_file.origin_of(again.model.model)
    names = ("search", "search_seed", "search_data", "search_method")
    assert [origin[name] for name in names] == ["s", 0, "tfim:4:1.0", "growth"]
    target = energies(settings.data, 4).encoding.target
    circuit = ansatz_circuit(settings, target)
    values = dict(zip(circuit.parameters, circuit.initial, strict=True))
    found = energy(cirq.resolve_parameters(circuit.circuit, values))
    assert found == pytest.approx(origin["search_energy"], abs=1e-6)


def test_device_adds_the_predicted_fidelity(searched, capsys, tmp_path) -> None:
    device = write_device(tmp_path)
    args = ("METHOD=random", "SPACE=layers:1", "BUDGET=40evaluations", f"NOISE={device}")
    assert searched(*ISING, *args) == 0
    assert "fidelity" in capsys.readouterr().out
    front = json.loads(Path("runs/searches/s/front.json").read_text())
    assert all(0 < one["fidelity"] <= 1 for one in front)
    assert max(one["duration_ns"] for one in front) > 0
    found = ("NAME=d", "OBJECTIVES=duration,error", "EARLY_STOPPING=halving")
    assert searched(*ISING[1:], *args, *found) == 0
    front = json.loads(Path("runs/searches/d/front.json").read_text())
    times = [one["duration_ns"] for one in front]
    assert times == sorted(times, reverse=True)
    assert searched(*ISING[1:], *args, *found[:2]) == 2
    assert "REDUCTION_FACTOR=4 (now EARLY_STOPPING=none)" in capsys.readouterr().err
    assert searched(*ISING, *args[:-1]) == 2
    assert "(now no NOISE)" in capsys.readouterr().err
    assert searched("NAME=t", "DATA=tfim:9:1.0", "SPACE=paulis", f"NOISE={device}") == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_electrons_of_a_file_are_those_of_the_space(searched) -> None:
    Path("hopping.txt").write_text("0.5 [X0 X2] + 0.5 [Y0 Y2] + 1.0 [Z0] - 0.5 [Z1 Z3]")
    args = ("NAME=s", "DATA=hopping.txt", "SPACE=excitations:fermionic:2", "METHOD=adapt")
    one = SearchDefinition.from_args(args)
    assert (one.problem.electrons, one.problem.qubits) == (2, 4)
    assert searched(*args, "BUDGET=200evaluations") == 0
    with pytest.raises(SettingsError, match="other electrons"):
        _ = SearchDefinition.from_args(["NAME=s", "DATA=h2:0.74", "SPACE=excitations:3"]).problem


def test_state_has_its_infidelity_as_the_error(searched, capsys) -> None:
    args = ("NAME=s", "TASK=state", "DATA=random:3", "QUBITS=2")
    assert searched(*args, "BUDGET=400evaluations") == 0
    output = capsys.readouterr().out
    assert "TASK=state DATA=random:3 MODEL=runs/searches/s/circuits/0.model.json QUBITS=2" in output
    folder = Path("runs/searches/s")
    first = json.loads((folder / "front.json").read_text())[0]
    assert (first["error"] < 1e-6, first["two_qubit_gates"]) == (True, 1)
    state = cirq.final_state_vector(cirq.read_json(folder / "circuits/0.json"))
    overlap = abs(np.vdot(target_states("random:3", 2)[0], state)) ** 2
    assert overlap == pytest.approx(1 - first["error"], abs=1e-5)
    model = f"MODEL={folder}/circuits/0.model.json"
    trained = Settings.from_args([*args[1:], model], "train").training
    assert (trained.learning_rate, trained.initialization_count) == (0.01, 1)
    assert "1 minus the fidelity" in (folder / "report.html").read_text()
    assert searched("NAME=t", *args[1:3], "QUBITS=9") == 2
    assert "9 qubits" in capsys.readouterr().err


def write_table() -> None:
    values = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    rows = [f"{a},{b},{'yes' if a * b > 0 else 'no'}" for a, b in values]
    Path("table.csv").write_text("\n".join(["a,b,label", *rows]))


def test_data_have_a_front_a_test_split_and_a_model(searched, capsys) -> None:
    write_table()
    data = ("TASK=classification", "DATA=table.csv", "QUBITS=2")
    args = ("NAME=s", *data, "SPACE=layers:1", "METHOD=evolution:3", "BUDGET=64evaluations")
    assert searched(*args) == 0
    output = capsys.readouterr().out
    assert "test accuracy" in output
    assert "logistic regression: test accuracy" in output
    folder = Path("runs/searches/s")
    page = (folder / "report.html").read_text()
    assert "Test split" in page
    assert "SVM with RBF kernel" in page
    first = json.loads((folder / "front.json").read_text())[0]
    assert 0 <= first["test_accuracy"] <= 1

    from common.models import build_model

    model = f"MODEL={folder}/circuits/0.model.json"
    assert f"make training {' '.join(data[:2])} {model} QUBITS=2" in output
    settings = Settings.from_args([*data, model], "train")
    rows = SearchDefinition.from_args(args).rows
    built = build_model(2, settings, "angle")
    outputs = np.asarray(built(rows.validation.astype(np.float32)))[:, 0]
    loss = np.mean((outputs - rows.validation_labels) ** 2)
    assert loss == pytest.approx(first["energy"], abs=1e-5)
    training = settings.training
    assert (training.learning_rate, training.initialization_count) == (0.01, 1)
    several = Settings.from_args([*data, model, "INITIALIZATION_EPOCHS=2"], "train").training
    assert several.initialization_count > 1
    with pytest.raises(SettingsError, match="for a classification"):
        Settings.from_args(["TASK=energy", "DATA=tfim:2:1.0", model], "train")
    assert searched("NAME=t", *args[1:], "ENCODER=amplitude") == 2
    assert "ENCODER=amplitude" in capsys.readouterr().err
