"""Warm start of a search: the circuit of a matrix product state of low energy.

The state has bonds of dimension 2. Its tensors are optimised one by one in sweeps, as the density
matrix renormalisation group does (Schollwoeck, arXiv:1008.3477). In right-canonical form, each of
them is an isometry, and so a gate on two neighbouring qubits (Schoen et al.,
arXiv:quant-ph/0501096).
"""

from collections.abc import Sequence

import cirq
import numpy as np

from qfleet.argument_checks import checked, instance, integer
from qfleet.errors import ArgumentError
from qfleet.problems.hamiltonian import Hamiltonian
from qfleet.search.layers import layers as layers_of
from qfleet.search.records import Candidate
from qfleet.search.space import Space, super_circuit_of

STARTS = 4
"""Random states that are optimised, of which the best is kept."""

_BOND = 2
_MOST_SWEEPS = 50
_CONVERGED = 1e-10  # of the energy of a sweep, relative to the sum of all coefficients
_NO_TURN = 1e-9
_REAL = {
    "I": np.eye(2),
    "X": np.array([[0.0, 1.0], [1.0, 0.0]]),
    "Y": np.array([[0.0, -1.0], [1.0, 0.0]]),  # times i, which the coefficients have
    "Z": np.diag([1.0, -1.0]),
}


@checked(problem=instance(Hamiltonian, "a Hamiltonian"), layers=integer(0), seed=integer(0))
def matrix_product_start(
    problem: Hamiltonian, layers: int = 0, *, seed: int = 0
) -> tuple[Space, Candidate]:
    """Return the ordered space of a matrix product state's circuit, and the candidate of the state.

    Layers of CNOTs and rotations come before the circuit. With angles of 0, they leave its first
    state |0...0> as it is. So the candidate with all gates has the energy of the state, and lower
    energies are near it. `GatePruning` takes both.

    Args:
        problem: The Hamiltonian, of 2 qubits or more.
        layers: Layers before the circuit.
        seed: Seed of the states that are optimised.

    Raises:
        ArgumentError: The Hamiltonian has one qubit.
    """
    circuit = matrix_product_circuit(problem, seed=seed)
    space, start = super_circuit_of(one for one in circuit.all_operations() if one.gate != cirq.I)
    line = tuple(cirq.LineQubit.range(problem.qubits))
    first = layers_of(problem.qubits, layers).gates if layers else ()
    gates = (*first, *space.gates)
    none = (0.0,) * sum(len(gate.angles) for gate in first)
    every = Candidate(tuple(range(len(gates))), (*none, *start.angles), origin="start")
    return Space(gates, line, ordered=True), every


@checked(problem=instance(Hamiltonian, "a Hamiltonian"), seed=integer(0))
def matrix_product_circuit(problem: Hamiltonian, *, seed: int = 0) -> cirq.Circuit:
    """Return a circuit whose state is a matrix product state of low energy.

    It has one gate for each pair of neighbours of the line, decomposed to CZs and rotations.

    Args:
        problem: The Hamiltonian, of 2 qubits or more.
        seed: Seed of the states that are optimised.

    Raises:
        ArgumentError: The Hamiltonian has one qubit.
    """
    if problem.qubits < 2:
        raise ArgumentError("problem has one qubit: a matrix product state has 2 or more")
    random = np.random.default_rng(seed)
    states = [_Sweeps(problem, random) for _ in range(STARTS)]
    best = min(states, key=lambda one: one.minimise())
    return _circuit(best.tensors)


