"""Super-circuits, optimizers, spaces, costs and fronts of the ansatz search."""

import itertools
import re

import cirq
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from qfleet.engine import memory
from qfleet.engine.compiled_circuit import compile_circuit
from qfleet.errors import ArgumentError, CircuitError, MemoryLimitError
from qfleet.problems import named
from qfleet.search import (
    Candidate,
    Evolution,
    GatePruning,
    Space,
    SpaceGate,
    SuperCircuit,
    blocks,
    circuit_cost,
    excitations,
    layers,
    pareto_front,
    pauli_strings,
    super_circuit_of,
)
from qfleet.search.gate_gradients import Screen
from qfleet.search.known_controls import without_known_controls
from qfleet.search.layers import pairs_of
from qfleet.search.memory import require_memory
from qfleet.search.optimizers import adam, lbfgs
from qfleet.search.pareto import crowding, ranks
from qfleet.search.simplify import simplified
from qfleet.search.super_circuit import places, supersequence

LINE = cirq.LineQubit.range(3)
A, B = sympy.symbols("a b")
GATES = (
    cirq.ry(A)(LINE[0]),
    cirq.CNOT(LINE[0], LINE[1]),
    [cirq.rx(A)(LINE[1]), cirq.CNOT(LINE[1], LINE[2]), cirq.rz(B)(LINE[2])],
    cirq.ISWAP(LINE[0], LINE[2]) ** A,
    cirq.H(LINE[2]),
)
SUM = 0.7 * cirq.Z(LINE[0]) * cirq.Z(LINE[2]) - 0.4 * cirq.X(LINE[1]) + 0.2 * cirq.Y(LINE[2])


def space() -> Space:
    return Space.of_operations(GATES, [cirq.H(LINE[0])], LINE)


def energy(circuit: cirq.Circuit) -> float:
    state = cirq.Simulator(dtype=np.complex128).simulate(circuit, qubit_order=LINE)
    return float(SUM.expectation_from_state_vector(
        state.final_state_vector, {one: at for at, one in enumerate(LINE)}
    ).real)  # fmt: skip


def test_super_circuit_agrees_with_circuits_of_all_masks() -> None:
    whole = space()
    program = SuperCircuit(whole.gates, SUM, LINE, whole.start)
    masks = np.array(list(itertools.product([False, True], repeat=5)))
    angles = np.random.default_rng(0).uniform(-1, 1, (len(masks), program.angles))
    values, gradients = program.value_and_gradient(masks, angles)
    for row, mask in enumerate(masks):
        gates = np.flatnonzero(mask).tolist()
        columns = program.columns(gates)

        def value(own: np.ndarray, gates: list[int] = gates) -> float:
            return energy(whole.circuit(gates, own))

        own = angles[row, columns]
        assert values[row] == pytest.approx(value(own), abs=1e-9)
        slopes = [(value(own + one) - value(own - one)) / 2e-5 for one in 1e-5 * np.eye(len(own))]
        np.testing.assert_allclose(gradients[row, columns], slopes, atol=1e-8)
        assert not np.delete(gradients[row], columns).any()


def test_super_circuit_rows_do_not_depend_on_the_batch() -> None:
    whole = space()
    program = SuperCircuit(whole.gates, SUM, LINE, whole.start)
    masks = np.random.default_rng(1).random((9, 5)) < 0.6
    angles = np.random.default_rng(2).uniform(-1, 1, (9, program.angles))
    values, gradients = program.value_and_gradient(masks, angles)
    for row in range(9):
        one = program.value_and_gradient(masks[row : row + 1], angles[row : row + 1])
        np.testing.assert_allclose(one[0], values[row : row + 1], atol=1e-14)
        np.testing.assert_allclose(one[1], gradients[row : row + 1], atol=1e-14)


