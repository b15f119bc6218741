"""Values, gradients and states of every engine, compared with cirq.Simulator."""

from itertools import pairwise

import cirq
import pytest
import sympy

from qfleet.circuits.qcnn import qcnn
from tests.support.cirq_comparison import compare, compare_states
from tests.support.random_circuits import TABLES, Case, check_each, draw_cases


@pytest.mark.parametrize(
    ("backend", "dtype", "gradient"),
    [
        ("qfleet", "complex64", None),
        ("qfleet", "complex128", None),
        ("tensorflow", "complex128", None),
        pytest.param("tfq", "complex64", 1e-4, marks=pytest.mark.tfq),
    ],
)
@pytest.mark.parametrize("encoder", ["angle", "reupload"])
@pytest.mark.parametrize("qubits", [4, 5])
def test_qcnn_agrees_with_cirq(
    backend: str, dtype: str, gradient: float | None, encoder: str, qubits: int
) -> None:
    model = qcnn(qubits, encoder=encoder, features=qubits)
    compare(
        Case(model.circuit, tuple(model.observables), batch=3, seed=qubits),
        inputs=model.inputs,
        parameters=model.parameters,
        backend=backend,
        dtype=dtype,
        gradient=gradient,
    )


@pytest.mark.parametrize("kind", sorted(name for table in TABLES for name in table))
def test_each_kind_of_gate_agrees_with_cirq(kind: str) -> None:
    (make,) = (table[kind] for table in TABLES if kind in table)
    x, p = sympy.symbols("x0 p0")
    gate = make(lambda: sympy.sin(x) * p + 0.3, lambda: x / 2 + p, 7)
    width = cirq.num_qubits(gate)
    qubits = cirq.LineQubit.range(5)
    circuit = cirq.Circuit(
        [cirq.ry(0.4 + 0.3 * at).on(q) for at, q in enumerate(qubits)],
        [cirq.CZ(*pair) for pair in pairwise(qubits)],
        [cirq.rx(sympy.Symbol("p1") + at).on(q) for at, q in enumerate(qubits)],
        gate.on(*[qubits[at] for at in (3, 1, 4, 0)][:width]),
        [cirq.ry(sympy.Symbol("x1") - at).on(q) for at, q in enumerate(qubits)],
    )
    a, b, c, d, e = qubits
    observables = (
        cirq.PauliSum() + cirq.Z(b) * cirq.X(d),
        cirq.X(a) * cirq.Y(b) * cirq.Z(c) * cirq.X(d) * cirq.Y(e) + 0.5 * cirq.Z(d),
    )
    compare(Case(circuit, observables, batch=3, seed=1))


@pytest.mark.parametrize("part", range(2))
def test_random_circuits_agree_with_cirq(part: int) -> None:
    """At night, 500 circuits are checked; see tests/exhaustive/test_random_circuits.py."""
    dtype = "complex64" if part % 4 == 0 else "complex128"
    check_each(draw_cases(part, 10), lambda case: compare(case, dtype=dtype))


@pytest.mark.exhaustive
def test_random_circuits_in_tensorflow_agree_with_cirq() -> None:
    check_each(draw_cases(10, 5, most_qubits=7), lambda case: compare(case, backend="tensorflow"))


@pytest.mark.tfq
@pytest.mark.parametrize("backend", ["tfq"])
def test_random_circuits_in_tfq_agree_with_cirq(backend: str) -> None:
    check_each(
        draw_cases(11, 6, most_qubits=5),
        lambda case: compare(case, backend=backend, dtype="complex64", gradient=1e-4),
    )


@pytest.mark.parametrize(
    ("backend", "dtype", "count"),
    [
        ("qfleet", "complex64", 3),
        ("qfleet", "complex128", 6),
        ("tensorflow", "complex128", 3),
        pytest.param("tfq", "complex64", 6, marks=pytest.mark.tfq),
    ],
)
def test_states_of_random_circuits_agree_with_cirq(backend: str, dtype: str, count: int) -> None:
    check_each(
        draw_cases(12, 40, most_qubits=6)[:count],
        lambda case: compare_states(case, backend=backend, dtype=dtype),
    )
