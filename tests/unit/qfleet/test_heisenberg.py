"""Gates at a circuit's end that become part of the observables."""

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.compiler.state.program import compile_program

A, B, C = cirq.LineQubit.range(3)
S = sympy.Symbol("s")
START = cirq.Circuit(cirq.ry(0.3).on(A), cirq.rx(0.5).on(B), cirq.ry(1.1).on(C))


def blocks(circuit: cirq.Circuit, *observables: cirq.PauliSum | cirq.PauliString) -> list[int]:
    """Return the number of factors of each block of the native program."""
    sums = [cirq.PauliSum.wrap(one) for one in observables]
    program = compile_program(circuit, (), cirq.parameter_names(circuit), sums)
    return [len(block.factors) for block in program.blocks]


@pytest.mark.parametrize(
    "end",
    [
        (cirq.CNOT(A, B), cirq.CNOT(B, C), cirq.CNOT(C, A)),
        (cirq.CZ(A, B), cirq.X(A), cirq.S(B), cirq.SWAP(B, C)),
        (cirq.ISWAP(A, B), cirq.Y(C), cirq.CNOT(A, C)),
    ],
)
def test_clifford_gates_at_the_end_keep_the_values(end: tuple[cirq.Operation, ...]) -> None:
    circuit = START + cirq.Circuit(cirq.rz(S).on(A), cirq.rx(S).on(B), *end)
    observables = [cirq.Z(A) * cirq.Z(B) - 0.5 * cirq.Z(C), 2.0 * cirq.Z(B)]
    compiled = qfleet.compile(circuit, (), ("s",), observables)
    state = cirq.resolve_parameters(circuit, {"s": 0.7}).final_state_vector(dtype=np.complex128)
    index = {A: 0, B: 1, C: 2}
    expected = [
        cirq.PauliSum.wrap(one).expectation_from_state_vector(state, index).real
        for one in observables
    ]
    np.testing.assert_allclose(compiled.expectation(None, [0.7]), expected, atol=1e-12)


def test_cnots_before_z_are_not_simulated() -> None:
    circuit = START + cirq.Circuit(cirq.ry(S).on(A))
    ring = cirq.Circuit(cirq.CNOT(A, B), cirq.CNOT(B, C), cirq.CNOT(C, A))
    assert blocks(circuit + ring, cirq.Z(C)) == blocks(circuit, cirq.Z(A) * cirq.Z(B) * cirq.Z(C))


def test_gate_that_commutes_with_observables_has_no_gradient() -> None:
    circuit = START + cirq.Circuit(cirq.rz(S).on(A), cirq.CNOT(A, B))
    compiled = qfleet.compile(circuit, (), ("s",), [cirq.Z(A), cirq.Z(B)])
    assert compiled.value_and_gradient(None, [0.4])[1].parameters.tolist() == [0]


def test_clifford_gate_that_adds_flipped_qubits_stays() -> None:
    circuit = START + cirq.Circuit(cirq.CNOT(A, B), cirq.H(A))
    sums = [cirq.PauliSum.wrap(cirq.Z(qubit)) for qubit in (A, B)]
    program = compile_program(circuit, (), (), sums)
    assert program.terms.strings == ({0: "Z"}, {1: "Z"})


def test_non_clifford_gate_blocks_the_gates_before_it() -> None:
    circuit = START + cirq.Circuit(cirq.CNOT(A, B), cirq.ry(S).on(B))
    compiled = qfleet.compile(circuit, (), ("s",), [cirq.Z(B)])
    state = cirq.resolve_parameters(circuit, {"s": 0.7}).final_state_vector(dtype=np.complex128)
    expected = cirq.Z(B).expectation_from_state_vector(state, {A: 0, B: 1, C: 2}).real
    np.testing.assert_allclose(compiled.expectation(None, [0.7]), [expected], atol=1e-12)
