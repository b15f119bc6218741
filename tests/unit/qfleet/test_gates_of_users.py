"""Gates whose methods raise, symbols that Cirq does not list, and constants of sympy."""

import functools
from typing import Any

import cirq
import numpy as np
import pytest
import sympy

import qfleet
import qfleet.cirq
from qfleet.compiler.circuit.symbols import parameter_names
from qfleet.errors import CircuitError

A, B, C = QUBITS = cirq.LineQubit.range(3)
LINE = cirq.LineQubit.range(4)
X, Y = sympy.symbols("x y")
METHODS = {"_unitary_": (), "_decompose_": ("qubits",), "_apply_unitary_": ("args",)}
METHODS |= {"_kraus_": (), "_mixture_": (), "_has_unitary_": (), "_is_parameterized_": ()}
ERRORS = (TypeError, KeyError, AttributeError, RuntimeError, ValueError, NotImplementedError)


def broken(method: str, error: type[Exception], width: int) -> cirq.Gate:
    """Return a gate of a class of which one method raises."""

    def fail(*_: object) -> None:
        raise error("of the gate")

    parts = {method: fail, "_num_qubits_": lambda _: width, "__str__": lambda _: "Broken"}
    return type("Broken", (cirq.Gate,), parts)()


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("method", METHODS)
def test_gate_that_raises_is_named(method: str, error: type[Exception]) -> None:
    for width in (1, 3):
        gate = broken(method, error, width)
        circuit = cirq.Circuit(cirq.X(A), gate(*QUBITS[:width]).with_tags("t"))
        for call in (qfleet.compile, qfleet.cirq.Simulator().simulate):
            with pytest.raises(CircuitError, match=r"Broken in moment 1 on qubits q\(0\)") as found:
                call(circuit)
            assert found.value.__cause__ is None or "of the gate" in str(found.value.__cause__)


def test_gate_without_a_text_is_named_by_its_class() -> None:
    gate = broken("__str__", KeyError, 1)
    type(gate).__str__ = lambda _: 1 / 0  # type: ignore[method-assign]
    with pytest.raises(CircuitError, match="Broken in moment 0"):
        qfleet.compile(cirq.Circuit(gate(A)))


def unlisted() -> list[cirq.Operation]:
    inner = cirq.PhasedFSimGate(0.1, zeta=X, chi=0.2, gamma=2 * X, phi=0.3)
    part = cirq.CircuitOperation(cirq.FrozenCircuit(inner(A, B)), use_repetition_ids=False)
    return [
        inner(A, B),
        inner(A, B).with_tags("t"),
        inner(A, B).controlled_by(C),
        inner.controlled()(C, A, B),
        part,
        part.with_params({"x": Y}),
        cirq.BooleanHamiltonianGate(["a", "b"], ["a ^ b"], X)(A, B),
    ]


@pytest.mark.parametrize("operation", unlisted(), ids=range(7))
def test_symbol_that_cirq_does_not_list_has_a_value(operation: cirq.Operation) -> None:
    circuit = cirq.Circuit(cirq.H.on_each(A, B, C), operation)
    (name,) = parameter_names(circuit)
    compiled = qfleet.compile(circuit)
    assert compiled.parameters == (name,)
    fixed = cirq.Circuit(
        cirq.H.on_each(A, B, C),
        cirq.BooleanHamiltonianGate(["a", "b"], ["a ^ b"], 0.3)(A, B)
        if isinstance(operation.gate, cirq.BooleanHamiltonianGate)
        else cirq.PhasedFSimGate(0.1, 0.3, 0.2, 0.6, 0.3)(A, B).controlled_by(
            *([C] if len(operation.qubits) == 3 else [])
        ),
    )
    expected = fixed.final_state_vector(dtype=np.complex128)
    np.testing.assert_allclose(compiled.state(None, [0.3]), expected, atol=1e-9)
    found = qfleet.cirq.Simulator(dtype=np.complex128).simulate(circuit, {name: 0.3})
    np.testing.assert_allclose(found.final_state_vector, expected, atol=1e-9)


def test_symbol_that_a_gate_does_not_report_is_refused() -> None:
    class Forgetful(cirq.Gate):
        def _num_qubits_(self) -> int:
            return 1

        def _is_parameterized_(self) -> bool:
            return True

        def _decompose_(self, qubits: tuple[cirq.Qid, ...]) -> list[cirq.Operation]:
            return [cirq.rx(X)(*qubits)]

    with pytest.raises(CircuitError, match="symbol x"):
        qfleet.compile(cirq.Circuit(Forgetful()(A)))
    assert qfleet.compile(cirq.Circuit(Forgetful()(A)), parameters=["x"]).parameters == ("x",)


SHIFT = sympy.sqrt(2) / 3


