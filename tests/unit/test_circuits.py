"""Circuits: structure, and gradients by every angle."""

from collections.abc import Callable

import cirq
import numpy as np
import pytest
import sympy

from qfleet.circuits import (
    PLACEMENTS,
    ModelCircuit,
    cluster_state,
    full_layers,
    hybrid_layers,
    one_qubit_unitary,
    qcnn,
    two_qubit_pool,
    two_qubit_unitary,
)
from qfleet.circuits.encoders import reupload_circuit
from qfleet.circuits.qcnn import SYMBOLS_PER_LAYER, convolution, pooling
from qfleet.errors import CircuitError
from qfleet.placement import data_symbols

WIDTHS = (2, 3, 4, 5, 6, 7, 8)
LINE = cirq.LineQubit.range(16)


def symbols(count: int) -> list[sympy.Symbol]:
    return [sympy.Symbol(f"s_{i:02d}") for i in range(count)]


def gradients(made: ModelCircuit, seed: int) -> dict[str, float]:
    """Differentiate a randomly weighted sum of readouts by each symbol, in complex128.

    Each gate is differentiated by central differences of its unitary; states before and after it
    are exact. So a symbol's gradient is the sum over the gates that hold it.
    """
    generator = np.random.default_rng(seed)
    names = made.inputs + made.parameters
    angles = dict(zip(names, generator.uniform(-np.pi, np.pi, len(names)), strict=True))
    n, axis = len(made.qubits), {qubit: i for i, qubit in enumerate(made.qubits)}

    def apply(gate: np.ndarray, op: cirq.Operation, state: np.ndarray) -> np.ndarray:
        k, axes = len(op.qubits), [axis[qubit] for qubit in op.qubits]
        gate = gate.reshape((2,) * (2 * k))
        return np.moveaxis(np.tensordot(gate, state, (range(k, 2 * k), axes)), range(k), axes)

    operations = list(made.circuit.all_operations())
    unitaries = [cirq.unitary(cirq.resolve_parameters(op, angles)) for op in operations]
    state = np.zeros((2,) * n, complex)
    state[(0,) * n] = 1
    for op, unitary in zip(operations, unitaries, strict=True):
        state = apply(unitary, op, state)
    observable = sum(
        weight * readout
        for weight, readout in zip(
            generator.uniform(0.5, 1, len(made.observables)), made.observables, strict=True
        )
    )
    # Of Z alone, so diagonal.
    costate = np.diag(observable.matrix(made.qubits)).reshape(state.shape) * state
    found = dict.fromkeys(names, 0.0)
    for op, unitary in zip(reversed(operations), reversed(unitaries), strict=True):
        state = apply(unitary.conj().T, op, state)
        for name in cirq.parameter_names(op):
            step = 1e-5
            up, down = (
                cirq.unitary(cirq.resolve_parameters(op, {**angles, name: angles[name] + h}))
                for h in (step, -step)
            )
            turned = apply((up - down) / (2 * step), op, state)
            found[name] += 2 * np.vdot(costate, turned).real
        costate = apply(unitary.conj().T, op, costate)
    return found


@pytest.mark.parametrize("placement", [one for one in PLACEMENTS if one != "amplitude"])
@pytest.mark.parametrize("cut", [full_layers, hybrid_layers])
@pytest.mark.parametrize("qubits", WIDTHS)
def test_readouts_depend_on_every_symbol(
    qubits: int, cut: Callable[[int], int], placement: str
) -> None:
    made = qcnn(qubits, layers=cut(qubits), encoder=placement)
    found = gradients(made, seed=qubits)
    assert len(found) == qubits + SYMBOLS_PER_LAYER * cut(qubits)
    dead = [name for name, gradient in found.items() if abs(gradient) < 1e-6]
    assert dead == []


