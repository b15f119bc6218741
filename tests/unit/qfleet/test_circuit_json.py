"""Circuits as JSON: a round trip, and text of other people that runs no code."""

import json
from pathlib import Path
from typing import Any

import cirq
import pytest
import sympy

from qfleet.circuits.circuit_json import from_json, to_json

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


@pytest.mark.parametrize("circuit", CIRCUITS, ids=str)
def test_from_json_returns_the_circuit(circuit: cirq.Circuit) -> None:
    assert from_json(to_json(circuit)) == circuit


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