class _Sweeps:
    """A matrix product state whose tensors are optimised.

    Attributes:
        tensors: [l, 2, r] for each qubit: the first has norm 1, the others are right-canonical.
    """

    def __init__(self, problem: Hamiltonian, random: np.random.Generator) -> None:
        turns = np.array([1j ** word.count("Y") for word in problem.terms])
        weights = turns * problem.coefficients
        is_real = not np.abs(weights.imag).any()
        self._weights = weights.real if is_real else weights
        self._words = [
            np.array([_REAL[word[site]] for word in problem.terms])
            for site in range(problem.qubits)
        ]
        count = problem.qubits
        bonds = [1, *[_BOND] * (count - 1), 1]
        shapes = [(bonds[site], 2, bonds[site + 1]) for site in range(count)]
        self.tensors = [random.normal(size=shape) for shape in shapes]
        if not is_real:
            self.tensors = [one + 1j * random.normal(size=one.shape) for one in self.tensors]
        self._left = [np.ones((len(weights), 1, 1))] * (count + 1)  # of the qubits before a bond
        self._right = [np.ones((len(weights), 1, 1))] * (count + 1)  # of those after it
        for site in range(count - 1, 0, -1):
            self._move_left(site)

    def minimise(self) -> float:
        """Sweep until the energy does not fall any more; return it."""
        last, scale = np.inf, float(np.abs(self._weights).sum()) or 1.0
        for _ in range(_MOST_SWEEPS):
            for site in range(len(self.tensors) - 1):
                self._solve(site)
                self._move_right(site)
            for site in range(len(self.tensors) - 1, 0, -1):
                self._solve(site)
                self._move_left(site)
            energy = self._solve(0)
            if energy > last - _CONVERGED * scale:
                break
            last = energy
        return energy

    def _solve(self, site: int) -> float:
        """Replace a tensor by the best one, if all others stay; return the energy."""
        shape = self.tensors[site].shape
        whole = np.einsum(
            "w,wac,wst,wbd->asbctd",
            self._weights,
            self._left[site],
            self._words[site],
            self._right[site + 1],
            optimize=True,
        ).reshape(np.prod(shape), -1)
        values, vectors = np.linalg.eigh(whole)
        self.tensors[site] = vectors[:, 0].reshape(shape)
        return float(values[0])

    def _move_right(self, site: int) -> None:
        """Make a tensor left-canonical; the next one takes the rest."""
        one = self.tensors[site]
        unitary, rest = np.linalg.qr(one.reshape(-1, one.shape[2]))
        self.tensors[site] = one = unitary.reshape(one.shape)
        self.tensors[site + 1] = np.tensordot(rest, self.tensors[site + 1], 1)
        self._left[site + 1] = np.einsum(
            "asb,wst,wac,ctd->wbd", one.conj(), self._words[site], self._left[site], one,
            optimize=True,
        )  # fmt: skip

    def _move_left(self, site: int) -> None:
        """Make a tensor right-canonical; the one before it takes the rest."""
        one = self.tensors[site]
        unitary, rest = np.linalg.qr(one.reshape(one.shape[0], -1).conj().T)
        self.tensors[site] = one = unitary.conj().T.reshape(one.shape)
        self.tensors[site - 1] = np.tensordot(self.tensors[site - 1], rest.conj().T, 1)
        self._right[site] = np.einsum(
            "asb,wst,wbd,ctd->wac", one.conj(), self._words[site], self._right[site + 1], one,
            optimize=True,
        )  # fmt: skip


def _circuit(tensors: Sequence[np.ndarray]) -> cirq.Circuit:
    """Return the circuit of right-canonical tensors."""
    line = cirq.LineQubit.range(len(tensors))
    *inner, last = tensors
    inner[-1] = np.einsum("lsr,rt->lst", inner[-1], last[:, :, 0])
    operations: list[cirq.Operation] = []
    for at, tensor in enumerate(inner):
        pair = line[at : at + 2]
        if at == 0:
            state = tensor.reshape(4)
            operations += cirq.prepare_two_qubit_state_using_cz(*pair, state)
        else:
            operations += cirq.two_qubit_matrix_to_cz_operations(
                *pair, _unitary(tensor.reshape(2, 4).T), allow_partial_czs=False
            )
    merged = cirq.merge_single_qubit_gates_to_phxz(cirq.Circuit(operations))
    return cirq.Circuit(map(_rotations, merged.all_operations()), cirq.I.on_each(*line))


def _unitary(isometry: np.ndarray) -> np.ndarray:
    """Return a unitary matrix whose columns 0 and 2, of the second qubit in |0>, are given.

    Real ones have the determinant 1: they need two CZs.
    """
    found, _ = np.linalg.qr(isometry, mode="complete")
    whole = np.stack([isometry[:, 0], found[:, 2], isometry[:, 1], found[:, 3]], axis=1)
    whole[:, 3] /= np.linalg.det(whole)
    return whole


def _rotations(operation: cirq.Operation) -> list[cirq.Operation]:
    """Return rotations about Z, Y and Z in the place of a gate on one qubit."""
    if len(operation.qubits) > 1:
        return [operation]
    angles = cirq.deconstruct_single_qubit_matrix_into_angles(cirq.unitary(operation))
    turns = zip((cirq.rz, cirq.ry, cirq.rz), angles, strict=True)
    return [turn(angle).on(*operation.qubits) for turn, angle in turns if abs(angle) > _NO_TURN]
