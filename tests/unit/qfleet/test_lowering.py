"""Lowering: a gate that occurs again gets the factor of its first occurrence, and only then."""

from typing import Any

import cirq
import numpy as np
import pytest
import sympy

import qfleet.cirq
from qfleet.compiler.circuit.channel import channel_of
from qfleet.compiler.circuit.lowering import lower, lower_noisy
from qfleet.compiler.circuit.symbols import check_symbols
from qfleet.errors import CircuitError

A, B, C = cirq.LineQubit.range(3)
T = sympy.Symbol("t")


def test_repeated_gates_share_their_matrices() -> None:
    circuit = cirq.Circuit(cirq.rx(T)(A), cirq.rx(T)(B), cirq.CZ(A, B), cirq.CZ(B, A))
    first, second, third, fourth = lower(circuit)
    assert first.projectors is second.projectors
    assert third.projectors is fourth.projectors
    assert [one.qubits for one in (first, second, third, fourth)] == [(A,), (B,), (A, B), (B, A)]


def test_repeated_channels_of_any_circuit_share_matrices() -> None:
    damp, dephase = cirq.amplitude_damp(0.3), cirq.phase_damp(0.3)
    channels = [damp(A), dephase(A), cirq.depolarize(0.3)(B), cirq.depolarize(0.3, 2)(B, A)]
    first, second = (lower_noisy(cirq.Circuit(map(cirq.Moment, channels))) for _ in range(2))
    for operation, one, other in zip(channels, first, second, strict=True):
        alone = channel_of(operation.qubits, cirq.kraus(operation))
        assert one.qubits == alone.qubits
        np.testing.assert_array_equal(one.matrix, alone.matrix)
        assert one.matrix is other.matrix


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


def test_symbolic_repetitions_are_refused() -> None:
    repeated = cirq.CircuitOperation(cirq.FrozenCircuit(cirq.X(A)), repetitions=T)
    with pytest.raises(CircuitError, match=r"in moment 0 .* repetitions"):
        lower(cirq.Circuit(repeated))
    with pytest.raises(CircuitError, match="repetitions"):
        qfleet.compile(cirq.Circuit(repeated))


@pytest.mark.parametrize("controlled", [cirq.ControlledGate, None], ids=["gate", "operation"])
@pytest.mark.parametrize("value", [False, True])
@pytest.mark.parametrize("gate", [cirq.X, cirq.Y**0.5, cirq.rx(T)])
def test_boolean_control_values_are_numbers(controlled, value, gate) -> None:
    def circuit(control_value: int) -> cirq.Circuit:
        if controlled:
            wide = cirq.ControlledGate(gate, control_values=[control_value])(A, B)
        else:
            wide = cirq.ControlledOperation([A], gate(B), control_values=[control_value])
        return cirq.Circuit(cirq.H(A), wide)

    expected = [factor.key for factor in lower(circuit(int(value)))]
    assert [factor.key for factor in lower(circuit(value))] == expected


def test_superposition_gate_of_cirq_has_its_state() -> None:
    qubits = cirq.LineQubit.range(3)
    circuit = cirq.Circuit(cirq.UniformSuperpositionGate(5, 3)(*qubits))
    state = qfleet.compile(circuit, dtype="complex128").state()
    np.testing.assert_allclose(np.abs(state) ** 2, [0.2] * 5 + [0] * 3, atol=1e-9)


@pytest.mark.parametrize(
    "gate",
    [
        cirq.rx(float("nan")),
        cirq.X**sympy.nan,
        cirq.X ** float("inf"),
        cirq.DiagonalGate([float("nan")]),
        cirq.MatrixGate(np.array([[1, 1], [0, 1]]), unitary_check=False),
    ],
    ids=["nan angle", "nan exponent", "infinite exponent", "diagonal", "matrix"],
)
def test_gate_that_is_not_finite_or_unitary_is_refused(gate: cirq.Gate) -> None:
    with pytest.raises(CircuitError, match="in moment 0"):
        lower(cirq.Circuit(gate.on(*cirq.LineQubit.range(cirq.num_qubits(gate)))))


def test_symbols_of_one_name_are_one_symbol() -> None:
    other = sympy.Symbol("t", positive=True)
    compiled = qfleet.compile(cirq.Circuit(cirq.rx(T + other)(A)), ["t"], observables=[cirq.Z(A)])
    values, gradients = compiled.value_and_gradient([[0.3]])
    np.testing.assert_allclose(values, [[np.cos(0.6)]], atol=1e-6)
    np.testing.assert_allclose(gradients.inputs, [[-2 * np.sin(0.6)]], atol=1e-6)


