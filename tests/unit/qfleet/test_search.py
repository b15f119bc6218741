"""The ansatz search: methods, budget, history, external programs, wrong arguments."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import cirq
import numpy as np
import pytest
import sympy

from qfleet.devices import Calibration, PairCalibration, QubitCalibration, map_to_device
from qfleet.devices.noise import circuit_duration
from qfleet.errors import ArgumentError, CircuitError, LibraryError, NoiseError
from qfleet.problems import Hamiltonian, named
from qfleet.search import (
    Adapt,
    Candidate,
    Evolution,
    External,
    GatePruning,
    Growth,
    Random,
    Result,
    SearchResult,
    Space,
    blocks,
    circuit_cost,
    excitations,
    layers,
    search,
    super_circuit_of,
)
from qfleet.search.external import proposal
from qfleet.search.methods import Task, next_generation
from qfleet.search.qasm import from_qasm
from tests.support.devices import made_up_device

LINE = cirq.LineQubit.range(4)


class Undecomposable(cirq.Gate):
    """A gate on three qubits that has a unitary only."""

    def _num_qubits_(self) -> int:
        return 3

    def _unitary_(self) -> np.ndarray:
        return np.diag(np.exp(0.1j * np.arange(8) ** 2))

    def _decompose_(self, qubits: Sequence[cirq.Qid]) -> object:
        return NotImplemented


def hydrogen() -> Hamiltonian:
    """Return H2 at 0.74 angstrom as its 15 words; the file needs no chemistry packages."""
    words = {
        "IIII": -0.09706626816762878, "ZIII": 0.1714128264477691, "IZII": 0.17141282644776906,
        "IIZI": -0.22343153690813597, "IIIZ": -0.22343153690813597, "ZZII": 0.16868898170361213,
        "ZIZI": 0.12062523483390425, "ZIIZ": 0.16592785033770352, "IZZI": 0.16592785033770352,
        "IZIZ": 0.12062523483390425, "IIZZ": 0.17441287612261608, "XXYY": -0.0453026155037993,
        "XYYX": 0.0453026155037993, "YXXY": 0.0453026155037993, "YYXX": -0.0453026155037993,
    }  # fmt: skip
    return Hamiltonian("h2", tuple(words), np.array([*words.values()]), 2)


def ising() -> Hamiltonian:
    return next(named("tfim:4:1.0").members())


def energy(found: SearchResult, result: Result, problem: Hamiltonian) -> float:
    circuit = found.circuit(result)
    state = cirq.Simulator(dtype=np.complex128).simulate(circuit).final_state_vector
    places = {one: at for at, one in enumerate(sorted(circuit.all_qubits()))}
    return float(problem.pauli_sum().expectation_from_state_vector(state, places).real)


def test_adapt_finds_the_ground_state_of_hydrogen() -> None:
    found = search(hydrogen(), excitations(4, 2), "adapt", evaluations=500)
    assert found.best.error == pytest.approx(0, abs=1e-7)
    assert len(found.best.candidate.gates) == 1  # one double excitation
    assert energy(found, found.best, hydrogen()) == pytest.approx(found.best.energy, abs=1e-7)


def test_growth_with_fans_needs_three_cnots_for_hydrogen() -> None:
    found = search(hydrogen(), excitations(4, 2, "fan"), Growth(rounds=1), evaluations=5000)
    assert found.best.error == pytest.approx(0, abs=1e-7)
    assert min(one.two_qubit_gates for one in found.history if one.error < 1e-6) == 3


def test_pruning_removes_what_is_not_needed() -> None:
    circuit = cirq.Circuit(
        [cirq.ry(0.1)(one) for one in LINE],
        cirq.ry(0.1)(LINE[2]),
        [cirq.CNOT(LINE[2], LINE[at]) for at in (3, 0, 1)],
        [cirq.ry(0.1)(one) for one in LINE],
        [cirq.CNOT(LINE[at], LINE[at + 1]) for at in range(3)],
        [cirq.ry(0.1)(one) for one in LINE],
    )
    space, start = super_circuit_of(circuit, [cirq.X(one) for one in LINE[:2]])
    found = search(hydrogen(), space, GatePruning(start), evaluations=50_000, starts=2)
    good = min(one.two_qubit_gates for one in found.history if one.error < 1e-5)
    assert good == 3
    assert {one.two_qubit_gates for one in found.history} >= {1, 2, 3, 4, 5}


@pytest.mark.exhaustive
def test_evolution_improves_on_its_first_generation() -> None:
    method = Evolution(population=12, most_gates=6)
    found = search(ising(), blocks(4), method, evaluations=6000, steps=60, seed=3)
    first = min(one.error for one in found.history if one.generation == 0)
    assert found.best.error < 0.5 * first
    keys = [one.candidate.key for one in found.history]
    assert len(set(keys)) == len(keys)


def test_random_masks_of_layers_have_their_energies() -> None:
    found = search(ising(), layers(4, 2), Random(6), evaluations=6, steps=20)
    for one in found.history:
        assert energy(found, one, ising()) == pytest.approx(one.energy, abs=1e-6)
        assert one.two_qubit_gates == circuit_cost(found.circuit(one)).two_qubit_gates
        assert list(one.candidate.gates) == sorted(set(one.candidate.gates))


@pytest.mark.exhaustive
def test_front_has_the_best_of_each_price() -> None:
    found = search(ising(), blocks(4), Evolution(10, 5), evaluations=3000, steps=40)
    errors = [one.error for one in found.front]
    counts = [one.two_qubit_gates for one in found.front]
    assert errors == sorted(errors)
    assert counts == sorted(counts, reverse=True)
    for one in found.history:
        assert any(
            best.error <= one.error and best.two_qubit_gates <= one.two_qubit_gates
            for best in found.front
        )
    assert found.table().splitlines()[0].split()[:2] == ["error", "CNOTs"]
    assert len(found.table().splitlines()) == len(found.front) + 1


def test_starts_are_never_worse_than_one() -> None:
    one, three = (
        search(ising(), blocks(4), Random(5, 4), evaluations=5, steps=30, starts=starts)
        for starts in (1, 3)
    )
    for single, several in zip(one.history, three.history, strict=True):
        assert several.candidate.key == single.candidate.key
        assert several.energy <= single.energy + 1e-9


@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
def test_optimizers_of_a_search_reach_the_same_energy(optimizer: str) -> None:
    space = excitations(4, 2, "fermionic")
    method = Adapt(most_gates=2)
    found = search(hydrogen(), space, method, evaluations=900, steps=300, optimizer=optimizer)
    assert found.best.error == pytest.approx(0, abs=1e-6)


def test_fidelity_is_an_objective_with_a_calibration() -> None:
    qubits = {str(at): QubitCalibration(t1=100, t2=80, error=1e-3) for at in range(4)}
    pairs = {(str(at), str(at + 1)): PairCalibration(error=0.01) for at in range(3)}
    device = Calibration("line", "cz", "sx", qubits, pairs)
    space = blocks(4, connectivity=device)
    found = search(
        *(ising(), space, Random(8, 6)),
        evaluations=8, steps=20, calibration=device, objectives=("error", "fidelity"),
    )  # fmt: skip
    best = max(found.history, key=lambda one: one.fidelity or 0)
    assert best.fidelity is not None
    assert 0.5 < best.fidelity < 1
    assert any(one.fidelity == best.fidelity for one in found.front)


def test_duration_is_the_wall_time_on_the_device() -> None:
    qubits = {str(at): QubitCalibration(t1=100, t2=80, duration=20 + at) for at in range(3)}
    pairs = {(str(at), str(at + 1)): PairCalibration(duration=100 * (at + 1)) for at in range(2)}
    device = Calibration("line", "cz", "sx", qubits, pairs)
    turn = cirq.ry(sympy.Symbol("a"))(LINE[2])
    gates = [cirq.CZ(*LINE[:2]), cirq.CZ(*LINE[1:3]), cirq.H(LINE[0]), turn]
    space = Space.of_operations(gates)
    found = search(
        *(next(named("tfim:3:1.0").members()), space, Random(8, 6)),
        evaluations=8, steps=5, calibration=device, objectives=("error", "duration"),
    )  # fmt: skip
    for one in found.history:
        mapped = map_to_device(found.circuit(one), device, qubits=space.qubits)
        assert one.duration == circuit_duration(mapped.circuit, device)
    line = cirq.LineQubit.range(3)
    gates = [cirq.X(line[0]), cirq.CZ(*line[:2]), cirq.Z(line[1]), cirq.CZ(*line[1:])]
    assert circuit_duration(cirq.Circuit(gates), device) == 20 + 100 + 200
    assert circuit_duration(cirq.Circuit(gates[2]), device) == 0
    assert found.front[-1].duration == min(one.duration or 0 for one in found.history)


@pytest.mark.parametrize(
    ("qubits", "gate", "text"),
    [(3, cirq.ry(sympy.Symbol("a"))(LINE[0]), "3"), (6, Undecomposable()(*LINE[:3]), "compiled")],
)
def test_device_that_lacks_something_ends_a_search_at_once(
    qubits: int, gate: cirq.Operation, text: str, tmp_path: Path
) -> None:
    space = Space.of_operations([gate], qubits=LINE)
    options = {"evaluations": 9, "file": tmp_path / "h.jsonl"}
    with pytest.raises(NoiseError, match=text) as caught:
        search(ising(), space, Random(4), calibration=made_up_device(qubits=qubits), **options)
    assert "\n" not in str(caught.value)
    assert not options["file"].exists()


METHODS = {
    "evolution": lambda: Evolution(8, 5),
    "growth": lambda: Growth(width=2, children=4, most_gates=3, rounds=2),
    "random": lambda: Random(8, 4),
}


@pytest.mark.parametrize("name", METHODS)
def test_search_resumes_with_the_same_history(name: str, tmp_path: Path) -> None:
    def run(file: Path | None, evaluations: int) -> SearchResult:
        options = {"seed": 5, "steps": 30, "file": file, "starts": 2}
        return search(ising(), blocks(4), METHODS[name](), evaluations=evaluations, **options)

    whole = run(None, 1500)
    file = tmp_path / "history.jsonl"
    first = run(file, 400)
    assert 0 < len(first.history) < len(whole.history)
    text = file.read_text()
    file.write_text(text[:-40])  # the process was killed while it wrote
    resumed = run(file, 1500)
    assert resumed.history == whole.history
    assert run(file, 1500).history == whole.history
    assert len(file.read_text().splitlines()) == len(whole.history) + 1


@pytest.mark.parametrize("generation", [0, 1])
def test_search_that_was_taken_over_ends_and_changes_nothing(
    generation: int, tmp_path: Path
) -> None:
    """A process that was stopped continues, and another one has searched meanwhile."""

    class Stopped(Random):
        def ask(self, task: Task, history: Sequence[Result]) -> list[Candidate]:
            if next_generation(history) == generation:
                texts.append(run(Random(8, 6)))
            return super().ask(task, history)

    file, texts = tmp_path / "history.jsonl", []
    Stopped.__name__ = Random.__name__  # of the same search

    def run(method: Random) -> str:
        search(ising(), blocks(4), method, evaluations=40, seed=5, steps=4, file=file)
        return file.read_text()

    with pytest.raises(ArgumentError, match="another search"):
        run(Stopped(8, 6))
    assert texts == [file.read_text()]
    file.unlink()
    assert texts == [run(Random(8, 6))]


def test_pruning_resumes_with_the_same_programs(tmp_path: Path) -> None:
    problem = next(named("tfim:6:1.0").members())
    grown = search(problem, blocks(6), Adapt(), evaluations=500)
    space, start = grown.super_circuit(grown.history[3])
    options = {"evaluations": 9000, "steps": 100, "tolerance": 1e-7, "starts": 2}
    whole = search(problem, space, GatePruning(start, width=2), **options)
    assert whole.history[-1].generation
    file = tmp_path / "history.jsonl"
    options |= {"file": file, "target": lambda _: True}
    search(problem, space, GatePruning(start, width=2), **options)
    del options["target"]
    assert search(problem, space, GatePruning(start, width=2), **options).history == whole.history


@pytest.mark.parametrize("length", [0, 20])
def test_search_continues_a_file_without_its_first_line(length: int, tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    whole = search(ising(), blocks(4), Random(2, 2), evaluations=2, steps=5, file=file)
    file.write_text(file.read_text()[:length])  # the process was killed while it made the file
    again = search(ising(), blocks(4), Random(2, 2), evaluations=2, steps=5, file=file)
    assert again.history == whole.history


def test_progress_gets_all_results_of_each_generation(tmp_path: Path) -> None:
    counts: list[int] = []

    def note(found: Sequence[Result]) -> None:
        counts.append(len(found))

    options = {"steps": 5, "file": tmp_path / "h.jsonl", "progress": note}
    search(ising(), blocks(4), Adapt(2), evaluations=100, **options)
    assert counts == [1, 2]
    search(ising(), blocks(4), Adapt(2), evaluations=100, **options)
    assert counts == [1, 2, 2]


@pytest.mark.parametrize("space", [blocks(4), excitations(4, 2)], ids=["blocks", "excitations"])
def test_free_circuit_has_the_trained_angles_as_symbols(space: Space) -> None:
    found = search(ising(), space, Random(4, 5), evaluations=4, steps=5)
    for one in found.history:
        circuit, angles = found.free_circuit(one)
        assert cirq.parameter_names(circuit) == angles.keys()
        fixed = cirq.resolve_parameters(circuit, angles)
        expected = found.circuit(one).unitary(qubit_order=LINE)
        np.testing.assert_allclose(fixed.unitary(qubit_order=LINE), expected, atol=1e-9)


def test_free_circuit_of_a_proposal_has_its_rotations(tmp_path: Path) -> None:
    circuit = cirq.Circuit(cirq.ry(0.3)(LINE[0]), cirq.CNOT(LINE[0], LINE[1]))
    line = json.dumps({"qasm": cirq.qasm(circuit, args=cirq.QasmArgs(version="2.0"))})
    method = External(program(tmp_path, f"print({line!r})"), 30, 1)
    found = search(ising(), blocks(4), method, evaluations=100)
    free, angles = found.free_circuit(found.best)
    assert cirq.parameter_names(free) == angles.keys() == {"a0"}


def test_search_refuses_the_file_of_another_search(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    search(ising(), blocks(4), Random(2, 2), evaluations=2, steps=5, file=file)
    with pytest.raises(ArgumentError, match="history of another search"):
        search(ising(), blocks(4), Random(2, 2), evaluations=2, steps=5, file=file, seed=1)


def test_equal_seeds_give_equal_histories() -> None:
    runs = [
        search(ising(), blocks(4), Random(6, 4), evaluations=100, steps=10, seed=seed).history
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_target_ends_a_search() -> None:
    found = search(
        *(ising(), blocks(4), Random(4, 4)),
        evaluations=10_000, steps=20, target=lambda one: one.error < 10,
    )  # fmt: skip
    assert len(found.history) == 4


def commuting() -> Space:
    a, b = cirq.LineQubit.range(2)
    angle = sympy.Symbol("a")
    return Space.of_operations([cirq.rz(angle)(a), cirq.ZZ(a, b) ** angle, cirq.CZ(a, b)])


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (lambda: (named("tfim:2:0.0"), commuting()), {"evaluations": 99}, "commute"),
        (lambda: (ising(), blocks(4), Evolution(16)), {"evaluations": 15}, "one generation"),
        (lambda: (ising(), blocks(4), Evolution(drawn=2)), {"evaluations": 99}, "pass drawn=1"),
        (lambda: (ising(), blocks(25)), {"evaluations": 99}, "25 qubits"),
        (lambda: (ising(), blocks(4)), {}, "the budget is missing"),
        (lambda: (ising(), blocks(4)), {"seconds": -1}, "positive"),
        (lambda: (ising(), blocks(4), "genetic"), {"evaluations": 9}, "choose adapt"),
        (lambda: (ising(), blocks(3)), {"evaluations": 99}, "not among the qubits"),
        (lambda: (ising(), blocks(4)), {"evaluations": 99, "objectives": ()}, "empty"),
        (lambda: (ising(), blocks(4)), {"evaluations": 99, "objectives": ("fidelity",)}, "device"),
        (lambda: (ising(), blocks(4)), {"evaluations": 99, "objectives": ("duration",)}, "device"),
        (lambda: (ising(), blocks(4)), {"evaluations": 99, "objectives": ("size",)}, "choose"),
        (lambda: (ising(), blocks(4)), {"evaluations": 99, "reduction_factor": 0}, "reduction"),
        (lambda: (ising(), blocks(4), GatePruning()), {"evaluations": 9}, "start is missing"),
    ],
)
def test_search_refuses_wrong_arguments(arguments: object, options: dict, text: str) -> None:
    given = arguments()  # type: ignore[operator]
    if not isinstance(given[0], Hamiltonian):
        given = (next(given[0].members()), *given[1:])
    options = dict(options)
    with pytest.raises(LibraryError, match=text) as caught:
        search(*given, **options)
    assert "\n" not in str(caught.value)


def program(tmp_path: Path, source: str) -> list[str]:
    file = tmp_path / "proposer.py"
    file.write_text(f"import json, sys\nlines = [json.loads(one) for one in sys.stdin]\n{source}")
    return [sys.executable, str(file)]


TRANSCRIPT = [
    [
        'OPENQASM 2.0; include "qelib1.inc"; qreg q[4]; x q[0]; x q[1]; ry(0.1) q[2];'
        " cx q[2],q[3]; cx q[2],q[0]; cx q[2],q[1];",
        "I would entangle the first two qubits.",
        'OPENQASM 2.0; include "qelib1.inc"; qreg q[5]; h q[4];',
    ],
    [
        "OPENQASM 3.0; qubit[4] q; x q[0]; x q[1]; ry(0.2) q[2]; cx q[2], q[0];"
        " cx q[2], q[1]; cx q[2], q[3];",
        "OPENQASM 3.0; qubit[4] q; x q[0]; x q[1]; ry(pi/8) q[1]; cx q[1], q[0];",
    ],
]
"""Proposals of a language model in two generations."""


def test_external_repeats_a_recorded_transcript(tmp_path: Path) -> None:
    source = (
        f"for one in {TRANSCRIPT!r}[lines[0]['generation']]:\n"
        "    print(json.dumps({'qasm': one}) if 'OPENQASM' in one else one)\n"
        "seen = {'results': sum('error' in one for one in lines),\n"
        "        'invalid': [one['invalid'] for one in lines if 'invalid' in one]}\n"
        f"open({str(tmp_path / 'seen')!r}, 'a').write(json.dumps(seen) + '\\n')\n"
    )
    method = External(program(tmp_path, source), generations=2)
    found = search(hydrogen(), excitations(4, 2), method, evaluations=2000)
    assert [one.generation for one in found.history] == [0, 1, 1]
    assert found.best.error == pytest.approx(0, abs=1e-7)
    assert [one.two_qubit_gates for one in found.history] == [3, 3, 1]
    assert energy(found, found.history[1], hydrogen()) == pytest.approx(found.best.energy)
    assert len(found.invalid) == 2
    assert "is not a proposal" in found.invalid[0]
    assert "use the qubits of the problem" in found.invalid[1]
    seen = [json.loads(one) for one in (tmp_path / "seen").read_text().splitlines()]
    assert seen[1] == {"results": 1, "invalid": list(found.invalid)}


def test_external_takes_cirq_json(tmp_path: Path) -> None:
    circuit = cirq.Circuit(cirq.ry(0.3)(LINE[0]), cirq.CNOT(LINE[0], LINE[1]))
    source = f"print(json.dumps({{'cirq': {json.loads(cirq.to_json(circuit))!r}}}))".replace(
        "null", "None"
    )
    found = search(ising(), blocks(4), External(program(tmp_path, source), 30, 1), evaluations=100)
    assert [one.two_qubit_gates for one in found.history] == [1]
    assert len(found.best.candidate.angles) == 1


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("import time; time.sleep(60)", "was stopped"),
        ("while True: print('x' * 1_000_000)", "has written more than 16 MiB"),
        ("print('rubbish')", "none of the 3 proposals"),
        ("sys.exit(3)", "exit code 3"),
    ],
)
def test_external_ends_a_search_in_one_sentence(tmp_path: Path, source: str, text: str) -> None:
    method = External(program(tmp_path, source), seconds=1 if "sleep" in source else 30)
    with pytest.raises(ArgumentError, match=text) as caught:
        search(ising(), blocks(4), method, evaluations=100)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "text"),
    [("import time; time.sleep(60)", "raise the budget"), ("sys.exit(3)", "exit code 3")],
)
def test_external_that_fails_later_keeps_the_results(tmp_path, source: str, text: str) -> None:
    first = f"print(json.dumps({{'qasm': {TRANSCRIPT[0][0]!r}}}))"
    source = f"if lines[0]['generation']:\n    {source}\n{first}\n"
    found = search(hydrogen(), excitations(4, 2), External(program(tmp_path, source)), seconds=4)
    assert len(found.history) == 1
    assert text in found.invalid[-1]


def test_external_names_a_program_that_is_missing() -> None:
    with pytest.raises(ArgumentError, match="can't be started"):
        search(ising(), blocks(4), External(["/no/such/program"]), evaluations=100)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('{"cirq": {"exponent": NaN}}', "not a proposal"),
        ("{", "not a proposal"),
        ('{"qasm": "OPENQASM 2.0; qreg q[4]; cx q[0],q[0];"}', "different qubits"),
        ('{"qasm": "OPENQASM 2.0; qreg q[4]; cx q[0],q[7];"}', "not declared"),
        ('{"qasm": "OPENQASM 2.0; qreg q[4]; measure q[0] -> c[0];"}', "not a gate that is known"),
        ('{"qasm": "OPENQASM 2.0; qreg q[4]; rx(a) q[0];"}', "is not a number"),
        ('{"qasm": "OPENQASM 2.0; qreg q[4]; rx(9**9) q[0];"}', "is not a number"),
        ('{"qasm": "OPENQASM 2.0; qreg q[4]; rx q[0];"}', "has 0 angles"),
        ('{"qasm": "OPENQASM 2.0; qreg q[4]; h q[0]"}', "ends within"),
        ('{"qasm": "qreg q[4]; h q[0];"}', "begins with"),
        ('{"cirq": {"cirq_type": "SomethingElse"}}', "can't be read"),
        ('{"cirq": "sys.exit()"}', "can't be read"),
    ],
)
def test_proposals_are_refused_in_one_sentence(line: str, text: str) -> None:
    with pytest.raises(CircuitError, match=text) as caught:
        proposal(line, LINE)
    assert "\n" not in str(caught.value)


def test_qasm_of_cirq_is_read_again() -> None:
    circuit = cirq.Circuit(
        cirq.H(LINE[0]), cirq.CNOT(LINE[0], LINE[1]), cirq.ry(0.3)(LINE[1]),
        cirq.rz(-1.2)(LINE[2]), cirq.CZ(LINE[1], LINE[2]) ** 0.3, cirq.SWAP(LINE[2], LINE[3]),
    )  # fmt: skip
    for version in ("2.0", "3.0"):
        text = cirq.qasm(circuit, args=cirq.QasmArgs(version=version))
        again = from_qasm(text, LINE)
        cirq.testing.assert_allclose_up_to_global_phase(
            again.unitary(), circuit.unitary(), atol=1e-7
        )


def test_result_is_read_as_it_was_written() -> None:
    found = search(ising(), blocks(4), Random(2, 3), evaluations=2, steps=5)
    assert [Result.from_json(one.to_json()) for one in found.history] == list(found.history)
    with pytest.raises(ArgumentError, match="no search wrote"):
        Result.from_json("{}")
