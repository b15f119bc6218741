"""Entry points of the compiler, and programs of layers."""

import cirq
import numpy as np
import pytest
import sympy

from qfleet.compiler.lowering import lower
from qfleet.compiler.program import compile_factors, compile_program
from qfleet.tensorflow.layers import Expectation, State
from qfleet.tensorflow.simulator import Simulator

A, B = cirq.LineQubit.range(2)
CIRCUIT = cirq.Circuit(cirq.rx(sympy.Symbol("x")).on(A), cirq.CNOT(A, B))


def test_compile_factors_equals_compile_program() -> None:
    readouts = [cirq.PauliSum.wrap(cirq.Z(B))]
    expected = compile_program(CIRCUIT, ("x",), (), readouts, target="native")
    actual = compile_factors(lower(CIRCUIT), ("x",), (), readouts, qubits=(A, B), target="native")
    assert actual.qubits == expected.qubits
    assert actual.gates == expected.gates
    assert [block.qubits for block in actual.blocks] == [block.qubits for block in expected.blocks]
    assert [[factor.key for factor in block.factors] for block in actual.blocks] == [
        [factor.key for factor in block.factors] for block in expected.blocks
    ]
    np.testing.assert_array_equal(actual.readout.terms.weights, expected.readout.terms.weights)


def test_layer_exposes_simulator_and_program() -> None:
    layer = Expectation(CIRCUIT, ["x"], [cirq.Z(B)])
    assert isinstance(layer.simulator, Simulator)
    assert layer.program is layer.simulator.program


@pytest.mark.parametrize("backend", ["tensorflow", pytest.param("tfq", marks=pytest.mark.tfq)])
def test_layer_of_other_backend_has_a_program(backend: str) -> None:
    assert State(CIRCUIT, ["x"], backend=backend).program.qubits == (A, B)
