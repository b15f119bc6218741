"""Unitary matrices as products of exponentials with fixed generators, and angles of them.

A matrix is D, a diagonal of phases, and after it rotations of two levels each with a phase of one
(Reck et al. 1994). The derivative is not that of these angles, which have singular points. It is
that of exponentials exp(i delta P) of all Pauli words after the matrix, at delta = 0.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import cirq
import numpy as np
import sympy

_PAULIS = tuple(cirq.unitary(one) for one in (cirq.I, cirq.X, cirq.Y, cirq.Z))


@dataclass(frozen=True, eq=False)
class Generator:
    """A Hermitian matrix by its eigenspaces.

    Attributes:
        name: Its name; equal names have equal matrices.
        values: Eigenvalues.
        projectors: On the eigenspaces, each [d, d].
    """

    name: str
    values: tuple[float, ...]
    projectors: tuple[np.ndarray, ...]


class Exponential(cirq.EigenGate):
    """The gate exp(i pi exponent G) of a generator G.

    Args:
        generator: G.
        exponent: In half-turns; a number or an expression.
    """

    def __init__(self, generator: Generator, exponent: float | sympy.Expr) -> None:
        super().__init__(exponent=exponent)
        self.generator = generator

    def _num_qubits_(self) -> int:
        return len(self.generator.projectors[0]).bit_length() - 1

    def _eigen_components(self) -> list[tuple[float, np.ndarray]]:
        return list(zip(self.generator.values, self.generator.projectors, strict=True))

    def _with_exponent(self, exponent: float | sympy.Expr) -> "Exponential":
        return Exponential(self.generator, exponent)

    def _value_equality_values_(self) -> tuple[object, ...]:
        return self.generator.name, self.exponent

    def __repr__(self) -> str:
        return f"Exponential({self.generator.name}, {self.exponent})"


@cache
def pauli_words(qubits: int) -> np.ndarray:
    """Return all Pauli words, [4^n, d, d], the first the identity.

    Args:
        qubits: n.
    """
    words = [np.eye(1)]
    for _ in range(qubits):
        words = [np.kron(word, one) for word, one in itertools.product(words, _PAULIS)]
    return np.stack(words)


@cache
def generators(qubits: int) -> tuple[Generator, ...]:
    """Return the generators of all exponentials, the first applied first.

    Args:
        qubits: n, and d = 2^n.

    Returns:
        d^2 generators of the matrix, and d^2 Pauli words of its derivative.
    """
    size = 2**qubits
    found = [_phase(level, size) for level in range(size)]
    for first, second in reversed(_steps(size)):
        found += [_rotation(first, second, size), _phase(second, size)]
    return (*found, *(_word(at, one) for at, one in enumerate(pauli_words(qubits))))


def matrix_exponents(matrices: np.ndarray) -> np.ndarray:
    """Return the exponents of the first d^2 generators, in half-turns, [..., d^2].

    Args:
        matrices: [..., d, d] unitary.
    """
    rest = np.array(matrices, np.complex128)
    pairs: list[np.ndarray] = []
    for column, row in _steps(rest.shape[-1]):
        top, bottom = rest[..., column, :].copy(), rest[..., row, :]
        phase = np.angle(bottom[..., column]) - np.angle(top[..., column])
        bottom = bottom * np.exp(-1j * phase)[..., np.newaxis]
        turn = np.arctan2(np.abs(bottom[..., column]), np.abs(top[..., column]))
        cos, sin = np.cos(turn)[..., np.newaxis], np.sin(turn)[..., np.newaxis]
        rest[..., column, :] = cos * top + sin * bottom
        rest[..., row, :] = cos * bottom - sin * top
        pairs = [turn, phase, *pairs]
    phases = np.angle(np.diagonal(rest, axis1=-2, axis2=-1))
    found: np.ndarray = np.concatenate([phases, np.stack(pairs, axis=-1)], axis=-1) / math.pi
    return found


def _steps(size: int) -> Sequence[tuple[int, int]]:
    """Return the columns and rows of the elements that rotations make 0, in order."""
    return [(column, row) for column in range(size - 1) for row in range(size - 1, column, -1)]


def _phase(level: int, size: int) -> Generator:
    on = np.diag(np.arange(size) == level).astype(np.complex128)
    return Generator(f"phase {level} of {size}", (1.0, 0.0), (on, np.eye(size) - on))


def _rotation(first: int, second: int, size: int) -> Generator:
    """Return the generator of [[cos, -sin], [sin, cos]] on two levels."""
    states = np.zeros((2, size), np.complex128)
    states[:, first], states[:, second] = 1, [1j, -1j]
    plus, minus = (np.outer(one, one.conj()) / 2 for one in states)
    projectors = plus, minus, np.eye(size) - plus - minus
    return Generator(f"rotation {first} {second} of {size}", (-1.0, 1.0, 0.0), projectors)


def _word(at: int, word: np.ndarray) -> Generator:
    size, name = len(word), f"word {at} of {len(word)}"
    if not at:
        return Generator(name, (1.0,), (np.eye(size, dtype=np.complex128),))
    plus = (np.eye(size) + word) / 2
    return Generator(name, (1.0, -1.0), (plus, np.eye(size) - plus))
