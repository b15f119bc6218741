"""Operations and observables of the PennyLane device, compared with default.qubit."""

import numpy as np
import pennylane as qml
import pytest
import torch
from pennylane.exceptions import DeviceError

from qfleet.pennylane import QfleetDevice, gates

RANDOM = np.random.default_rng(7)
UNITARY = qml.matrix(qml.Rot(0.3, 0.5, 0.7, 0) @ qml.RX(0.2, 1), wire_order=[0, 1])


def _angles(shape: tuple[int, ...]) -> np.ndarray:
    return RANDOM.uniform(-3, 3, shape)


OPERATIONS = [
    *(gate(wires=range(gate.num_wires or 1)) for gate in gates.FIXED),
    *(gate(0.37, wires=range(gate.num_wires)) for gate in gates.GENERATED),
    qml.Rot(0.1, 0.2, 0.3, 1),
    qml.U2(0.1, 0.2, 1),
    qml.U3(0.1, 0.2, 0.3, 1),
    qml.PSWAP(0.3, wires=[2, 0]),
    *(gate(0.3, wires=[2, 0]) for gate in (qml.CRX, qml.CRY, qml.CRZ, qml.ControlledPhaseShift)),
    qml.CRot(0.1, 0.2, 0.3, wires=[1, 0]),
    qml.PauliRot(0.3, "XIYZ", wires=range(4)),
    qml.PauliRot(0.3, "XY", wires=[3, 1]),
    qml.PauliRot(0.3, "II", wires=[3, 1]),
    qml.MultiRZ(0.4, wires=range(4)),
    qml.MultiRZ(0.4, wires=[2]),
    qml.PCPhase(0.4, dim=3, wires=range(3)),
    qml.GlobalPhase(0.3),
    qml.adjoint(qml.Rot(0.1, 0.2, 0.3, 0)),
    qml.adjoint(qml.S(2)),
    qml.ctrl(qml.RX(0.3, 0), control=[1, 2], control_values=[0, 1]),
    qml.ctrl(qml.IsingXX(0.3, [0, 1]), control=[3]),
    qml.ctrl(qml.GlobalPhase(0.3), control=[2]),
    qml.ctrl(qml.adjoint(qml.GlobalPhase(0.3)), control=[0]),
    qml.ctrl(qml.Hadamard(0), control=[2, 1, 3], control_values=[1, 0, 1]),
    qml.ctrl(qml.Rot(0.1, 0.2, 0.3, 0), control=[1]),
    qml.MultiControlledX(wires=[0, 1, 2, 3], control_values=[1, 0, 1]),
    qml.QubitUnitary(UNITARY, wires=[3, 1]),
    qml.DiagonalQubitUnitary(np.exp(1j * _angles((8,))), wires=[0, 2, 3]),
    qml.ControlledQubitUnitary(UNITARY, wires=[0, 3, 1]),
    qml.BlockEncode(np.array([[0.1, 0.2], [0.3, 0.4]]), wires=[2, 0]),
    qml.QFT(wires=range(4)),
    qml.pow(qml.RX(0.4, 0), 1.7),
    qml.exp(qml.X(0) @ qml.Y(1), 0.3j),
    qml.SpecialUnitary(_angles((3,)), wires=[2]),
    qml.AngleEmbedding(_angles((3,)), wires=[2, 0, 1], rotation="Y"),
    qml.IQPEmbedding(_angles((3,)), wires=range(3)),
    qml.BasicEntanglerLayers(_angles((2, 4)), wires=range(4), rotation=qml.RZ),
    qml.StronglyEntanglingLayers(_angles((2, 4, 3)), wires=range(4), imprimitive=qml.CZ),
    qml.SimplifiedTwoDesign(_angles((4,)), _angles((2, 3, 2)), wires=range(4)),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda op: f"{op.name}{len(op.wires)}")
def test_operation_has_the_state_of_default_qubit(operation: qml.operation.Operator) -> None:
    def circuit() -> qml.measurements.StateMP:
        for wire in range(4):
            qml.Rot(0.3 + wire, 0.9, 0.4, wires=wire)
        qml.IsingXX(0.6, wires=[0, 1])
        qml.IsingXY(0.8, wires=[2, 3])
        qml.apply(operation)
        return qml.state()

    expected = qml.QNode(circuit, qml.device("default.qubit", wires=4))()
    actual = qml.QNode(circuit, QfleetDevice(wires=4))()
    np.testing.assert_allclose(actual, expected, atol=1e-10)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("template", [qml.AmplitudeEmbedding, qml.StatePrep])
