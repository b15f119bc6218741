"""Batches of different circuits: each row equals its own compiled circuit."""

import doctest
import pickle
from collections.abc import Callable

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.compiler.circuit.lifted_numbers import OperationShapes
from qfleet.engine import batch_compiler
from qfleet.errors import ArgumentError, CircuitError

A, B, C = QUBITS = cirq.LineQubit.range(3)
X, P, R = sympy.symbols("x p r")
SUMS = [cirq.Z(A), cirq.X(B) * cirq.Y(C) + 0.5 * cirq.Z(C), cirq.X(A) - 2.0]
GATES: list[Callable[[float], cirq.Operation]] = [
    lambda t: cirq.rx(t)(A),
    lambda t: cirq.ry(t)(B).with_tags("tag", t),
    lambda t: cirq.X(C) ** t,
    lambda t: cirq.XPowGate(exponent=t, global_shift=0.3)(A),
    lambda t: cirq.rx(t).controlled(2, control_values=[0, 1])(A, B, C),
    lambda t: cirq.XPowGate(exponent=t, global_shift=0.3)(A).controlled_by(B, C),
    lambda t: cirq.PhasedXZGate(x_exponent=t, z_exponent=t / 3, axis_phase_exponent=0.2)(B),
    lambda t: cirq.PhasedXZGate(
        x_exponent=t, z_exponent=0.1, axis_phase_exponent=t
    )(B).controlled_by(A),
    lambda t: cirq.PhasedISwapPowGate(phase_exponent=t, exponent=0.4)(A, C),
    lambda t: cirq.FSimGate(t, t / 2)(C, B),
    lambda t: cirq.CCX(A, B, C) ** t,
    lambda t: cirq.ZZ(A, B) ** t,
    lambda t: cirq.CZ(B, A) ** t,
    lambda _: cirq.rx(2 * X + 0.1)(B),
    lambda _: cirq.CX(A, B) ** P,
    lambda _: cirq.rz(X * P + R)(C).controlled_by(A, control_values=[0]),
    lambda t: cirq.MatrixGate(cirq.unitary(cirq.ry(t)))(B),
    lambda t: cirq.ParallelGate(cirq.X**t, 2)(A, C),
]  # fmt: skip


def random_circuit(structure: int, seed: int, kinds: int = len(GATES)) -> cirq.Circuit:
    """Return a circuit whose gates depend on `structure` and their numbers on `seed`."""
    chosen = np.random.default_rng(structure).integers(kinds, size=12)
    draw = np.random.default_rng(seed)
    layer = [cirq.H.on_each(*QUBITS), cirq.I.on_each(*QUBITS)]
    return cirq.Circuit(layer, (GATES[one](float(draw.uniform(-2, 2))) for one in chosen))


CIRCUITS = [random_circuit(seed % 4, seed) for seed in range(12)]
POINT = np.random.default_rng(3).uniform(-1, 1, (12, 1)), np.array([0.4, -0.7])