@pytest.mark.parametrize(
    "whole",
    [layers(4, 2), layers(3, 1, rotations="yz", entangler="zz"), excitations(4, 2), space()],
    ids=["layers", "zz", "excitations", "own"],
)
def test_gates_that_are_off_are_as_if_not_there(whole: Space) -> None:
    """Rows of a tile lack the same gates, others have random ones; some angles are 0."""
    random = np.random.default_rng(len(whole.gates))
    first = cirq.LineQubit.range(len(whole.qubits))
    observable = cirq.PauliSum.from_pauli_strings(
        [0.7 * cirq.Z(first[0]) * cirq.Z(first[2]), -0.4 * cirq.X(first[1]), 0.2 * cirq.Y(first[2])]
    )
    few = random.random(len(whole.gates)) < 0.2
    masks = np.array([few] * 16 + [random.random(len(whole.gates)) < 0.4 for _ in range(9)])
    program = SuperCircuit(whole.gates, observable, whole.qubits, whole.start)
    angles = random.uniform(-1, 1, (len(masks), program.angles))
    angles[random.random(angles.shape) < 0.3] = 0.0
    values, gradients = program.value_and_gradient(masks, angles)
    readouts, gradient = program.readouts(masks, angles)
    np.testing.assert_allclose(readouts[:, 0], values, atol=1e-13)
    owned = program.owned(masks)
    found = np.where(owned, gradient(np.ones_like(readouts)), 0.0)
    np.testing.assert_allclose(found, gradients, atol=1e-13)
    for row in (0, 15, 16, 20, 24):
        gates = np.flatnonzero(masks[row]).tolist()
        columns = program.columns(gates)
        names = [f"a{at}" for at in range(len(columns))]
        alone = compile_circuit(
            whole.circuit(gates, sympy.symbols(names)), names, (), [observable]
        ).value_and_gradient(angles[row, columns])
        assert values[row] == pytest.approx(alone[0][0], abs=1e-12)
        np.testing.assert_allclose(gradients[row, columns], alone[1].inputs, atol=1e-12)
        assert not np.delete(gradients[row], columns).any()


def test_screen_has_the_gradient_of_each_gate_after_a_candidate() -> None:
    gates = (*space().gates, *blocks(3).gates, *pauli_strings(["XYZ", "IZZ"]).gates)
    whole = Space((*gates, *gates), tuple(LINE), (cirq.H(LINE[0]),))
    candidate = Candidate((0, 1, 2), (0.4, -0.2, 0.7))
    (found,) = Screen(whole, SUM).gradients([candidate])
    for number, gate in enumerate(whole.gates):
        slopes = [
            energy(whole.circuit((0, 1, 2, number), [*candidate.angles, *step]))
            - energy(whole.circuit((0, 1, 2, number), [*candidate.angles, *-step]))
            for step in 1e-5 * np.eye(len(gate.angles))
        ]
        assert found[number] == pytest.approx(np.linalg.norm(slopes) / 2e-5, abs=1e-8), gate.name


