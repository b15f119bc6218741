"""Circuits as JSON: a round trip, and text of other people that runs no code."""

import json
import pickle
import random
from pathlib import Path
from typing import Any

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.circuits.circuit_json import from_json, require_json, to_json
from qfleet.compiler.circuit.plain_operations import bind
from qfleet.errors import CircuitError
from tests.support.circuit_grammar import circuits_of_all_forms, draw_circuit
from tests.support.random_circuits import INPUTS, PARAMETERS, OwnGate

X, Y = sympy.symbols("x y")
A, B, C = cirq.LineQubit.range(3)
CIRCUITS = [
    cirq.Circuit(cirq.rx(2 * X + sympy.sin(Y)).on(A), cirq.CZ(A, B) ** (X / 3), cirq.CCX(A, B, C)),
    cirq.Circuit(cirq.ry(sympy.Max(X, 0.5) * sympy.exp(Y) ** 2 + sympy.pi).on(A)),
    cirq.Circuit(
        cirq.CircuitOperation(
            cirq.FrozenCircuit(cirq.X(A) ** X), repetitions=3, use_repetition_ids=False
        )
    ),
    cirq.Circuit(cirq.Z(cirq.GridQubit(1, 2)), cirq.Y(cirq.NamedQubit("a b")).with_tags("t")),
    cirq.Circuit(cirq.MatrixGate(cirq.unitary(cirq.H))(A), cirq.X(A).controlled_by(B)),
]


CIRCUITS += [
    cirq.Circuit(cirq.ry(exponent).on(A))
    for exponent in (
        X / sympy.sqrt(2), sympy.acos(sympy.sqrt(X)), X**1.5, X * sympy.GoldenRatio, X**-64,
        X * sympy.Catalan, 2 ** (100 * X), X * (1 + sympy.I) ** 4,
    )
]  # fmt: skip
CIRCUITS += [
    cirq.Circuit(cirq.X(A).with_tags(cirq.VirtualTag(), "t"), cirq.wait(B, nanos=3)),
    cirq.Circuit(cirq.BooleanHamiltonianGate(["a", "b"], ["a & ~(b)", "a ^ b"], 0.3)(A, B)),
    cirq.Circuit(cirq.GlobalPhaseGate(sympy.I**X).controlled()(A)),
    cirq.Circuit(cirq.PauliInteractionGate(cirq.Y, False, cirq.X, True, exponent=X)(A, B)),
]


@pytest.mark.parametrize("circuit", CIRCUITS, ids=str)
def test_from_json_returns_the_circuit(circuit: cirq.Circuit) -> None:
    assert from_json(to_json(circuit)) == circuit


def read(compiled: qfleet.CompiledCircuit, point: np.ndarray) -> np.ndarray:
    call = compiled.expectation if compiled.readouts else compiled.state
    return call([point[:3]], point[3:])


def check_saved(circuit: cirq.Circuit, seed: int, *, has_noise: bool) -> None:
    """Check that a circuit of the grammar has equal values when saved, bound and pickled.

    Gates of one's own are written as others.
    """
    point = np.random.default_rng(seed).uniform(0.1, 0.9, 7)
    sums = [cirq.X(one) + 0.7 * cirq.Z(one) - cirq.Y(one) for one in circuit.all_qubits()]

    def compiled(one: cirq.Circuit) -> qfleet.CompiledCircuit:
        return qfleet.compile(one, INPUTS, PARAMETERS, sums if has_noise else ())

    first = compiled(circuit)
    expected = read(first, point)
    require_json(circuit)
    trained = bind(from_json(to_json(circuit)), dict(zip(PARAMETERS, point[3:], strict=True)))
    again = compiled(from_json(to_json(trained)))  # as a loaded run writes it
    np.testing.assert_allclose(read(again, point), expected, atol=1e-9)
    np.testing.assert_array_equal(read(pickle.loads(pickle.dumps(first)), point), expected)


def test_each_form_of_the_grammar_is_saved_and_loaded() -> None:
    for at, (circuit, noise) in enumerate(circuits_of_all_forms(random.Random(1), 6)):
        try:
            check_saved(circuit, at, has_noise=noise)
        except Exception as error:
            error.add_note(f"in circuit {at}")
            raise


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "part", [0, 1, *(pytest.param(part, marks=pytest.mark.nightly) for part in range(2, 5))]
)
def test_circuits_of_the_grammar_are_saved_and_loaded(part: int) -> None:
    for seed in range(60 * part, 60 * (part + 1)):
        noise = seed % 4 == 3
        circuit = draw_circuit(random.Random(seed), noise=noise)
        if not circuit.all_qubits():
            continue
        try:
            check_saved(circuit, seed, has_noise=noise)
        except Exception as error:
            error.add_note(f"in circuit {seed}")
            raise


def test_trained_duration_below_zero_is_saved() -> None:
    wait = cirq.WaitGate(cirq.Duration(picos=2 * X)).on(A).with_tags("t")
    bound = bind(cirq.Circuit(wait, cirq.ry(Y)(A)), {"x": -0.5})
    assert from_json(to_json(bound)) == bound
    assert cirq.parameter_names(bound) == {"y"}


def test_gate_of_ones_own_keeps_qubits_without_gates() -> None:
    own = cirq.FrozenCircuit(OwnGate(exponent=X).on(A, B, C))
    circuit = cirq.Circuit(cirq.X(B), cirq.CircuitOperation(own, repetitions=0))
    assert from_json(to_json(circuit)).all_qubits() == {A, B, C}


