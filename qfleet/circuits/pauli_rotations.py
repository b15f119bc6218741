"""Rotations exp(-i angle P / 2) by Pauli words P."""

import itertools
from collections.abc import Iterator, Sequence

import cirq
import sympy

_ONE = {"X": cirq.rx, "Y": cirq.ry, "Z": cirq.rz}
_TWO = {"XX": cirq.XXPowGate, "YY": cirq.YYPowGate, "ZZ": cirq.ZZPowGate}


def rotation_layer(
    words: Sequence[str], qubits: Sequence[cirq.Qid], angle: sympy.Expr
) -> Iterator[cirq.Operation]:
    """Yield the operations of rotations by several words with one angle in radians."""
    for word in words:
        yield from pauli_rotation(word, qubits, angle)


def pauli_rotation(
    word: str, qubits: Sequence[cirq.Qid], angle: sympy.Expr
) -> Iterator[cirq.Operation]:
    """Yield the operations of exp(-i angle P / 2).

    Args:
        word: P, one letter (I, X, Y or Z) per qubit; not the identity.
        qubits: The qubits.
        angle: Angle in radians.
    """
    places = [place for place, letter in enumerate(word) if letter != "I"]
    letters = "".join(word[place] for place in places)
    touched = [qubits[place] for place in places]
    if len(letters) == 1:
        yield _ONE[letters](angle).on(*touched)
        return
    if letters in _TWO:
        gate = _TWO[letters](exponent=angle / sympy.pi, global_shift=-0.5)
        yield gate.on(*touched)
        return
    basis = [
        gate.on(qubit)
        for letter, qubit in zip(letters, touched, strict=True)
        if (gate := {"X": cirq.H, "Y": cirq.X**0.5}.get(letter))
    ]
    ladder = [cirq.CNOT(a, b) for a, b in itertools.pairwise(touched)]
    yield from basis
    yield from ladder
    yield cirq.rz(angle).on(touched[-1])
    yield from reversed(ladder)
    yield from (cirq.inverse(one) for one in basis)
