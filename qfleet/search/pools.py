"""Spaces of operators in any order: excitations of electrons, and Pauli strings."""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import cirq
import sympy

from qfleet.argument_checks import NAMES, checked, choice, integer
from qfleet.circuits.excitations import Excitation, doubles, excitation_words, singles
from qfleet.circuits.pauli_rotations import pauli_rotation
from qfleet.errors import ArgumentError
from qfleet.search.space import Space, SpaceGate, require_gates

Kind = Literal["fermionic", "qubit", "pair", "fan"]
_KINDS = ("fermionic", "qubit", "pair", "fan")
_ANGLE = sympy.Symbol("a")


@checked(qubits=integer(2), electrons=integer(1), kind=choice(_KINDS))
def excitations(qubits: int, electrons: int, kind: Kind = "qubit") -> Space:
    """Return the space of single and double excitations of a Hartree-Fock state.

    Spin orbitals are encoded by Jordan-Wigner and alternate between spin up and down, and the first
    `electrons` of them are occupied; excitations keep the number of each spin.

    Args:
        qubits: Spin orbitals, cirq.LineQubit.range.
        electrons: Electrons.
        kind: "fermionic" excitations are products of rotations by Pauli words. "qubit" excitations
            lack the signs of the orbitals between, and take 2 CNOTs for one electron and 14 for two
            (arXiv:2005.14475). "pair" moves two electrons of one orbital to another, with 2 CNOTs
            between one spin of both orbitals, and CNOTs that copy it to the other spin. "fan" turns
            an empty orbital and has CNOTs from it to the others: 1 or 3 CNOTs, but it is an
            excitation only where the orbitals are as in the Hartree-Fock state. A candidate with
            fans may leave the number of electrons.

    Raises:
        ArgumentError: There are not more qubits than electrons, or `kind` is unknown.
    """
    if not electrons < qubits:
        raise ArgumentError(
            f"electrons is {electrons}: pass fewer than the {qubits} qubits, or there are no"
            " excitations"
        )
    line = cirq.LineQubit.range(qubits)
    found = []
    every = (*singles(qubits, electrons), *doubles(qubits, electrons))
    require_gates(len(every))
    for one in every:
        if kind == "pair" and not (len(one[0]) == 2 and _is_pair(one[0]) and _is_pair(one[1])):
            continue
        name = f"{kind} {','.join(map(str, one[0]))}>{','.join(map(str, one[1]))}"
        if kind == "fan":
            found += [
                SpaceGate.of(list(_fan(line, one, root)), f"{name}@{root}") for root in one[1]
            ]
        else:
            found.append(SpaceGate.of(list(_MAKERS[kind](line, one)), name))
    return Space(tuple(found), tuple(line), hartree_fock(electrons))


@checked(words=NAMES)
def pauli_strings(words: Sequence[str], start: Iterable[cirq.Operation] = ()) -> Space:
    """Return the space of rotations exp(-i a P / 2) by Pauli words P.

    Args:
        words: Pauli words, one letter (I, X, Y or Z) per qubit, not the identity.
        start: Operations before all of them.

    Raises:
        ArgumentError: A word has another letter or another length, or is the identity.
    """
    require_gates(len(words))
    lengths = {len(word) for word in words}
    for word in words:
        if set(word) - set("IXYZ") or not word.strip("I") or len(lengths) > 1:
            raise ArgumentError(
                f"words has {word[:40]!r}: pass words of one length of the letters I, X, Y and Z,"
                " other than the identity"
            )
    line = cirq.LineQubit.range(*lengths) if lengths else []
    gates = [SpaceGate.of(list(pauli_rotation(word, line, _ANGLE)), word) for word in words]
    return Space(tuple(gates), tuple(line), tuple(start))


def hartree_fock(electrons: int) -> tuple[cirq.Operation, ...]:
    """Return the preparation of the state with the first orbitals occupied."""
    return tuple(cirq.X(qubit) for qubit in cirq.LineQubit.range(electrons))


def _fermionic(line: Sequence[cirq.LineQubit], one: Excitation) -> Iterator[cirq.Operation]:
    for word, factor in excitation_words(line, *one):
        yield from pauli_rotation(word, line, factor * _ANGLE)


def _fan(line: Sequence[cirq.LineQubit], one: Excitation, root: int) -> Iterator[cirq.Operation]:
    yield cirq.ry(_ANGLE).on(line[root])
    for other in (*one[0], *one[1]):
        if other != root:
            yield cirq.CNOT(line[root], line[other])


def _qubit(line: Sequence[cirq.LineQubit], one: Excitation) -> Iterator[cirq.Operation]:
    """Yield a rotation in the plane of both bit strings of an excitation."""
    if len(one[0]) == 1:
        yield from _swap_rotation(line[one[0][0]], line[one[1][0]])
        return
    a, b, c, d = (line[at] for at in (*one[0], *one[1]))
    # |1100> and |0011> become |1010> and |0010>, which differ in the first qubit only.
    turned = [cirq.CNOT(a, b), cirq.CNOT(c, d), cirq.CNOT(a, c)]
    yield from turned
    yield from _selected_rotation(a, ((b, 0), (c, 1), (d, 0)))
    yield from reversed(turned)


def _pair(line: Sequence[cirq.LineQubit], one: Excitation) -> Iterator[cirq.Operation]:
    (a, b), (c, d) = one
    copies = [cirq.CNOT(line[a], line[b]), cirq.CNOT(line[c], line[d])]
    yield from copies
    yield from _swap_rotation(line[a], line[c])
    yield from copies


def _is_pair(orbitals: Sequence[int]) -> bool:
    return orbitals[0] % 2 == 0 and orbitals[1] == orbitals[0] + 1


def _swap_rotation(a: cirq.Qid, b: cirq.Qid) -> Iterator[cirq.Operation]:
    """Yield exp(-i angle (XY - YX) / 2), a rotation in the plane of |01> and |10>.

    Two CZ in the basis of Y turn both Pauli words into X of one qubit.
    """
    yield from (cirq.rx(-math.pi / 2)(one) for one in (a, b))
    yield cirq.CZ(a, b)
    yield cirq.rx(_ANGLE)(a)
    yield cirq.rx(-_ANGLE)(b)
    yield cirq.CZ(a, b)
    yield from (cirq.rx(math.pi / 2)(one) for one in (a, b))


def _selected_rotation(
    target: cirq.Qid, controls: Sequence[tuple[cirq.Qid, int]]
) -> Iterator[cirq.Operation]:
    """Yield a Y rotation for one value of the controls, as 2**n rotations and 2**n CNOTs.

    The rotations between the CNOTs of a Gray code; Mottonen et al. (arXiv:quant-ph/0404089).
    """
    count = len(controls)
    code = [at ^ at >> 1 for at in range(1 << count)]
    for now, then in itertools.pairwise([*code, 0]):
        signs = [value for bit, (_, value) in enumerate(controls) if now >> bit & 1]
        yield cirq.ry(_ANGLE * (-1) ** sum(signs) / len(code)).on(target)
        control = controls[(now ^ then).bit_length() - 1][0]
        yield cirq.CNOT(control, target)


_MAKERS = {"fermionic": _fermionic, "qubit": _qubit, "pair": _pair}