@pytest.mark.parametrize(
    "exponent",
    [(-1) ** sympy.Rational(1, 3) * T, sympy.asin(2) * T, sympy.asin(2) * T**2, T + sympy.acos(3)],
    ids=str,
)
def test_complex_constant_is_refused(exponent: sympy.Expr) -> None:
    with pytest.raises(CircuitError, match="its exponent"):
        lower(cirq.Circuit(cirq.X(A) ** exponent))


W = sympy.Symbol("w")
REAL = (
    sympy.Rational(1, 3), sympy.GoldenRatio, sympy.sqrt(2) * sympy.pi / sympy.E,
    (1 + sympy.I) * (1 - sympy.I), (1 + sympy.I) ** 4, sympy.gamma(sympy.Rational(1, 3)),
)  # fmt: skip
PLACES = {
    "exponent": lambda c: (cirq.X**c)(A),
    "exponent with a symbol": lambda c: (cirq.X ** (c * W + c))(A),
    "within a function": lambda c: cirq.ry(sympy.sin(c * W) ** 2)(A),
    "power of a symbol": lambda c: cirq.ry(W**c)(A),
    "phase": lambda c: cirq.GlobalPhaseGate(sympy.exp(sympy.I * c))(),
    "phase of -1": lambda c: cirq.GlobalPhaseGate((-1) ** c)(),
    "phase with a symbol": lambda c: cirq.GlobalPhaseGate(
        (1 + sympy.I) / sympy.sqrt(2) * sympy.exp(sympy.I * c * (W + 1))
    )(),
    "controlled phase": lambda c: cirq.GlobalPhaseGate(
        sympy.exp(sympy.I * c)
    ).controlled(2)(A, B),
    "diagonal": lambda c: cirq.ThreeQubitDiagonalGate([c, 0, c, 1, 2, W, c, 0])(A, B, C),
    "diagonal of numbers": lambda c: cirq.ThreeQubitDiagonalGate([c] * 4 + [0.1] * 4)(A, B, C),
    "controlled FSim": lambda c: cirq.FSimGate(c, c).controlled()(A, B, C),
    "Boolean Hamiltonian": lambda c: cirq.BooleanHamiltonianGate(["a", "b"], ["a & b"], c)(A, B),
    "resolver of a sub-circuit": lambda c: cirq.CircuitOperation(
        cirq.FrozenCircuit(cirq.ry(T)(A)), param_resolver={T: c}
    ),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("constant", REAL, ids=str)
def test_constant_of_sympy_has_its_value(place: Any, constant: sympy.Expr) -> None:
    def state(value: Any) -> np.ndarray:
        circuit = cirq.Circuit(cirq.H.on_each(A, B, C), place(value))
        return qfleet.compile(circuit, parameters=["w"], dtype="complex128").state([], [0.37])

    number = complex(constant).real
    np.testing.assert_allclose(state(constant), state(number), atol=1e-12)


@pytest.mark.parametrize("coefficient", [sympy.exp(sympy.I * 0.3), (-1) ** sympy.Float(0.3)])
def test_phase_without_symbols_is_a_phase(coefficient: sympy.Expr) -> None:
    (factor,) = lower(cirq.Circuit(cirq.GlobalPhaseGate(coefficient)(), cirq.I(A)))[:1]
    np.testing.assert_allclose(factor.matrix, complex(coefficient) * np.eye(2), atol=1e-12)


def test_phase_whose_symbol_cancels_is_fixed() -> None:
    exponent = sympy.I * (W + 1) - sympy.I * W
    (factor,) = lower(cirq.Circuit(cirq.GlobalPhaseGate(sympy.exp(exponent)).controlled()(A)))
    assert factor.fixed


def test_shifts_of_equal_gates_are_kept() -> None:
    gates = [cirq.XPowGate(exponent=T, global_shift=shift) for shift in (0, 2)]
    first, second = (lower(cirq.Circuit(gate(A)))[0] for gate in gates)
    np.testing.assert_allclose(second.half_turns, first.half_turns + 2)


def test_circuit_without_qubits_is_refused() -> None:
    with pytest.raises(CircuitError, match="no qubits"):
        qfleet.compile(cirq.Circuit(), observables=[cirq.PauliString()])