def one_by_one(
    circuits: list[cirq.Circuit], rows: np.ndarray, shared: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values and gradients of circuits that are compiled by themselves."""
    found = [
        qfleet.compile(circuit, ["x"], ["p", "r"], SUMS).value_and_gradient(row, shared, weight)
        for circuit, row, weight in zip(circuits, rows, weights, strict=True)
    ]
    inputs = [gradients.inputs for _, gradients in found]
    assert all(one is not None for one in inputs)
    by_parameters = np.sum([gradients.parameters for _, gradients in found], axis=0)
    return np.stack([values for values, _ in found]), np.stack(inputs), by_parameters


def test_batch_equals_circuits_one_by_one() -> None:
    weights = np.random.default_rng(4).normal(size=(12, 3))
    expected = one_by_one(CIRCUITS, *POINT, weights)
    batch = qfleet.compile_batch(CIRCUITS, ["x"], ["p", "r"], SUMS)
    values, gradients = batch.value_and_gradient(*POINT, weights)
    assert gradients.inputs is not None
    np.testing.assert_allclose(values, expected[0], atol=1e-12)
    np.testing.assert_allclose(gradients.inputs, expected[1], atol=1e-11)
    np.testing.assert_allclose(gradients.parameters, expected[2], atol=1e-11)
    np.testing.assert_allclose(batch.expectation(*POINT), expected[0], atol=1e-12)
    without = batch.value_and_gradient(*POINT, weights, input_gradients=False)[1]
    assert without.inputs is None
    np.testing.assert_allclose(without.parameters, expected[2], atol=1e-11)


def random_states(qubits: int = 3) -> np.ndarray:
    """Return a state for each of CIRCUITS."""
    draw = np.random.default_rng(5)
    states = draw.normal(size=(12, 2**qubits)) + 1j * draw.normal(size=(12, 2**qubits))
    return states / np.linalg.norm(states, axis=1, keepdims=True)


def test_initial_states_of_rows_equal_circuits_one_by_one() -> None:
    states, options = random_states(), {"initial_states": True}
    batch = qfleet.compile_batch(CIRCUITS, ["x"], ["p", "r"], SUMS, **options)
    values, gradients = batch.value_and_gradient(
        *POINT, initial_states=states, state_gradients=True
    )
    evolved = qfleet.compile_batch(CIRCUITS, ["x"], ["p", "r"], **options).state(
        *POINT, initial_states=states
    )
    assert gradients.initial_states is not None
    for row, circuit in enumerate(CIRCUITS):
        one = qfleet.compile(circuit, ["x"], ["p", "r"], SUMS, **options)
        point = POINT[0][row], POINT[1]
        expected, found = one.value_and_gradient(
            *point, initial_states=states[row], state_gradients=True
        )
        np.testing.assert_allclose(values[row], expected, atol=1e-12)
        np.testing.assert_allclose(gradients.initial_states[row], found.initial_states, atol=1e-12)
        alone = qfleet.compile(circuit, ["x"], ["p", "r"], **options)
        state = alone.state(*point, initial_states=states[row])
        np.testing.assert_allclose(evolved[row], state, atol=1e-12)
    states[7] *= 2
    with pytest.raises(ArgumentError, match=r"initial_states\[7\] has the norm 2"):
        batch.expectation(*POINT, initial_states=states)
    with pytest.raises(ArgumentError, match="initial_states are missing"):
        batch.expectation(*POINT)


@pytest.mark.parametrize(
    ("options", "noisy"), [({"shots": 4000}, False), ({"trajectories": 4000}, True)]
)
def test_estimates_of_rows_follow_the_exact_values(options: dict[str, int], noisy: bool) -> None:
    noise = [cirq.amplitude_damp(0.2).on_each(*QUBITS)] * noisy
    circuits = [circuit + noise for circuit in CIRCUITS]
    exact = qfleet.compile_batch(circuits, ["x"], ["p", "r"], SUMS).expectation(*POINT)
    estimates = [
        qfleet.compile_batch(circuits, ["x"], ["p", "r"], SUMS, **options, seed=seed).expectation(
            *POINT
        )
        for seed in (1, 1, 2)
    ]
    np.testing.assert_allclose(estimates[0], exact, atol=0.12)
    np.testing.assert_array_equal(estimates[0], estimates[1])
    assert not np.array_equal(estimates[0], estimates[2])


@pytest.mark.parametrize("gate", [*range(13), 16, 17])
def test_rows_of_a_gate_equal_their_circuits(gate: int) -> None:
    circuits = [
        cirq.Circuit(cirq.H.on_each(*QUBITS), GATES[gate](t), cirq.ry(0.3).on_each(*QUBITS))
        for t in (-1.0, 0.0, 0.3, 1.0, 3.0)
    ]
    states = qfleet.compile_batch(circuits).state()
    for state, circuit in zip(states, circuits, strict=True):
        expected = circuit.final_state_vector(qubit_order=QUBITS, dtype=np.complex128)
        np.testing.assert_allclose(state, expected, atol=1e-12)


def test_circuits_of_one_structure_are_one_group() -> None:
    rows = [(0, 1), (2, 1), (0, 2), (0, 1), (2, 5)]  # structures and seeds
    circuits = [random_circuit(*row, kinds=len(GATES) - 2) for row in rows]
    batch = qfleet.compile_batch(circuits, ["x"], ["p", "r"], SUMS)
    assert [group.rows.tolist() for group in batch.groups] == [[0, 2, 3], [1, 4]]


def test_numbers_and_moments_do_not_part_groups() -> None:
    first = cirq.Circuit(cirq.X(A), cirq.X(A) ** 0.5, cirq.CZ(A, B))
    later = cirq.Circuit(
        [cirq.Moment(), cirq.Moment(cirq.X(A)), cirq.Moment(), cirq.Moment(cirq.X(A) ** 0.2)],
        cirq.Moment(cirq.CZ(B, A)),
    )
    batch = qfleet.compile_batch([first, later], observables=cirq.Z(A))
    (group,) = batch.groups
    np.testing.assert_array_equal(group.numbers, [[0.5], [0.2]])
    np.testing.assert_allclose(batch.expectation()[:, 0], [0, -np.cos(0.2 * np.pi)], atol=1e-12)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (cirq.XPowGate(global_shift=-0.5), cirq.X),
        (cirq.X**1.0, cirq.X**3.0),
        (cirq.rz(0.1), cirq.ZPowGate(exponent=0.1 / np.pi)),
        (cirq.rx(2 * np.pi), cirq.X**2),
        (cirq.MatrixGate(-np.eye(2)), cirq.MatrixGate(np.eye(2))),
    ],
)  # fmt: skip
def test_controlled_phases_stay(one: cirq.Gate, other: cirq.Gate) -> None:
    circuits = [
        cirq.Circuit(cirq.H.on_each(A, B), gate.controlled(1)(A, B), cirq.H(A))
        for gate in (one, other, one)
    ]
    states = qfleet.compile_batch(circuits).state()
    for state, circuit in zip(states, circuits, strict=True):
        np.testing.assert_allclose(state, circuit.final_state_vector(dtype=complex), atol=1e-12)


@cirq.value_equality
class OfUser(cirq.Gate):
    """Equal to all gates of its class."""

    def __init__(self, angle: float) -> None:
        self.angle = angle

    def _value_equality_values_(self) -> str:
        return "equal"

    def _num_qubits_(self) -> int:
        return 1

    def _unitary_(self) -> np.ndarray:
        return cirq.unitary(cirq.ry(self.angle))


def test_equal_gates_of_a_user_are_two_groups() -> None:
    circuits = [cirq.Circuit(OfUser(angle)(A)) for angle in (0.1, 0.9)]
    batch = qfleet.compile_batch(circuits, observables=cirq.Z(A))
    assert len(batch.groups) == 2
    np.testing.assert_allclose(batch.expectation()[:, 0], np.cos([0.1, 0.9]))


def test_gate_without_symbolic_form_keeps_its_number() -> None:
    qubits = cirq.LineQubit.range(6)
    wide = [cirq.ry(t).controlled(5)(*qubits) for t in (0.2, 0.2, 0.4)]
    shapes = OperationShapes()
    assert all(part.is_fixed for one in wide for part in shapes.of_circuit(cirq.Circuit(one)))
    circuits = [cirq.Circuit(cirq.X.on_each(*qubits[:-1]), one) for one in wide]
    batch = qfleet.compile_batch(circuits, observables=cirq.Z(qubits[-1]))
    assert len(batch.groups) == 2
    np.testing.assert_allclose(batch.expectation()[:, 0], np.cos([0.2, 0.2, 0.4]), atol=1e-12)


def test_new_symbols_leave_names_of_the_user() -> None:
    x0 = sympy.Symbol("x0")
    circuits = [cirq.Circuit(cirq.ry(t)(A), cirq.ry(x0)(A)) for t in (0.1, 0.2)]
    circuits += [cirq.Circuit(cirq.ry(t)(A), cirq.Y(A)) for t in (0.1, 0.2)]
    batch = qfleet.compile_batch(circuits, ["x0"], observables=cirq.Z(A))
    found = batch.expectation([[0.5], [0.6], [0.7], [0.8]])[:, 0]
    np.testing.assert_allclose(found, [*np.cos([0.6, 0.8]), *-np.cos([0.1, 0.2])], atol=1e-12)


def test_noise_and_precision_apply_to_each_row() -> None:
    circuits = [
        cirq.Circuit(cirq.ry(t)(A), cirq.depolarize(rate)(A))
        for t, rate in ((0.1, 0.3), (0.2, 0.3), (0.3, 0.6))
    ]
    batch = qfleet.compile_batch(circuits, observables=cirq.Z(A), dtype="complex64")
    values = batch.expectation()
    assert values.dtype == np.float32
    assert [group.rows.tolist() for group in batch.groups] == [[0, 1], [2]]
    expected = np.cos([0.1, 0.2, 0.3]) * (1 - 4 / 3 * np.array([0.3, 0.3, 0.6]))
    np.testing.assert_allclose(values[:, 0], expected, atol=1e-6)


def test_example_of_the_docstring_passes() -> None:
    assert doctest.testmod(batch_compiler) == (0, 7)


def test_batch_survives_pickling() -> None:
    batch = qfleet.compile_batch(CIRCUITS, ["x"], ["p", "r"], SUMS)
    again = pickle.loads(pickle.dumps(batch))
    np.testing.assert_array_equal(again.expectation(*POINT), batch.expectation(*POINT))


def test_description_counts_groups() -> None:
    circuits = [cirq.Circuit(cirq.X(A) for _ in range(count)) for count in range(1, 31)]
    lines = qfleet.compile_batch(circuits, observables=cirq.Z(A)).describe().splitlines()
    assert lines[0].startswith("30 circuits in 30 groups")
    assert len(lines) == 22
    assert lines[-1] == "  and 10 groups"


GOOD = cirq.Circuit(cirq.rx(X)(A), cirq.CX(A, B))


@pytest.mark.parametrize(
    ("circuits", "options", "fragment"),
    [
        ([], {}, "circuits is empty"),
        ([GOOD, cirq.Circuit(cirq.X(A), cirq.X(C))], {}, r"circuit 1 .* acts on q\(1\), q\(2\)"),
        ([GOOD], {"observables": [cirq.Z(A), cirq.Z(C)]}, r"observables\[1\] acts on q\(2\)"),
        ([GOOD, GOOD + cirq.ry(R)(B)], {"inputs": ["x"], "parameters": []}, "circuit 1: .* r, "),
        ([GOOD], {"inputs": ["x"], "parameters": ["x"]}, "symbol x is listed more than once"),
        ([GOOD, GOOD + cirq.measure(A)], {}, "circuit 1: .* in moment 2"),
    ],
)  # fmt: skip
def test_wrong_circuits_raise_one_sentence(
    circuits: list[cirq.Circuit], options: dict[str, object], fragment: str
) -> None:
    with pytest.raises(CircuitError, match=fragment) as caught:
        qfleet.compile_batch(circuits, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("inputs", [None, [0.1], [[0.1]], [[0.1, 0.2]] * 2])
def test_inputs_of_another_shape_raise(inputs: object) -> None:
    batch = qfleet.compile_batch([GOOD, GOOD], ["x"], observables=cirq.Z(A))
    with pytest.raises(ArgumentError, match=r"^inputs (is|are|has)"):
        batch.expectation(inputs)  # type: ignore[arg-type]