def rosenbrock(rows: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, y = points.T
    scale = 1.0 + rows  # another function per row
    values = scale * ((1 - x) ** 2 + 10 * (y - x**2) ** 2)
    slopes = np.stack([-2 * (1 - x) - 40 * x * (y - x**2), 20 * (y - x**2)], axis=1)
    return values, scale[:, None] * slopes


@pytest.mark.parametrize(("optimizer", "most"), [(lbfgs, 200), (adam, 6000)])
def test_optimizers_find_the_minimum_of_each_row(optimizer: object, most: int) -> None:
    start = np.random.default_rng(0).uniform(-1, 1, (6, 2))
    found = optimizer(rosenbrock, start, evaluations=most, tolerance=1e-12)  # type: ignore[operator]
    np.testing.assert_allclose(found.points, 1, atol=1e-3)
    assert found.values.max() < 1e-6
    assert found.evaluations.max() <= most


@pytest.mark.parametrize("optimizer", [lbfgs, adam])
def test_optimizers_leave_rows_that_have_stopped(optimizer: object) -> None:
    sizes = []

    def function(rows: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sizes.append(len(rows))
        return rosenbrock(rows, points)

    start = np.array([[1.0, 1.0], [-1.0, 1.5]])  # the first begins at the minimum
    found = optimizer(function, start, evaluations=300, tolerance=1e-9)  # type: ignore[operator]
    assert sizes[0] == 2
    assert sizes[-1] == 1
    assert found.evaluations[0] < found.evaluations[1]
    assert found.evaluations.sum() == sum(sizes)


@pytest.mark.parametrize("optimizer", [lbfgs, adam])
def test_optimizers_treat_rows_independently(optimizer: object) -> None:
    start = np.random.default_rng(3).uniform(-1, 1, (5, 2))
    together = optimizer(rosenbrock, start, evaluations=40, tolerance=1e-9)  # type: ignore[operator]

    def third(rows: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rosenbrock(rows + 3, points)

    alone = optimizer(third, start[3:4], evaluations=40, tolerance=1e-9)  # type: ignore[operator]
    np.testing.assert_array_equal(alone.points[0], together.points[3])


sequences = st.lists(st.integers(0, 4), max_size=8)


@given(sequences, sequences)
def test_supersequence_contains_both(first: list[int], second: list[int]) -> None:
    merged = supersequence(first, second)
    for one in (first, second):
        found = places(one, merged)
        assert found is not None
        assert [merged[at] for at in found] == one
    assert len(merged) <= len(first) + len(second)


points = st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=1, max_size=20)


@given(points)
def test_pareto_front_has_what_nothing_dominates(values: list[tuple[int, ...]]) -> None:
    array = np.array(values)

    def dominated(at: int) -> bool:
        better = (array <= array[at]).all(axis=1) & (array < array[at]).any(axis=1)
        return bool(better.any())

    front = pareto_front(array)
    assert not any(map(dominated, front))
    assert len({values[at] for at in front}) == len(front)
    for at, value in enumerate(values):
        assert dominated(at) or value in {values[one] for one in front}
    assert [values[at] for at in front] == sorted(values[at] for at in front)


@given(points)
def test_ranks_begin_with_the_front_and_leave_no_gap(values: list[tuple[int, ...]]) -> None:
    found = ranks(values)
    assert set(pareto_front(values)) <= set(np.flatnonzero(found == 0))
    assert set(found) == set(range(int(found.max()) + 1))
    for level in range(1, int(found.max()) + 1):
        for at in np.flatnonzero(found == level):
            above = np.array(values)[found == level - 1]
            assert (above <= np.array(values)[at]).all(axis=1).any()


def test_pareto_front_puts_nan_last() -> None:
    assert pareto_front([[np.nan, 1.0], [2.0, 1.0], [np.nan, 0.0]]) == [1, 2]


def test_crowding_is_infinite_at_the_ends() -> None:
    found = crowding([[0.0, 3.0], [1.0, 1.0], [3.0, 0.0]])
    assert np.isinf(found[[0, 2]]).all()
    assert found[1] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("operations", "cnots", "depth"),
    [
        ([cirq.CNOT(*LINE[:2]), cirq.CNOT(*LINE[:2])], 0, 0),
        ([cirq.CNOT(*LINE[:2]), cirq.ry(0.3)(LINE[0]), cirq.CNOT(*LINE[:2])], 2, 2),
        ([cirq.CZ(*LINE[:2]), cirq.CZ(*LINE[1:])], 2, 2),
        ([cirq.SWAP(*LINE[:2])], 3, 3),
        ([cirq.ISWAP(*LINE[:2]), cirq.X(LINE[2])], 2, 2),
        ([cirq.givens(0.0)(*LINE[:2])], 0, 0),
        ([cirq.CCX(*LINE)], 8, 8),
        ([], 0, 0),
    ],
)
def test_circuit_cost_counts_cnots(
    operations: list[cirq.Operation], cnots: int, depth: int
) -> None:
    found = circuit_cost(cirq.Circuit(operations))
    assert found.two_qubit_gates <= cnots
    assert found.depth <= depth
    if len(operations) != 1 or operations[0].gate != cirq.CCX:
        assert found == (cnots, depth)


def test_circuit_cost_refuses_symbols() -> None:
    with pytest.raises(ArgumentError, match="free symbol a"):
        circuit_cost(cirq.Circuit(GATES[0]))


@pytest.mark.parametrize("kind", ["fermionic", "qubit", "fan"])
def test_excitations_turn_hartree_fock_into_one_state(kind: str) -> None:
    whole = excitations(4, 2, kind)  # type: ignore[arg-type]
    for number, gate in enumerate(whole.gates):
        state = whole.circuit([number], [0.8]).final_state_vector()
        kept = np.flatnonzero(np.abs(state) > 1e-6)
        assert 0b1100 in kept, gate.name
        assert len(kept) == 2, gate.name
        assert [int(bits).bit_count() for bits in kept] == [2, 2], gate.name


@pytest.mark.parametrize("kind", ["fermionic", "qubit"])
def test_excitations_keep_the_number_of_electrons(kind: str) -> None:
    whole = excitations(5, 2, kind)  # type: ignore[arg-type]
    random = np.random.default_rng(0)
    gates = random.permutation(len(whole.gates)).tolist()
    state = whole.circuit(gates, random.uniform(-1, 1, len(gates))).final_state_vector()
    kept = np.flatnonzero(np.abs(state) > 1e-6)
    assert len(kept) > 4
    assert all(int(bits).bit_count() == 2 for bits in kept)


def test_excitations_have_their_number_of_cnots() -> None:
    costs = {
        (kind, len(gate.name.partition(">")[0].partition(" ")[2].split(","))): circuit_cost(
            cirq.Circuit(gate.with_angles([0.3]))
        ).two_qubit_gates
        for kind in ("qubit", "fan")
        for gate in excitations(4, 2, kind).gates  # type: ignore[arg-type]
    }
    assert costs[("qubit", 1)] == 2
    assert costs[("qubit", 2)] <= 14
    assert costs[("fan", 1)] == 1
    assert costs[("fan", 2)] == 3


def test_layers_has_entanglers_between_rotations() -> None:
    whole = layers(3, 2, connectivity="ring", rotations="yz")
    assert whole.ordered
    assert len(whole.gates) == 6 + 2 * (2 * 3 + 6)
    assert [gate.entangles for gate in whole.gates[5:8]] == [False, True, True]


def test_pairs_of_names_and_pairs() -> None:
    assert pairs_of(3, "line") == [(0, 1), (1, 2)]
    assert pairs_of(3, "ring") == [(0, 1), (1, 2), (2, 0)]
    assert pairs_of(3, "all") == [(0, 1), (0, 2), (1, 2)]
    assert pairs_of(3, [(2, 0)]) == [(2, 0)]


def test_super_circuit_of_a_circuit_has_its_energy() -> None:
    circuit = cirq.Circuit(
        cirq.ry(0.3)(LINE[0]), cirq.CNOT(*LINE[:2]), cirq.rz(0.4)(LINE[1]), cirq.X(LINE[2]) ** 0.3
    )
    whole, start = super_circuit_of(circuit)
    assert start.angles == (0.3, 0.4)
    again = whole.circuit(start.gates, start.angles)
    np.testing.assert_allclose(again.unitary(), circuit.unitary(), atol=1e-8)
    more, start = super_circuit_of(circuit, rotations="y")
    assert len(more.gates) == 6
    again = more.circuit(start.gates, start.angles)
    np.testing.assert_allclose(again.unitary(), circuit.unitary(), atol=1e-8)


@given(st.lists(st.tuples(st.integers(0, 5), st.permutations(LINE)), max_size=10))
def test_known_controls_are_left_out_without_a_change(
    content: list[tuple[int, list[cirq.LineQubit]]],
) -> None:
    kinds = (cirq.CNOT, cirq.CNOT, cirq.CZ, cirq.X, cirq.ry(0.7), cirq.ISWAP)
    made = [kinds[kind].on(*order[: cirq.num_qubits(kinds[kind])]) for kind, order in content]
    kept = without_known_controls(made[2:], made[:2])
    idle = [cirq.I(one) for one in LINE]
    whole, shorter = (
        cirq.Circuit(idle, made[:2], rest).final_state_vector(dtype=np.complex128)
        for rest in (made[2:], kept)
    )
    np.testing.assert_allclose(shorter, whole, atol=1e-12)
    assert len(kept) <= len(made[2:])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: SpaceGate.of(cirq.ry(A + 0.1)(LINE[0])), "not the identity"),
        (lambda: SpaceGate.of([]), "operations is empty"),
        (lambda: Space((), tuple(LINE)), "gates is empty"),
        (lambda: Space.of_operations([cirq.X(LINE[0])], qubits=LINE[1:]), "not among the qubits"),
        (lambda: layers(20, 4000), "allowed are up to"),
        (lambda: layers(3, 1, connectivity="star"), "connectivity"),
        (lambda: layers(3, 1, connectivity=[(0, 0)]), "different qubits"),
        (lambda: layers(3, 1, rotations="w"), "rotations has 'w'"),
        (lambda: layers(3, 1, entangler="swap"), "entangler"),
        (lambda: excitations(4, 4), "fewer than the 4 qubits"),
        (lambda: pauli_strings(["XZ", "II"]), "words has 'II'"),
        (lambda: pauli_strings(["XZ", "XYZ"]), "words has 'XZ'"),
    ],
)
def test_spaces_refuse_wrong_arguments(make: object, text: str) -> None:
    with pytest.raises(ArgumentError, match=text) as caught:
        make()  # type: ignore[operator]
    assert "\n" not in str(caught.value)


