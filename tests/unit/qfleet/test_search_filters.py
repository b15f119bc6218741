"""Filters of circuits for data: representational capacity, and noise resilience of Cliffords."""

import cirq
import numpy as np
import pytest
import sympy

from qfleet.compiler.circuit.symbols import parameter_names
from qfleet.devices import Calibration, add_device_noise, map_to_device
from qfleet.errors import ArgumentError
from qfleet.search import (
    Candidate,
    DataTask,
    Space,
    clifford_noise_resilience,
    layers,
    representational_capacity,
)
from qfleet.search.filters import clifford_turns
from qfleet.search.screening import Screening
from tests.support.devices import made_up_device

A, B = cirq.LineQubit.range(2)
X, T, U = sympy.symbols("x t u")
ROWS, LABELS = np.array([[0.0], [0.1], [np.pi], [np.pi - 0.1]]), [0, 0, 1, 1]


def test_capacity_is_high_where_equal_labels_have_equal_states() -> None:
    apart = cirq.Circuit(cirq.rx(X)(A), cirq.rz(T)(A), cirq.I(B))
    blind = cirq.Circuit(cirq.rz(X)(A), cirq.rx(T)(A), cirq.I(B))
    good = representational_capacity(apart, ["x"], ROWS, LABELS, [A])
    assert good > 0.99
    assert representational_capacity(blind, ["x"], ROWS, LABELS, [A]) == pytest.approx(0.5)
    assert representational_capacity(apart, ["x"], ROWS, LABELS, [B]) == pytest.approx(0.5)


def test_capacity_is_that_of_density_matrices() -> None:
    circuit = cirq.Circuit(cirq.rx(X)(A), cirq.ry(T)(A), cirq.CNOT(A, B), cirq.rx(U)(B))
    found = representational_capacity(circuit, ["x"], ROWS, LABELS, [B], draws=3, seed=4)
    angles = np.random.default_rng(4).uniform(-np.pi, np.pi, (3, 2))
    similarity = np.zeros((4, 4))
    for t, u in angles:
        states = []
        for (x,) in ROWS:
            fixed = cirq.resolve_parameters(circuit, {"x": x, "t": t, "u": u})
            state = cirq.Simulator(dtype=np.complex128).simulate(fixed).final_state_vector
            rho = cirq.partial_trace_of_state_vector_as_mixture
            parts = rho(state, [1])
            states.append(sum(p * np.outer(v, v.conj()) for p, v in parts))
        norms = [np.sqrt(np.trace(one @ one).real) for one in states]
        similarity += [[np.trace(a @ b).real / (m * n) for b, n in zip(states, norms, strict=True)]
                       for a, m in zip(states, norms, strict=True)]  # fmt: skip
    wanted = np.equal.outer(LABELS, LABELS)
    assert found == pytest.approx(1 - np.mean((similarity / 3 - wanted) ** 2), abs=1e-9)