@pytest.mark.parametrize("exponent", [0.3, X, sympy.Rational(3, 10)])
@pytest.mark.parametrize(
    "kind",
    [
        *(cirq.XPowGate, cirq.YPowGate, cirq.ZPowGate, cirq.HPowGate, cirq.CZPowGate),
        *(cirq.CXPowGate, cirq.SwapPowGate, cirq.ISwapPowGate, cirq.XXPowGate, cirq.YYPowGate),
        *(cirq.ZZPowGate, cirq.CCXPowGate, cirq.CCZPowGate),
        lambda **named: cirq.PhasedXPowGate(phase_exponent=0.2, **named),
        lambda **named: cirq.PhasedXPowGate(phase_exponent=SHIFT, **named),
        lambda **named: cirq.ParallelGate(cirq.XPowGate(**named), 2),
    ],
)
def test_constant_as_global_shift_is_a_number(kind: type, exponent: object) -> None:
    def state(one: object, shift: object) -> np.ndarray:
        gate = kind(exponent=one, global_shift=shift)
        operation = gate(*QUBITS[: gate.num_qubits()])
        parts = [operation] if C in operation.qubits else [operation, operation.controlled_by(C)]
        circuit = cirq.Circuit(cirq.H.on_each(*QUBITS), parts)
        compiled = qfleet.compile(circuit)
        return compiled.state(None, [0.3] * len(compiled.parameters))

    np.testing.assert_allclose(state(exponent, SHIFT), state(0.3, float(SHIFT)), atol=1e-9)


def test_symbol_as_global_shift_is_refused() -> None:
    for exponent in (X, 0.3):
        gate = cirq.ZPowGate(exponent=exponent, global_shift=Y)
        with pytest.raises(CircuitError, match="global_shift y"):
            qfleet.compile(cirq.Circuit(cirq.X(A), gate(A), cirq.ParallelGate(gate, 1)(B)))


VALUES = [sympy.sqrt(2), sympy.sin(1), sympy.Max(1, 2), sympy.Rational(1, 3), sympy.zeta(3)]
VALUES += [np.float32(0.5), sympy.I**2, sympy.re(sympy.exp(sympy.I)), sympy.pi / 7, True]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_resolver_takes_every_real_number(value: object) -> None:
    circuit = cirq.Circuit(cirq.rx(X)(A))
    found = qfleet.cirq.Simulator().simulate_expectation_values(circuit, cirq.Z(A), {"x": value})
    assert found == pytest.approx([np.cos(float(value))], abs=1e-6)


@pytest.mark.parametrize("value", [None, "text", 1j, sympy.I, sympy.nan, sympy.oo, sympy.zoo, [1]])
def test_resolver_value_that_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(CircuitError, match="symbol x"):
        qfleet.cirq.Simulator().simulate(cirq.Circuit(cirq.rx(X)(A)), {"x": value})


def test_qudit_is_refused_wherever_it_appears() -> None:
    qudit, circuit = cirq.LineQid(5, 3), cirq.Circuit(cirq.X(A))
    for call in (
        lambda: qfleet.compile(circuit + cirq.Circuit(cirq.XPowGate(dimension=3)(qudit))),
        lambda: qfleet.CompiledCircuit.from_factors((), qubits=(A, qudit)),
        lambda: qfleet.compile(circuit, observables=cirq.PauliString({qudit: cirq.Z})),
    ):
        with pytest.raises(CircuitError, match="qudits"):
            call()


def redefined(kind: type[cirq.EigenGate]) -> type[cirq.EigenGate]:
    """Return a subclass of a gate of Cirq with the eigenspaces of powers of Y...Y."""
    width = cirq.num_qubits(kind())
    word = functools.reduce(np.kron, [cirq.unitary(cirq.Y)] * width)
    spaces = [(0, (np.eye(2**width) + word) / 2), (1, (np.eye(2**width) - word) / 2)]
    methods = {"_eigen_components": lambda _: spaces}
    methods |= {"_apply_unitary_": lambda *_: NotImplemented}
    return type(f"Other{kind.__name__}", (kind,), methods)


@pytest.mark.parametrize("exponent", [0.3, X])
@pytest.mark.parametrize(
    "kind", [cirq.XPowGate, cirq.ZPowGate, cirq.CZPowGate, cirq.SwapPowGate, cirq.CCXPowGate]
)
def test_redefined_gate_is_not_decomposed_as_cirqs(kind: type, exponent: Any) -> None:
    """Cirq controls and decomposes a subclass as the class that it inherits from."""
    gate, width = redefined(kind)(exponent=exponent), cirq.num_qubits(kind())
    start = cirq.Circuit(cirq.ry(0.4 + at)(qubit) for at, qubit in enumerate(LINE))
    for controls in range(5 - width):
        wrapped = cirq.ControlledGate(gate, controls) if controls else gate
        circuit = start + wrapped.on(*LINE[: controls + width])
        power = cirq.unitary(cirq.resolve_parameters(gate, {"x": 0.3}))
        matrix = np.eye(2 ** (controls + width), dtype=complex)
        matrix[-len(power) :, -len(power) :] = power
        wanted = start.final_state_vector(dtype=np.complex128).reshape(len(matrix), -1)
        compiled = qfleet.compile(circuit)
        found = compiled.state(None, [0.3] * len(compiled.parameters))
        np.testing.assert_allclose(found, (matrix @ wanted).reshape(-1), atol=1e-7)
    wide = cirq.ControlledGate(gate, 5 - width).on(*cirq.LineQubit.range(5))
    with pytest.raises(CircuitError, match="moment 0"):
        qfleet.compile(cirq.Circuit(wide))


def test_exponent_without_a_hash_is_a_number_or_refused() -> None:
    array, number = (cirq.Circuit(cirq.X(A) ** one) for one in (np.array(0.3), 0.3))
    np.testing.assert_allclose(qfleet.compile(array).state(), qfleet.compile(number).state())
    with pytest.raises(CircuitError, match="moment 0"):
        qfleet.compile(cirq.Circuit(cirq.XPowGate(exponent=[0.3])(A)))
