"""Ansatz circuits for ground states and state preparation.

Every symbol is an angle in radians. With `inputs`, such as the field of a Hamiltonian, each angle
is a trained offset plus a trained factor times each input.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import cirq
import numpy as np
import sympy

from qfleet.argument_checks import NAMES, TEXT, checked, instance, integer, number
from qfleet.circuits.excitations import doubles, excitation_words, singles
from qfleet.circuits.model_circuit import ModelCircuit
from qfleet.circuits.pauli_rotations import pauli_rotation, rotation_layer
from qfleet.errors import ArgumentError

ANNEALING_STEP = 0.2
"""Time of a layer of the annealing with which training begins, in units of 1 / coefficient."""


def pauli_terms(terms: object, name: str) -> Mapping[str, float]:
    """Check coefficients by Pauli word."""
    found: Mapping[str, float] = instance(Mapping, "coefficients by Pauli word")(terms, name)
    lengths = {len(TEXT(word, f"a key of {name}")) for word in found}
    if len(lengths) != 1 or not all(set(word) <= set("IXYZ") for word in found):
        raise ArgumentError(f"{name} has keys that are not Pauli words of one length, such as XIZ")
    return {word: number(value, f"{name}[{word!r}]") for word, value in found.items()}


class Angles:
    """Trained angles, made one by one; affine in the inputs.

    Args:
        inputs: Names of the inputs.

    Attributes:
        names: Names of the trained symbols so far.
        initial: Values around which their training begins, in radians.
    """

    def __init__(self, inputs: Sequence[str]) -> None:
        self._inputs = tuple(inputs)
        self.names: list[str] = []
        self.initial: list[float] = []

    def new(self, initial: float = 0.0, factors: Mapping[str, float] | None = None) -> sympy.Expr:
        """Return a new angle, which begins at a value.

        Args:
            initial: The value for inputs of 0.
            factors: Where the factors of inputs begin, by name; 0 for all inputs unless given.
        """
        begin = dict.fromkeys(self._inputs, 0.0) if factors is None else factors
        offset = self._symbol(initial)
        return sum((self._symbol(at) * sympy.Symbol(one) for one, at in begin.items()), offset)

    def _symbol(self, initial: float) -> sympy.Symbol:
        self.names.append(f"theta_{len(self.names)}")
        self.initial.append(initial)
        return sympy.Symbol(self.names[-1])


@checked(qubits=integer(1), layers=integer(0), inputs=NAMES)
def hardware_efficient(qubits: int, layers: int, *, inputs: Sequence[str] = ()) -> ModelCircuit:
    """Return ry and rz rotations of all qubits, between layers of CZ on a line.

    Kandala et al., "Hardware-efficient variational quantum eigensolver" (arXiv:1704.05018).

    Args:
        qubits: Number of qubits.
        layers: Layers of CZ; each is followed by rotations, and one layer of them comes first.
        inputs: Names of inputs.

    Returns:
        A circuit without observables, that starts in |0...0>.
    """
    line = cirq.LineQubit.range(qubits)
    angles = Angles(inputs)

    def rotations() -> Iterator[cirq.Operation]:
        for gate in (cirq.ry, cirq.rz):
            for qubit in line:
                yield gate(angles.new()).on(qubit)

    operations: list[cirq.Operation] = list(rotations())
    by_layer = [len(angles.names)]
    for _ in range(layers):
        operations += [cirq.CZ(a, b) for a, b in neighbours(line)]
        operations += rotations()
        by_layer.append(len(angles.names))
    return model_circuit(operations, line, inputs, angles, by_layer, starts_at_zero=False)


def neighbours(line: Sequence[cirq.Qid]) -> Iterator[tuple[cirq.Qid, cirq.Qid]]:
    """Yield the neighbours on a line: those of even qubits first, which act side by side."""
    for first in (0, 1):
        yield from zip(line[first::2], line[first + 1 :: 2], strict=False)


@checked(terms=pauli_terms, layers=integer(0), inputs=NAMES)
def hamiltonian_variational(
    terms: Mapping[str, float], layers: int, *, inputs: Sequence[str] = ()
) -> ModelCircuit:
    """Return rotations by the Pauli words of a Hamiltonian, one angle per group and layer.

    Wecker, Hastings and Troyer, "Progress towards practical quantum variational algorithms"
    (arXiv:1507.08969); of QAOA's form for Ising models. A group has the words with the same letters
    that begin at even or at odd qubits.

    The start state is |+...+> if a word is a single X, singlets of neighbours if there are words
    XX, YY and ZZ, and |0...0> otherwise. In the first two cases it is a ground state of some words,
    and training begins with an annealing in which the others are switched on.

    Args:
        terms: Coefficients by Pauli word, of one letter per qubit, without the identity.
        layers: Number of layers.
        inputs: Names of inputs.

    Returns:
        A circuit without observables.
    """
    words = list(terms)
    line = cirq.LineQubit.range(len(words[0]))
    groups = groups_of(terms)
    operations, solved = start_state(line, groups)
    angles = Angles(inputs)
    by_layer = []
    for layer in range(layers):
        done = (layer + 0.5) / layers
        operations += group_rotations(terms, groups, line, angles, solved, done)
        by_layer.append(len(angles.names))
    return model_circuit(operations, line, inputs, angles, by_layer)


Group = tuple[str, int]
"""Letters of Pauli words, and whether they begin at even or at odd qubits."""


def groups_of(terms: Iterable[str]) -> dict[Group, list[str]]:
    """Return the Pauli words with the same letters that begin at even or at odd qubits."""
    groups: dict[Group, list[str]] = {}
    for word in terms:
        letters = word.replace("I", "")
        begin = len(word) - len(word.lstrip("I"))
        parity = begin % 2 if len(letters) > 1 else 0
        groups.setdefault((letters, parity), []).append(word)
    return groups


def start_state(
    line: Sequence[cirq.Qid], groups: Iterable[Group]
) -> tuple[list[cirq.Operation], set[Group]]:
    """Return the preparation of the start state, and the groups whose ground state it is."""
    letters = {key[0] for key in groups}
    if "X" in letters:
        return [cirq.H(qubit) for qubit in line], {("X", 0)}
    if {"XX", "YY", "ZZ"} <= letters:
        pairs = zip(line[::2], line[1::2], strict=False)
        singlets = [
            operation
            for a, b in pairs
            for operation in (cirq.X(a), cirq.X(b), cirq.H(a), cirq.CNOT(a, b))
        ]
        return singlets, {(key, 0) for key in ("XX", "YY", "ZZ")}
    return [], set()


def group_rotations(
    terms: Mapping[str, float],
    groups: Mapping[Group, Sequence[str]],
    line: Sequence[cirq.Qid],
    angles: Angles,
    solved: Container[Group],
    done: float,
) -> list[cirq.Operation]:
    """Return rotations by the words of each group, with a new angle per group.

    Args:
        terms: Coefficients by Pauli word.
        groups: Groups of words.
        line: The qubits.
        angles: Receives the new angles.
        solved: Groups whose ground state is the start state. Without any, angles start at 0.
        done: Part of the annealing that is over, to which other groups are switched on.
    """
    operations: list[cirq.Operation] = []
    # Words of several letters first, those that join the start's singlets last.
    for key in sorted(groups, key=lambda key: (len(key[0]) == 1, -key[1], key[0])):
        share = (1.0 if key in solved else done) if solved else 0.0
        initial = 2 * ANNEALING_STEP * float(np.sign(terms[groups[key][0]])) * share
        operations += rotation_layer(groups[key], line, angles.new(initial))
    return operations


@checked(qubits=integer(1), electrons=integer(1), inputs=NAMES)
def uccsd(qubits: int, electrons: int, *, inputs: Sequence[str] = ()) -> ModelCircuit:
    """Return unitary coupled cluster with single and double excitations, in one Trotter step.

    Romero et al., "Strategies for quantum computing molecular energies using the unitary coupled
    cluster ansatz" (arXiv:1701.02691). Spin orbitals are encoded by Jordan-Wigner and alternate
    between spin up and down; excitations keep the number of each. Angles of 0 give the Hartree-Fock
    state.

    Args:
        qubits: Spin orbitals.
        electrons: Electrons, which occupy the first orbitals.
        inputs: Names of inputs.

    Returns:
        A circuit without observables.

    Raises:
        ArgumentError: There are not more qubits than electrons, or an argument has the wrong type.
    """
    if not 0 < electrons < qubits:
        raise ArgumentError(
            f"electrons is {electrons}: pass fewer than the {qubits} qubits, or there are no"
            " excitations"
        )
    line = cirq.LineQubit.range(qubits)
    operations: list[cirq.Operation] = [cirq.X(line[i]) for i in range(electrons)]
    angles = Angles(inputs)
    by_layer = []
    for excitations in (singles(qubits, electrons), doubles(qubits, electrons)):
        for occupied, empty in excitations:
            angle = angles.new()
            for word, factor in excitation_words(line, occupied, empty):
                operations += pauli_rotation(word, line, factor * angle)
        by_layer.append(len(angles.names))
    return model_circuit(operations, line, inputs, angles, by_layer)


def model_circuit(
    operations: Iterable[cirq.Operation],
    line: Sequence[cirq.Qid],
    inputs: Sequence[str],
    angles: Angles,
    by_layer: Sequence[int],
    *,
    starts_at_zero: bool = True,
) -> ModelCircuit:
    """Return a circuit without observables.

    Args:
        operations: The circuit.
        line: Its qubits.
        inputs: Names of the inputs.
        angles: The trained angles.
        by_layer: Number of angles up to the end of each layer.
        starts_at_zero: Training begins at angles of 0, and otherwise anywhere.
    """
    bounds = zip([0, *by_layer[:-1]], by_layer, strict=True)
    names = tuple(angles.names)
    return ModelCircuit(
        cirq.Circuit(operations),
        tuple(inputs),
        names,
        (),
        tuple(line),
        tuple(names[first:last] for first, last in bounds),
        tuple(angles.initial) if any(angles.initial) or starts_at_zero else (),
    )
