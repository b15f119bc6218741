"""Lowering: a gate that occurs again gets the factor of its first occurrence, and only then."""

import cirq
import numpy as np
import pytest
import sympy

from qfleet.compiler.lowering import lower
from qfleet.compiler.program import check_symbols
from qfleet.errors import CircuitError

A, B = cirq.LineQubit.range(2)
T = sympy.Symbol("t")


def test_repeated_gates_share_their_matrices() -> None:
    circuit = cirq.Circuit(cirq.rx(T)(A), cirq.rx(T)(B), cirq.CZ(A, B), cirq.CZ(B, A))
    first, second, third, fourth = lower(circuit)
    assert first.projectors is second.projectors
    assert third.projectors is fourth.projectors
    assert [one.qubits for one in (first, second, third, fourth)] == [(A,), (B,), (A, B), (B, A)]


@pytest.mark.parametrize(
    "gates",
    [
        (cirq.X, cirq.X**0.5, cirq.XPowGate(global_shift=0.25), cirq.rx(np.pi)),
        (cirq.Z**T, cirq.Z ** (2 * T), cirq.Rz(rads=T), cirq.Z, cirq.S),
        tuple(cirq.PhasedXPowGate(phase_exponent=p) for p in (0.0, 0.25)),
    ],
    ids=["x", "z", "phased"],
)
def test_similar_gates_keep_their_own_matrices(gates: tuple[cirq.Gate, ...]) -> None:
    circuit = cirq.Circuit(gate(A) for gate in gates)
    resolved = cirq.resolve_parameters(circuit, {"t": 0.3})
    product = np.eye(2)
    for factor in lower(resolved):
        product = factor.matrix @ product
    np.testing.assert_allclose(product, cirq.unitary(resolved), atol=1e-7)
    keys = [factor.key for factor in lower(circuit)]
    assert len(set(keys)) == len(keys)


def test_qutrit_after_the_same_gate_on_a_qubit_is_refused() -> None:
    qutrit = cirq.LineQid(2, dimension=3)
    circuit = cirq.Circuit(cirq.XPowGate()(A), cirq.XPowGate(dimension=3)(qutrit))
    with pytest.raises(CircuitError, match="qudits"):
        lower(circuit)


def test_unknown_symbol_names_its_first_gate() -> None:
    circuit = cirq.Circuit(cirq.rx(T)(A), cirq.ry(sympy.Symbol("u"))(A), cirq.rx(T)(B))
    with pytest.raises(CircuitError, match=r"ry|Ry.*moment 1.*u"):
        check_symbols(circuit, (), ("t",))