def test_gradients_equal_differences_of_cirq() -> None:
    made = qcnn(3)
    found = gradients(made, seed=5)
    generator = np.random.default_rng(5)
    names = made.inputs + made.parameters
    angles = dict(zip(names, generator.uniform(-np.pi, np.pi, len(names)), strict=True))
    weight = generator.uniform(0.5, 1, 1)[0]
    simulator = cirq.Simulator(dtype=np.complex128)
    for name in ("x_01", "theta_00_00", "theta_01_20"):
        up, down = (
            simulator.simulate_expectation_values(
                made.circuit, list(made.observables), {**angles, name: angles[name] + h}
            )[0].real
            for h in (1e-5, -1e-5)
        )
        assert found[name] == pytest.approx(weight * (up - down) / 2e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("block", "count", "qubits"),
    [
        (lambda s: one_qubit_unitary(LINE[0], s), 3, 1),
        (lambda s: two_qubit_unitary(LINE[0], LINE[1], s), 15, 2),
    ],
)
def test_unitary_block_spans_its_group(
    block: Callable[[list[sympy.Symbol]], cirq.Circuit], count: int, qubits: int
) -> None:
    names = symbols(count)
    circuit = block(names)
    at = dict(zip(names, np.random.default_rng(1).uniform(-3, 3, count), strict=True))

    def unitary(values: dict) -> np.ndarray:
        return cirq.unitary(cirq.resolve_parameters(circuit, values))

    tangents = []
    for name in names:
        step = 1e-6
        up, down = (unitary({**at, name: at[name] + h}) for h in (step, -step))
        tangent = unitary(at).conj().T @ (up - down) / (2 * step)
        tangent -= np.trace(tangent) / 2**qubits * np.eye(2**qubits)  # the phase is free
        tangents.append(np.concatenate([tangent.real.ravel(), tangent.imag.ravel()]))
    assert np.linalg.matrix_rank(np.array(tangents), tol=1e-4) == count == 4**qubits - 1


def test_symbols_are_radians() -> None:
    turn = cirq.resolve_parameters(
        one_qubit_unitary(LINE[0], symbols(3)), {"s_00": np.pi, "s_01": 0, "s_02": 0}
    )
    cirq.testing.assert_allclose_up_to_global_phase(
        cirq.unitary(turn), cirq.unitary(cirq.X), atol=1e-7
    )


def test_pool_with_source_zero_keeps_the_sink() -> None:
    angles = {f"s_{i:02d}": 0.3 + i for i in range(3)} | {f"s_{i:02d}": 0.0 for i in range(3, 6)}
    pool = cirq.resolve_parameters(two_qubit_pool(LINE[0], LINE[1], symbols(6)), angles)
    blocks = cirq.unitary(pool).reshape(2, 2, 2, 2)
    np.testing.assert_allclose(blocks[0, :, 0, :], np.eye(2), atol=1e-7)
    assert not np.allclose(blocks[1, :, 1, :], np.eye(2))


def test_block_with_wrong_number_of_symbols_raises() -> None:
    with pytest.raises(ValueError, match="15 symbols, but 14 symbols"):
        two_qubit_unitary(LINE[0], LINE[1], symbols(14))


@pytest.mark.parametrize("qubits", [2, 3, 4, 7])
def test_cluster_state_has_its_stabilizers(qubits: int) -> None:
    line = LINE[:qubits]
    state = cluster_state(line).final_state_vector(dtype=np.complex128)
    for i in range(qubits):
        neighbours = {line[i - 1], line[(i + 1) % qubits]}
        stabiliser = cirq.X(line[i]) * cirq.PauliString(map(cirq.Z, neighbours))
        value = stabiliser.expectation_from_state_vector(
            state, {qubit: j for j, qubit in enumerate(line)}
        )
        assert value == pytest.approx(1)


def pairs(circuit: cirq.Circuit, gate: type) -> list[tuple[int, int]]:
    """Return the qubit numbers of the gates of one type, in order."""
    return [
        tuple(qubit.x for qubit in op.qubits)
        for op in circuit.all_operations()
        if isinstance(op.gate, gate)
    ]


@pytest.mark.parametrize(
    ("active", "expected"),
    [
        (2, [(0, 1), (1, 0)]),
        (3, [(0, 1), (1, 2)]),
        (4, [(0, 1), (2, 3), (1, 2), (3, 0)]),
        (5, [(0, 1), (2, 3), (1, 2), (3, 4)]),
        (6, [(0, 1), (2, 3), (4, 5), (1, 2), (3, 4), (5, 0)]),
    ],
)
def test_convolution_pairs_neighbors_and_closes_even_rings(
    active: int, expected: list[tuple[int, int]]
) -> None:
    assert pairs(convolution(LINE[:active], symbols(15)), cirq.XXPowGate) == expected


