"""Parts that the benchmark's peers share: gates as plain data, dense layers in NumPy."""

import cirq
import numpy as np
import pytest

import qfleet
from benchmarks.circuit_models import MODELS, model, random_inputs
from benchmarks.peers.dense_head import DenseHead
from benchmarks.peers.gates import gate_list
from benchmarks.peers.wide import wide_gates
from qfleet.circuits import qcnn

CIRQ_GATES = {
    "h": cirq.H,
    "cz": cirq.CZ,
    "cnot": cirq.CNOT,
    "rx": cirq.X,
    "ry": cirq.Y,
    "rz": cirq.Z,
    "rxx": cirq.XX,
    "ryy": cirq.YY,
    "rzz": cirq.ZZ,
}


@pytest.mark.parametrize("name", MODELS)
def test_gate_list_has_the_circuit_of_the_model(name: str) -> None:
    definition = model(name, 4)
    data = random_inputs(definition, 1)
    values = {"inputs": data.angles[0], "parameters": data.parameters}
    qubits = cirq.LineQubit.range(4)
    circuit = cirq.Circuit()
    for gate in gate_list(definition).gates:
        kind = CIRQ_GATES[gate.name]
        if gate.values is not None:
            kind = kind ** float(gate.coefficient * values[gate.values][gate.index] / np.pi)
        circuit.append(kind.on(*(qubits[wire] for wire in gate.wires)))
    names = (*definition.inputs, *definition.parameters)
    numbers = map(float, (*data.angles[0], *data.parameters))
    expected = cirq.resolve_parameters(definition.circuit, dict(zip(names, numbers, strict=True)))
    cirq.testing.assert_allclose_up_to_global_phase(
        circuit.final_state_vector(dtype=np.complex128),
        expected.final_state_vector(dtype=np.complex128),
        atol=1e-6,
    )


def test_dense_head_gradients_match_differences() -> None:
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=shape) for shape in ((3, 4), (4,), (4, 1), (1,))]
    readouts, label = rng.normal(size=3), np.array([0.3])

    def loss(*arrays: np.ndarray) -> float:
        return float(np.sum((DenseHead(arrays[1:]).predict(arrays[0]) - label) ** 2))

    upstream, found = DenseHead(weights).gradients(readouts, label, 1)
    for index, gradient in enumerate((upstream, *found)):
        arrays = [readouts, *weights]
        direction = rng.normal(size=arrays[index].shape)
        moved = [
            loss(*(a + sign * 1e-5 * direction if i == index else a for i, a in enumerate(arrays)))
            for sign in (1, -1)
        ]
        assert np.sum(gradient * direction) == pytest.approx((moved[0] - moved[1]) / 2e-5, rel=1e-5)


def test_wide_gates_have_the_values_of_the_model() -> None:
    circuit, made = wide_gates(8, 1, "halves"), qcnn(8, layers=1, pool="halves")
    random = np.random.default_rng(0)
    inputs, parameters = random.normal(size=8), random.normal(size=21)
    values = {"inputs": inputs, "parameters": parameters}
    qubits = cirq.LineQubit.range(8)
    gates = cirq.Circuit()
    for gate in circuit.gates:
        kind = CIRQ_GATES[gate.name]
        if gate.values is not None:
            kind = kind ** (gate.coefficient * values[gate.values][gate.index] / np.pi)
        gates.append(kind.on(*(qubits[wire] for wire in gate.wires)))
    found = qfleet.compile(gates, observables=[cirq.Z(qubits[at]) for at in circuit.readouts])
    compiled = qfleet.compile(made.circuit, made.inputs, made.parameters, made.observables)
    expected = compiled.expectation(inputs, parameters)
    assert found.expectation() == pytest.approx(expected, abs=1e-9)