@pytest.mark.parametrize(
    "exponent",
    [
        2**X + Y, 2 ** (X * Y), (1 + sympy.I) ** 4 * X * Y, X ** (Y + 1.5), sympy.floor(X + Y),
        sympy.acos(sympy.sqrt(X)) * Y, sympy.Max(X, Y), sympy.exp(X) ** Y,
    ],
    ids=str,
)  # fmt: skip
def test_bind_some_symbols_keeps_the_value(exponent: sympy.Expr) -> None:
    """As a loaded run binds its trained angles; Cirq's resolver raises for some of these."""
    inner = cirq.FrozenCircuit(cirq.X(A) ** exponent)
    part = cirq.CircuitOperation(inner).with_params({"x": X / 2 + Y / 4}).with_tags("t")
    circuit = cirq.Circuit(cirq.rx(exponent)(A), part)
    bound = from_json(to_json(bind(circuit, {"y": 1.0})))
    assert cirq.parameter_names(bound) == {"x"}
    state = qfleet.compile(circuit, ["x", "y"]).state([0.6, 1.0])
    np.testing.assert_allclose(qfleet.compile(bound, ["x"]).state([0.6]), state, atol=1e-9)


def test_tag_that_json_does_not_carry_is_left_out() -> None:
    circuit = cirq.Circuit(cirq.rx(X)(A).with_tags(object()))
    assert not any(one.tags for one in from_json(to_json(circuit)).all_operations())


def test_circuit_that_cannot_be_saved_names_its_gate() -> None:
    with pytest.raises(CircuitError, match=r"x\*\*2000.* in moment 1 on qubits q\(1\)"):
        require_json(cirq.Circuit(cirq.rx(X)(B), cirq.rx(X**2000)(B)))


def gate(exponent: Any, **changes: Any) -> str:
    one = {
        "cirq_type": "GateOperation",
        "gate": {"cirq_type": "ZPowGate", "exponent": exponent, "global_shift": 0.0},
        "qubits": [{"cirq_type": "LineQubit", "x": 0}],
        **changes,
    }
    moment = {"cirq_type": "Moment", "operations": [one]}
    return json.dumps({"cirq_type": "Circuit", "moments": [moment]})


def integer(number: int) -> dict[str, Any]:
    return {"cirq_type": "sympy.Integer", "i": number}


POWER = {"cirq_type": "sympy.Pow", "args": [integer(9), integer(10**9)]}
NESTED: dict[str, Any] = {"cirq_type": "sympy.Pow", "args": [integer(9), integer(60)]}
for _ in range(9):
    NESTED = {"cirq_type": "sympy.Pow", "args": [NESTED, integer(60)]}


@pytest.mark.parametrize(
    "kind", ["sin", "Max", "exp", "Not", "Xor", "And", "Float", "Symbol", "Pow"]
)
def test_text_in_an_expression_is_not_evaluated(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "open('trace', 'w').close()"
    for arguments in ({"args": [code]}, {"args": [[code]]}, {"name": [code]}, {"approx": code}):
        text = gate({"cirq_type": f"sympy.{kind}", **arguments})
        with pytest.raises(ValueError, match="circuit"):
            from_json(text)
        if kind in ("sin", "Max", "exp"):  # types of qfleet, also in cirq.read_json
            with pytest.raises((TypeError, sympy.SympifyError)):
                cirq.read_json(json_text=text)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "3", "null", "{", '{"cirq_type": "Circuit"}', '{"cirq_type": 3}',
        '{"cirq_type": "pandas.DataFrame", "data": [], "columns": [], "index": []}',
        '{"cirq_type": "Circuit", "moments": [{"cirq_type": "REF", "key": 1}]}',
        '{"cirq_type": "Circuit", "moments": [{"cirq_type": "REF", "key": []}]}',
        "[" * 5000 + "]" * 5000, "[" * 200_000,
        gate("1+1"), gate([1]), gate(POWER), gate(NESTED), gate(10**30),
        gate(1.0, qubits=[]), gate(1.0, gate=None), gate({"cirq_type": "sympy.Lambda"}),
    ],
    ids=range(20),
)  # fmt: skip
def test_from_json_of_other_text_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the reasons are many
        from_json(text)


def test_repetitions_count_as_operations() -> None:
    circuit = cirq.FrozenCircuit(cirq.X(A))
    for _ in range(4):
        circuit = cirq.FrozenCircuit(cirq.CircuitOperation(circuit, repetitions=100))
    with pytest.raises(ValueError, match="more than 10,000,000 operations"):
        from_json(to_json(cirq.Circuit(cirq.CircuitOperation(circuit))))


def boolean(names: list[str], texts: list[str]) -> str:
    one = {"cirq_type": "BooleanHamiltonianGate", "parameter_names": names, "theta": 0.1}
    return gate(0, gate={**one, "boolean_strs": texts})


def function(name: str, *args: Any) -> dict[str, Any]:
    return {"cirq_type": f"sympy.{name}", "args": list(args)}


@pytest.mark.parametrize(
    "text",
    [
        *(boolean(["a"], [text]) for text in ("a(a)", "a.b", "b", "a**9", "9", "a" + " " * 2000)),
        *(boolean([name], []) for name in ("a b", "__import__", "lambda", "")),
        boolean([f"a{at}" for at in range(17)], []), boolean([], "a"),
        gate(function("floor", function("exp", integer(10**18)))),
        gate(function("exp", function("exp", integer(100)))),
        gate(function("Pow", integer(2), function("Mul", integer(2000), integer(1)))),
    ],
    ids=range(15),
)  # fmt: skip
def test_part_that_would_be_evaluated_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the reasons are many
        from_json(text)