def test_super_circuit_of_refuses_symbols() -> None:
    with pytest.raises(CircuitError, match="symbols"):
        super_circuit_of(cirq.Circuit(GATES[0]))


def test_blocks_have_one_cnot_and_two_angles() -> None:
    whole = blocks(3)
    assert [len(gate.angles) for gate in whole.gates] == [2] * 4
    assert all(gate.switched for gate in whole.gates)
    assert named("tfim:3:1").qubits == len(whole.qubits)


SYMBOLS = sympy.symbols("a b c")
VALUES = {"a": 0.3, "b": -0.7, "c": 1.1}


@pytest.mark.parametrize(
    ("operations", "count", "symbols"),
    [
        ([cirq.ry(SYMBOLS[0])(LINE[0]), cirq.ry(SYMBOLS[1])(LINE[0])], 1, {"a": -0.4}),
        ([cirq.ry(SYMBOLS[0] / 2)(LINE[0])], 1, {"a": 0.15}),
        ([cirq.ry(SYMBOLS[0])(LINE[0]), cirq.ry(-SYMBOLS[0])(LINE[0])], 0, {}),
        ([cirq.ry(SYMBOLS[0])(LINE[0]), cirq.rx(SYMBOLS[1])(LINE[0])], 2, {"a": 0.3, "b": -0.7}),
        ([cirq.ry(SYMBOLS[0])(LINE[0]), cirq.ry(SYMBOLS[0])(LINE[1])], 2, {"a": 0.3}),
        ([cirq.CNOT(*LINE[:2]), cirq.CNOT(*LINE[:2])], 0, {}),
        ([cirq.CNOT(*LINE[:2]), cirq.CNOT(LINE[1], LINE[0])], 2, {}),
        ([cirq.CZ(*LINE[:2]), cirq.CZ(LINE[1], LINE[0])], 0, {}),
        ([cirq.CNOT(*LINE[:2]), cirq.X(LINE[2]), cirq.CNOT(*LINE[:2])], 1, {}),
        ([cirq.CNOT(*LINE[:2]), cirq.X(LINE[0]), cirq.CNOT(*LINE[:2])], 3, {}),
        ([cirq.X(LINE[0]), cirq.CNOT(*LINE[:2]), cirq.CNOT(*LINE[:2]), cirq.X(LINE[0])], 0, {}),
        ([cirq.S(LINE[0]), cirq.S(LINE[0])], 2, {}),
    ],
)
def test_simplified_circuit_is_equal_with_fewer_gates(operations, count, symbols) -> None:
    circuit = cirq.Circuit(operations)
    found, values = simplified(circuit, VALUES)
    assert sum(one.gate != cirq.I for one in found.all_operations()) == count
    assert values == pytest.approx(symbols)
    before = cirq.resolve_parameters(circuit, VALUES).unitary(qubit_order=LINE)
    after = cirq.resolve_parameters(found, values).unitary(qubit_order=LINE)
    cirq.testing.assert_allclose_up_to_global_phase(after, before, atol=1e-9)


