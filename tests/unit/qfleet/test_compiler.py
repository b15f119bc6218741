"""Compilation of circuits to programs, and unsupported circuits."""

import cirq
import numpy as np
import pytest
import sympy

from qfleet.circuits.blocks import two_qubit_unitary
from qfleet.circuits.qcnn import qcnn
from qfleet.compiler.state.program import compile_program
from qfleet.errors import CircuitError
from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.runtime import tf

A, B, C = cirq.LineQubit.range(3)
S = sympy.Symbol("s")


def error_message(
    *operations: cirq.Operation,
    observables: tuple[cirq.PauliSum, ...] = (cirq.PauliSum() + cirq.Z(A),),
) -> str:
    with pytest.raises(CircuitError) as caught:
        compile_program(cirq.Circuit(operations), ("x",), ("s",), observables)
    message = str(caught.value)
    assert "\n" not in message
    return message


class Opaque(cirq.Gate):
    """A parametrized gate that Cirq cannot decompose."""

    def _num_qubits_(self) -> int:
        return 2

    def _parameter_names_(self) -> set[str]:
        return {"s"}

    def _is_parameterized_(self) -> bool:
        return True

    def __str__(self) -> str:
        return "Opaque"


@pytest.mark.parametrize(
    ("operation", "fragments"),
    [
        (cirq.depolarize(0.1).on(A), ["depolarize", "moment 1", "q(0)", "noise"]),
        (cirq.amplitude_damp(0.1).on(A), ["amplitude_damp", "moment 1", "q(0)"]),
        (cirq.measure(A, B, key="m"), ["moment 1", "q(0), q(1)", "measurement"]),
        (cirq.reset(A), ["reset", "moment 1", "q(0)"]),
        (Opaque().on(A, B), ["Opaque", "moment 1", "q(0), q(1)", "symbols"]),
        (cirq.X(A) ** sympy.Symbol("t"), ["X**t", "moment 1", "q(0)", "symbol t"]),
        (cirq.X(A) ** sympy.gamma(S), ["moment 1", "q(0)", "gamma"]),
        (cirq.X(A) ** (sympy.I * S), ["moment 1", "q(0)", "I"]),
    ],
)
def test_unsupported_operation_error_names_its_location(
    operation: cirq.Operation, fragments: list[str]
) -> None:
    message = error_message(cirq.H(A), operation)
    for part in fragments:
        assert part in message


def test_classically_controlled_gate_raises() -> None:
    message = error_message(cirq.measure(A, key="m"), cirq.X(B).with_classical_controls("m"))
    assert "moment 0" in message


def test_qudit_raises() -> None:
    trit = cirq.LineQid(0, dimension=3)
    shift = cirq.MatrixGate(np.roll(np.eye(3), 1, axis=0), qid_shape=(3,))
    assert "qudit" in error_message(shift.on(trit))


def test_observable_with_complex_coefficient_raises() -> None:
    assert "real" in error_message(cirq.H(A), observables=(cirq.PauliSum() + 1j * cirq.Z(A),))


def test_program_without_observables_keeps_all_qubits() -> None:
    program = compile_program(cirq.Circuit(cirq.H(A), cirq.CNOT(A, B)), (), (), ())
    assert program.qubits == (A, B)
    assert not program.terms.offsets.size


def test_duplicate_symbol_raises() -> None:
    with pytest.raises(CircuitError, match="symbol s is listed more than once"):
        compile_program(cirq.Circuit(cirq.X(A) ** S), ("s",), ("s",), [cirq.PauliSum() + cirq.Z(A)])


def test_tfq_complex128_raises() -> None:
    with pytest.raises(CircuitError, match="complex64"):
        build_simulator(
            cirq.Circuit(cirq.X(A) ** S), (), ("s",), [cirq.PauliSum() + cirq.Z(A)],
            backend="tfq", dtype="complex128",
        )  # fmt: skip


def test_angles_of_another_width_raise() -> None:
    model = qcnn(4, encoder="angle", features=4)
    simulator = build_simulator(model.circuit, model.inputs, model.parameters, model.observables)
    with pytest.raises(ValueError, match=r"\[batch, 4\]"):
        simulator.expectation(tf.zeros([2, 3]), tf.zeros([len(model.parameters)]))


def test_two_qubit_unitary_becomes_one_block() -> None:
    symbols = [sympy.Symbol(f"s{at}") for at in range(15)]
    read = [cirq.X(A) * cirq.Y(B), cirq.Z(A) * cirq.Z(B)]  # no gate commutes with both
    circuit = two_qubit_unitary(A, B, symbols)
    (block,) = compile_program(circuit, (), [str(s) for s in symbols], read).blocks
    assert len(block.factors) == 7, "commuting rotations are not joined"


def test_gates_before_the_first_symbol_are_precomputed() -> None:
    circuit = cirq.Circuit(cirq.H(A), cirq.CNOT(A, B), cirq.Z(B) ** sympy.Symbol("x"))
    program = compile_program(circuit, ("x",), (), [cirq.PauliSum() + cirq.X(A) * cirq.X(B)])
    expected = cirq.final_state_vector(circuit[:2], dtype=np.complex128)
    np.testing.assert_allclose(program.initial, expected, atol=1e-7)
    assert len(program.blocks) == 1


def test_gates_outside_the_light_cone_are_dropped() -> None:
    circuit = cirq.Circuit(cirq.X(A) ** S, cirq.CZ(B, C) ** S, cirq.X(C) ** S)
    program = compile_program(circuit, (), ("s",), [cirq.PauliSum() + cirq.Z(A)])
    assert program.qubits == (A,)
    assert program.gates == (3, 1)


def test_program_str_lists_its_blocks() -> None:
    model = qcnn(8, encoder="angle", features=8)
    text = str(compile_program(model.circuit, model.inputs, model.parameters, model.observables))
    assert "8 qubits, 8 inputs, 63 parameters, 1 readouts" in text
    assert "factors in" in text
