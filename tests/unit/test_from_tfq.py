"""Conversion of circuits that differ in numbers only to one circuit and angles."""

from collections.abc import Callable

import cirq
import numpy as np
import pytest
import sympy

from qfleet.circuits.from_tfq import circuits_to_angles
from qfleet.errors import CircuitError

A, B, C = QUBITS = cirq.GridQubit.rect(1, 3)
S = sympy.Symbol("x1")


def example(seed: int) -> cirq.Circuit:
    """Build a circuit of all gates that have numbers, and one with a symbol."""
    draw = iter(np.random.default_rng(seed).uniform(-3, 3, 40))
    e = draw.__next__
    return cirq.Circuit(
        cirq.H.on_each(*QUBITS),
        cirq.rx(e())(A), cirq.ry(e())(B), cirq.rz(e())(C),
        cirq.X(A) ** e(), cirq.Y(B) ** e(), cirq.Z(C) ** e(), cirq.H(A) ** e(),
        cirq.X(C) ** seed,  # of another class where the exponent is 1
        cirq.XPowGate(exponent=e(), global_shift=0.2)(B).with_tags("kept"),
        cirq.CZ(A, B) ** e(), cirq.CX(B, C) ** e(), cirq.SWAP(A, C) ** e(), cirq.ISWAP(A, B) ** e(),
        cirq.XX(A, B) ** e(), cirq.YY(B, C) ** e(), cirq.ZZ(C, A) ** e(),
        cirq.PhasedXPowGate(phase_exponent=e(), exponent=e())(A),
        cirq.PhasedXZGate(x_exponent=e(), z_exponent=e(), axis_phase_exponent=e())(B),
        cirq.FSimGate(e(), e())(A, B),
        cirq.PhasedISwapPowGate(phase_exponent=e(), exponent=0.4)(A, C),
        (cirq.Y ** e())(C).controlled_by(A, control_values=[0]),
        cirq.CCX(A, B, C) ** e(), cirq.CCZ(A, B, C) ** e(),
        cirq.rx(S)(A), cirq.CNOT(A, B), cirq.X(B) ** 0.25,
        cirq.MatrixGate(cirq.testing.random_unitary(4, random_state=0))(C, A),
    )  # fmt: skip


def test_each_row_gives_the_state_of_its_circuit() -> None:
    circuits = [example(seed) for seed in range(4)]
    circuit, names, angles = circuits_to_angles(circuits)
    assert angles.shape == (4, len(names))
    assert angles.dtype == np.float64
    assert cirq.parameter_names(circuit) == {*names, "x1"}
    for row, original in zip(angles, circuits, strict=True):
        resolved = cirq.resolve_parameters(circuit, dict(zip(names, map(float, row), strict=True)))
        states = [
            cirq.resolve_parameters(one, {"x1": 0.7}).final_state_vector(dtype=np.complex128)
            for one in (resolved, original)
        ]
        np.testing.assert_allclose(states[0], states[1], rtol=0, atol=1e-14)


def test_only_numbers_that_differ_become_symbols() -> None:
    circuits = [
        cirq.Circuit(cirq.rx(0.5)(A), cirq.rx(angle)(A), cirq.rz(S)(B)) for angle in (0.1, 0.2)
    ]
    circuit, names, angles = circuits_to_angles(circuits)
    assert names == ("x0",)
    np.testing.assert_array_equal(angles, [[0.1], [0.2]])
    wanted = cirq.Circuit(cirq.rx(0.5)(A), cirq.rx(sympy.Symbol("x0"))(A), cirq.rz(S)(B))
    assert circuit == wanted


@pytest.mark.parametrize("kind", ["real", "positive", "integer"])
def test_symbol_that_is_declared_real_stays(kind: str) -> None:
    known = sympy.Symbol("p", **{kind: True})
    circuits = [cirq.Circuit(cirq.rx(2 * known)(A), cirq.X(B) ** a) for a in (0.1, 0.2)]
    circuit, names, _ = circuits_to_angles(circuits)
    assert cirq.parameter_names(circuit) == {"p", *names}


@pytest.mark.parametrize("kind", [cirq.depolarize, lambda p: cirq.ParallelGate(cirq.X**p, 1)])
def test_numbers_of_another_gate_are_named(kind: Callable[[float], cirq.Gate]) -> None:
    with pytest.raises(CircuitError, match=r"numbers of a (DepolarizingChannel|ParallelGate)"):
        circuits_to_angles([cirq.Circuit(kind(p)(A)) for p in (0.1, 0.2)])


def test_symbol_names_in_use_are_skipped() -> None:
    circuits = [cirq.Circuit(cirq.rz(S)(A), cirq.X(A) ** a, cirq.X(B) ** a) for a in (0.1, 0.2)]
    assert circuits_to_angles(circuits)[1] == ("x0", "x2")


def test_equal_circuits_have_no_angles() -> None:
    circuit, names, angles = circuits_to_angles([example(1)] * 3)
    assert circuit == example(1)
    assert names == ()
    assert angles.shape == (3, 0)


FIRST = cirq.Circuit(cirq.rx(np.pi / 4)(A), cirq.CZ(A, B) ** 0.5)


@pytest.mark.parametrize(
    ("other", "fragment"),
    [
        (cirq.Circuit(cirq.ry(np.pi / 4)(A), cirq.CZ(A, B)), "Ry(0.25π) in moment 0 on q(0, 0)"),
        (cirq.Circuit(cirq.rx(np.pi / 4)(B), cirq.CZ(A, B)), "Rx(0.25π) in moment 0 on q(0, 1)"),
        (
            cirq.Circuit(cirq.rx(np.pi / 4)(A)),
            "has no more gates where circuit 0 has CZ**0.5 in moment 1",
        ),
        (
            FIRST + cirq.Circuit(cirq.Z(C)),
            "Z in moment 2 on q(0, 2) where circuit 0 has no more gates",
        ),
        (FIRST + cirq.Circuit(cirq.Z(A)), "Z in moment 2 on q(0, 0) where circuit 0 has no more"),
        (
            cirq.Circuit(cirq.rx(S)(A), cirq.CZ(A, B)),
            "in moment 0 on q(0, 0) where circuit 0 has Rx(0.25π)",
        ),
        (
            cirq.Circuit(cirq.XPowGate(exponent=0.1, global_shift=0.1)(A), cirq.CZ(A, B)),
            "global_shift=0.1",
        ),
        (cirq.Circuit(cirq.rx(np.pi / 4)(A), cirq.CZ(B, A)), "CZ in moment 1 on q(0, 1), q(0, 0)"),
        (cirq.Circuit(), "has no more gates where circuit 0 has Rx(0.25π) in moment 0"),
    ],
)
def test_circuit_of_another_shape_raises(other: cirq.Circuit, fragment: str) -> None:
    with pytest.raises(CircuitError) as caught:
        circuits_to_angles([FIRST, FIRST, other, cirq.Circuit(cirq.X(C))])
    message = str(caught.value)
    assert message.startswith("circuit 2 has ")
    assert fragment in message
    assert "as its power 0" in message
    assert "\n" not in message


def test_circuits_with_different_matrices_raise() -> None:
    circuits = [
        cirq.Circuit(cirq.MatrixGate(cirq.testing.random_unitary(2, random_state=n))(A))
        for n in (0, 1)
    ]
    with pytest.raises(CircuitError, match="circuit 1 has MatrixGate in moment 0"):
        circuits_to_angles(circuits)


def test_no_circuits_raise() -> None:
    with pytest.raises(CircuitError, match="give at least one"):
        circuits_to_angles([])