@pytest.mark.parametrize("kind", ["qubit", "fermionic", "pair", "fan"])
def test_simplified_excitations_are_equal(kind: str) -> None:
    space = excitations(4, 2, kind)  # type: ignore[arg-type]
    gates = [*range(len(space.gates))] * 2
    names = [f"angle_{at}" for at in range(space.angle_count(gates))]
    values = {name: 0.1 * at - 0.3 for at, name in enumerate(names)}
    circuit = space.circuit(gates, sympy.symbols(names))
    found, left = simplified(circuit, values)
    before = cirq.resolve_parameters(circuit, values).unitary(qubit_order=cirq.LineQubit.range(4))
    after = cirq.resolve_parameters(found, left).unitary(qubit_order=cirq.LineQubit.range(4))
    cirq.testing.assert_allclose_up_to_global_phase(after, before, atol=1e-9)


def test_generation_that_does_not_fit_names_the_gates_that_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = layers(6, 200)
    require_memory(whole, Evolution())
    monkeypatch.setattr(memory, "available_bytes", lambda: 300 << 20)
    require_memory(whole, Evolution())
    with pytest.raises(MemoryLimitError, match=r"3,206 gates takes [0-9,]+ bytes") as caught:
        require_memory(whole, GatePruning())
    fits = int(re.search(r"at most ([0-9,]+) gates", str(caught.value))[1].replace(",", ""))
    require_memory(layers(6, fits // 16 - 1), GatePruning())
    with pytest.raises(MemoryLimitError, match="in each of 3 processes"):
        require_memory(whole, GatePruning(), processes=3)


def test_wide_words_and_long_lists_take_no_time() -> None:
    assert len(pauli_strings(["XYZ" * 6]).gates) == 1
    with pytest.raises(ArgumentError, match="1,000,000 gates"):
        pauli_strings(["XX"] * 1_000_000)