def test_state_preparation_is_exact(template: type, batched: bool) -> None:
    states = RANDOM.normal(size=(3, 4)) + 1j * RANDOM.normal(size=(3, 4))
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    state = states if batched else states[0]

    def circuit(angle: float) -> qml.measurements.StateMP:
        template(state, wires=[2, 0])
        qml.RX(angle, 1)
        qml.CNOT([0, 1])
        return qml.state()

    expected = qml.QNode(circuit, qml.device("default.qubit", wires=3))(0.4)
    actual = qml.QNode(circuit, QfleetDevice(wires=3))(0.4)
    np.testing.assert_allclose(actual, expected, atol=1e-10)


def test_basis_state_at_the_beginning_is_exact() -> None:
    @qml.qnode(QfleetDevice(wires=3))
    def circuit() -> qml.measurements.ProbabilityMP:
        qml.BasisState(np.array([1, 0, 1]), wires=range(3))
        return qml.probs()

    assert np.argmax(circuit()) == 0b101


@pytest.mark.parametrize(
    "observable",
    [
        qml.X(0) @ qml.Y(2),
        0.5 * qml.Z(0) + qml.X(1) @ qml.X(2) - 0.3 * qml.Identity(0),
        qml.Hamiltonian([0.2, -1.1], [qml.Z(1), qml.Y(0) @ qml.Z(1)]),
        qml.Hermitian(np.array([[1.0, 0.5 - 1j], [0.5 + 1j, -2.0]]), wires=1),
        qml.Projector([0, 1], wires=[2, 0]),
        qml.Projector(np.array([1, 1j]) / np.sqrt(2), wires=[1]),
        qml.Hadamard(2),
        qml.prod(qml.X(0), qml.Z(0), qml.X(0)),
        qml.s_prod(1j, qml.prod(qml.X(0), qml.Y(0))),
        qml.prod(qml.X(1), qml.X(1)),
        qml.exp(qml.X(0), 0.5),
        qml.Hamiltonian([0.2, -1.1], [qml.Z(1), qml.Y(0)]).sparse_matrix,
    ],
    ids=str,
)
def test_expectation_value_is_that_of_default_qubit(observable: object) -> None:
    if callable(observable):
        observable = qml.SparseHamiltonian(observable(wire_order=range(3)), wires=range(3))

    def circuit(angles: np.ndarray) -> qml.measurements.ExpectationMP:
        qml.AngleEmbedding(angles, wires=range(3))
        qml.StronglyEntanglingLayers(np.full((1, 3, 3), 0.7), wires=range(3))
        return qml.expval(observable)

    angles = _angles((3,))
    expected = qml.QNode(circuit, qml.device("default.qubit", wires=3))(angles)
    actual = qml.QNode(circuit, QfleetDevice(wires=3))(angles)
    np.testing.assert_allclose(actual, expected, atol=1e-10)


GENERATOR = qml.Hamiltonian([0.7, 0.4], [qml.X(0) @ qml.X(1), qml.Z(1)])
SYMBOLIC = {
    "exp": lambda x: qml.exp(qml.X(0) @ qml.Y(1), 1j * x),
    "evolve": lambda x: qml.evolve(GENERATOR, x),
    "Hermitian": lambda x: qml.exp(qml.Hermitian(np.array([[1, 2], [2, -1]]), 0), 1j * x),
    "adjoint": lambda x: qml.adjoint(qml.exp(GENERATOR, 1j * x)),
    "ctrl": lambda x: qml.ctrl(qml.evolve(GENERATOR, x), 2),
    "trotter": lambda x: qml.TrotterProduct(GENERATOR, x, n=2, order=2),
    "pow": lambda x: (qml.RX(x, 0), qml.pow(qml.SWAP([0, 1]), 0.3)),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_operation_of_torch_agrees(name: str) -> None:
    found = []
    for device in (qml.device("default.qubit", wires=3), QfleetDevice(wires=3)):

        @qml.qnode(device, interface="torch")
        def circuit(x: torch.Tensor) -> object:
            for wire in range(3):
                qml.RY(0.4 + wire, wire)
            SYMBOLIC[name](x)
            return qml.expval(qml.X(0) @ qml.Y(1) + 0.3 * qml.Z(0))

        angles = torch.tensor([0.7, 0.1], dtype=torch.float64, requires_grad=True)
        values = circuit(angles)
        values.sum().backward()
        found.append(np.concatenate([values.detach().numpy(), angles.grad.numpy()]))
    np.testing.assert_allclose(*found, atol=1e-9)


@pytest.mark.parametrize("factor", [1.0, 0.5 + 1j])
def test_exponential_that_is_not_unitary_is_refused(factor: complex) -> None:
    @qml.qnode(QfleetDevice(wires=2), interface="torch")
    def circuit(x: torch.Tensor) -> object:
        qml.exp(GENERATOR, factor * x)
        return qml.expval(qml.Z(0))

    with pytest.raises(DeviceError, match="Exp"):
        circuit(torch.tensor(0.7, dtype=torch.float64, requires_grad=True))