@pytest.mark.parametrize(
    ("active", "expected"),
    [
        (2, [(0, 1)]),
        (3, [(0, 1)]),
        (5, [(0, 2), (1, 3)]),
        (8, [(0, 4), (1, 5), (2, 6), (3, 7)]),
    ],
)
def test_pooling_maps_the_first_half_to_the_second(
    active: int, expected: list[tuple[int, int]]
) -> None:
    assert pairs(pooling(LINE[:active], symbols(6))[0], cirq.CXPowGate) == expected


@pytest.mark.parametrize("qubits", [*WIDTHS, 9, 16, 17, 23, 30])
def test_qcnn_has_one_readout_and_hybrid_at_most_four(qubits: int) -> None:
    whole = qcnn(qubits)
    assert len(whole.observables) == 1
    assert len(whole.layers) == int(np.ceil(np.log2(qubits)))
    hybrid = qcnn(qubits, layers=hybrid_layers(qubits))
    assert 1 <= len(hybrid.observables) <= 4
    assert len(hybrid.layers) >= 1
    if len(hybrid.layers) > 1:
        assert len(qcnn(qubits, layers=hybrid_layers(qubits) - 1).observables) > 4
    for made in (whole, hybrid):
        assert [len(layer) for layer in made.layers] == [21] * len(made.layers)
        assert sum(made.layers, ()) == made.parameters == tuple(sorted(made.parameters))
        assert {*made.inputs, *made.parameters} == cirq.parameter_names(made.circuit)
        assert made.circuit.all_qubits() == set(made.qubits)


def test_hybrid_of_eight_qubits_matches_the_tutorial() -> None:
    made = qcnn(8, layers=hybrid_layers(8))
    assert made.observables == tuple(cirq.PauliSum.wrap(cirq.Z(q)) for q in made.qubits[4:])


def test_prefix_renames_trained_symbols_only() -> None:
    plain, other = qcnn(4), qcnn(4, prefix="f1_")
    assert plain.inputs == other.inputs
    assert not set(plain.parameters) & set(other.parameters)
    renamed = cirq.to_json(plain.circuit).replace('"theta_', '"f1_theta_')
    assert cirq.read_json(json_text=renamed) == other.circuit


def columns_of_inputs(circuit: cirq.Circuit) -> dict[str, list[int]]:
    """Return the qubits that each data symbol acts on, in order."""
    found: dict[str, list[int]] = {}
    for op in circuit.all_operations():
        for name in cirq.parameter_names(op):
            if name.startswith("x_"):
                found.setdefault(name, []).append(op.qubits[0].col)
    return found


def test_few_features_act_on_the_first_qubits_only() -> None:
    made = qcnn(4, encoder="angle", features=2)
    assert made.inputs == ("x_00", "x_01")
    assert columns_of_inputs(made.circuit) == {"x_00": [0], "x_01": [1]}


def test_reupload_wraps_features_around_active_qubits() -> None:
    made = qcnn(4, encoder="reupload", features=3)
    assert columns_of_inputs(made.circuit) == {"x_00": [0, 2], "x_01": [1, 3], "x_02": [2, 2]}


def test_features_on_one_qubit_rotate_about_different_axes() -> None:
    turned = reupload_circuit(LINE[:2], data_symbols(4), "reupload")
    gates = [(op.qubits[0].x, type(op.gate)) for op in turned.all_operations()]
    assert sorted(gates, key=str) == sorted(
        [(0, cirq.Ry), (1, cirq.Ry), (0, cirq.Rz), (1, cirq.Rz)], key=str
    )


def test_data_symbols_sort_by_number() -> None:
    assert list(data_symbols(101)) == sorted(data_symbols(101))
    assert data_symbols(2) == ("x_00", "x_01")


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        ({"qubits": 1}, "at least 2"),
        ({"qubits": 8, "layers": 4}, "use 1 to 3 layers"),
        ({"qubits": 8, "layers": 0}, "use 1 to 3 layers"),
        ({"qubits": 4, "features": 0}, "at least 1 feature"),
        ({"qubits": 4, "features": 5, "encoder": "angle"}, "5 features do not fit on 4 qubits"),
        ({"qubits": 4, "encoder": "phase"}, "use one of cluster, angle, reupload, amplitude"),
    ],
)
def test_invalid_qcnn_raises(arguments: dict, fragment: str) -> None:
    with pytest.raises(CircuitError, match=fragment):
        qcnn(**arguments)


def test_reupload_with_one_layer_equals_angle_encoding() -> None:
    assert (
        qcnn(8, layers=1, encoder="reupload").circuit == qcnn(8, layers=1, encoder="angle").circuit
    )