def test_resilience_is_that_of_a_simulation_by_cirq() -> None:
    circuit = cirq.Circuit(cirq.rx(T)(A), cirq.CNOT(A, B), cirq.ry(U)(B))
    device = made_up_device()
    found = clifford_noise_resilience(circuit, device, [A, B], replicas=3, seed=1)
    turns = np.random.default_rng(1).integers(4, size=(3, 2)) * (np.pi / 2)
    words = [
        cirq.PauliSum.wrap(cirq.Z(A)),
        cirq.PauliSum.wrap(cirq.Z(B)),
        cirq.PauliSum.wrap(cirq.Z(A) * cirq.Z(B)),
    ]
    mapped = map_to_device(circuit, device, words)
    noisy = add_device_noise(mapped.circuit, device, mapped.observables)
    places = {one: at for at, one in enumerate(sorted(noisy.all_qubits()))}
    distances = []
    for t, u in turns:
        fixed = cirq.resolve_parameters(circuit, {"t": t, "u": u})
        ideal = np.abs(cirq.Simulator().simulate(fixed).final_state_vector) ** 2
        rho = cirq.DensityMatrixSimulator(dtype=np.complex128).simulate(
            cirq.resolve_parameters(noisy, {"t": t, "u": u})
        )
        values = [word.expectation_from_density_matrix(rho.final_density_matrix, places).real
                  for word in mapped.observables]  # fmt: skip
        signs = [[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]
        read = [(1 + np.dot(sign, values)) / 4 for sign in signs]
        distances.append(np.abs(np.array(read) - ideal).sum() / 2)
    assert found == pytest.approx(1 - np.mean(distances), abs=1e-5)
    assert 0.7 < found < 1


def test_resilience_falls_with_the_depth() -> None:
    short = cirq.Circuit(cirq.rx(T)(A), cirq.CNOT(A, B))
    long = cirq.Circuit(short, [[cirq.rx(U)(B), cirq.CNOT(A, B)] for _ in range(8)])
    device = made_up_device()
    values = [clifford_noise_resilience(one, device, [A, B]) for one in (short, long)]
    assert values[0] > values[1] + 0.02


@pytest.mark.parametrize(
    ("rows", "labels", "read", "word"),
    [
        (ROWS, [0, 0, 1], [A], "shape"),
        (ROWS[:, 0], LABELS, [A], "shape"),
        (ROWS, [1, 1, 1, 1], [A], "one value"),
        (ROWS, LABELS, [], "read"),
        (ROWS, LABELS, [A, A], "read"),
        (ROWS, LABELS, cirq.LineQubit.range(5), "read"),
    ],
)
def test_capacity_of_wrong_arguments_is_refused(rows, labels, read, word) -> None:
    circuit = cirq.Circuit(cirq.rx(X)(A), cirq.rz(T)(A), cirq.I(B))
    with pytest.raises(ArgumentError, match=word):
        representational_capacity(circuit, ["x"], rows, labels, read)


def screened(calibration: Calibration | None = None) -> tuple[Space, Screening]:
    rows = np.random.default_rng(2).uniform(-1.5, 1.5, (20, 2))
    labels = np.sign(np.arange(20) - 9.5)
    rows[:, 0] = 1.2 * labels + 0.1 * rows[:, 1]
    task = DataTask(rows, labels, rows, labels, "signs")
    space = layers(2, 1, inputs=task.inputs)
    return space, Screening(space, task, calibration, 3)


def candidates(space: Space, *features: str) -> list[Candidate]:
    encoders = {gate.feature: at for at, gate in enumerate(space.gates) if gate.feature}
    return [Candidate((encoders[one],), (0.0,)) for one in features]


def test_screening_prefers_the_feature_that_labels_follow() -> None:
    space, found = screened()
    every = candidates(space, *found._task.inputs[::-1])
    values = found.capacities(every)
    assert values[1] > values[0] + 0.1
    assert found.best(every, 1) == [every[1]]


def test_screening_of_one_qubit_is_the_capacity() -> None:
    rows = np.linspace(-1.4, 1.4, 20)[:, np.newaxis]
    labels = np.sign(rows[:, 0])
    task = DataTask(rows, labels, rows, labels, "signs")
    space = layers(1, 2, inputs=task.inputs)
    gates = tuple(at for at, gate in enumerate(space.gates) if gate.feature)
    (value,) = Screening(space, task, None, 0).capacities([Candidate(gates, (0.0, 0.0))])
    circuit = space.circuit(gates, (0.0, 0.0))
    alone = representational_capacity(circuit, task.inputs, rows, labels, space.qubits)
    assert value == pytest.approx(alone, abs=1e-6)


def test_screening_on_a_device_prefers_fewer_gates() -> None:
    space, found = screened(made_up_device())
    (short,) = candidates(space, found._task.inputs[0])
    noisy = [at for at, gate in enumerate(space.gates) if len(gate.operations[0].qubits) == 2]
    long = Candidate((*short.gates, *noisy), (0.0,))
    values = found.resiliences([short, long])
    assert values[0] > values[1]
    assert found.best([long, short, *candidates(space, found._task.inputs[1])], 1) == [short]


def test_replicas_of_candidates_are_clifford_circuits() -> None:
    space, found = screened()
    every = Candidate(
        tuple(range(len(space.gates))), (0.0,) * space.angle_count(range(len(space.gates)))
    )
    assert any(space.gates[number].feature for number in every.gates)
    circuit = found.replica(every)
    turns = clifford_turns(circuit, 8, 1)
    for at in range(8):
        fixed = cirq.resolve_parameters(circuit, {name: own[at] for name, own in turns.items()})
        assert all(cirq.has_stabilizer_effect(one) for one in fixed.all_operations())
    assert cirq.has_stabilizer_effect(cirq.rx(np.pi / 2)(A))
    assert not cirq.has_stabilizer_effect(cirq.rx((1 + np.pi / 2) * np.pi / 2)(A))


def test_resiliences_of_candidates_are_those_of_circuits() -> None:
    space, found = screened(device := made_up_device())
    random, every = np.random.default_rng(5), []
    for _ in range(4):
        gates = tuple(map(int, np.flatnonzero(random.random(len(space.gates)) < 0.6)))
        every.append(Candidate(gates, (0.0,) * space.angle_count(gates)))
    every.append(Candidate((), ()))
    alone = []
    for one in every:
        circuit = found.replica(one)
        assert len(parameter_names(circuit)) == len(one.angles)
        alone.append(clifford_noise_resilience(circuit, device, space.qubits, seed=3))
    assert found.resiliences(every) == pytest.approx(alone, abs=1e-12)
    assert len({round(one, 6) for one in alone}) > 3
