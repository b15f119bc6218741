"""Circuits without the gates of some angles: the same unitary with fewer operations."""

import cirq
import numpy as np
import pytest
import sympy

from qfleet.circuits import hamiltonian_variational, hardware_efficient, qcnn, uccsd
from qfleet.circuits.pruning import NO_PERIOD, removable_angles, without_angles

A, B = cirq.LineQubit.range(2)
X, Y = sympy.symbols("x y")
TFIM = {"ZZII": -1.0, "IZZI": -1.0, "IIZZ": -1.0, "XIII": -1.0, "IXII": -1.0}
MODELS = {
    "hardware-efficient": hardware_efficient(4, 3),
    "with inputs": hardware_efficient(3, 2, inputs=["g"]),
    "hamiltonian-variational": hamiltonian_variational(TFIM, 2),
    "uccsd": uccsd(4, 2),
    "qcnn": qcnn(4, encoder="angle"),
}


def operations(circuit: cirq.AbstractCircuit) -> list[cirq.Operation]:
    return list(circuit.all_operations())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("fraction", [0.3, 0.8, 1.0])
def test_pruned_circuit_has_the_same_unitary(name, fraction):
    model = MODELS[name]
    removable = removable_angles(model.circuit, model.parameters)
    assert tuple(removable) == model.parameters
    random = np.random.default_rng(3)
    dropped = set(random.permutation(model.parameters)[: int(fraction * len(removable))])
    pruned = without_angles(model.circuit, dropped)
    values = {one: random.normal() for one in (*model.inputs, *model.parameters)}
    values |= dict.fromkeys(dropped, 0.0)
    whole, shorter = (
        cirq.unitary(cirq.resolve_parameters(one, values)) for one in (model.circuit, pruned)
    )
    np.testing.assert_allclose(shorter, whole, atol=1e-9)
    assert len(operations(pruned)) < len(operations(model.circuit))
    assert not dropped & cirq.parameter_names(pruned)
    assert pruned.all_qubits() == model.circuit.all_qubits()


@pytest.mark.parametrize("name", ["hardware-efficient", "uccsd", "qcnn"])
def test_gates_at_a_period_are_the_identity_up_to_phase(name):
    model = MODELS[name]
    periods = removable_angles(model.circuit, model.parameters)
    turned = {one: 3 * period for one, period in periods.items()}
    values = dict.fromkeys(model.inputs, 0.4)
    zeros = dict.fromkeys(periods, 0.0)
    found, expected = (
        cirq.unitary(cirq.resolve_parameters(model.circuit, values | one))
        for one in (turned, zeros)
    )
    cirq.testing.assert_allclose_up_to_global_phase(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("circuit", "expected"),
    [
        (cirq.Circuit(cirq.X(A) ** X), {"x": 2.0}),
        (cirq.Circuit(cirq.rx(2 * X)(A), cirq.ry(-2 * X)(B)), {"x": np.pi}),
        (cirq.Circuit(cirq.rx(2 * X)(A), cirq.ry(X)(B)), {"x": NO_PERIOD}),
        (cirq.Circuit(cirq.rx(X * Y)(A)), {"x": NO_PERIOD}),
        (cirq.Circuit(cirq.rx(X + 1)(A), cirq.ry(X)(A)), {}),
        (cirq.Circuit(cirq.rx(sympy.log(X))(A)), {}),
        (cirq.Circuit(cirq.rx(1 / X)(A), cirq.ry(X)(B)), {}),
        (cirq.Circuit(cirq.rx(Y)(A)), {}),
        (cirq.Circuit(cirq.rx(X)(A).controlled_by(B)), {"x": NO_PERIOD}),
    ],
)
def test_removable_angles_have_periods(circuit, expected):
    assert removable_angles(circuit, ["x"]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("between", "left"),
    [
        ([cirq.ry(X)(A)], 0),
        ([cirq.ry(X)(A), cirq.rz(Y)(B)], 1),
        ([cirq.ry(X)(A), cirq.CZ(A, cirq.LineQubit(2))], 1),
        ([cirq.ry(X)(A), cirq.rx(Y)(B)], 3),
        ([cirq.ry(X)(A), cirq.depolarize(0.1)(A)], 3),
    ],
)
def test_gates_that_meet_their_inverse_cancel(between, left):
    circuit = cirq.Circuit([cirq.CZ(A, B), *between, cirq.CZ(B, A)])
    found = [one for one in operations(without_angles(circuit, ["x"])) if one.gate != cirq.I]
    assert len(found) == left
