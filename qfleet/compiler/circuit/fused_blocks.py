"""Blocks: products of factors on one or two qubits."""

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from qfleet.compiler.circuit.factor import Factor


@dataclass(frozen=True)
class FusedBlock:
    """A unitary on one or two qubits.

    Attributes:
        qubits: Positions in the program's qubits; the first is the most significant bit.
        factors: The factors of the unitary, first applied first; their qubits are positions in
            `qubits`.
    """

    qubits: tuple[int, ...]
    factors: tuple[Factor, ...]


def make_block(
    qubits: tuple[int, ...],
    factors: Sequence[Factor],
    inputs: frozenset[str] = frozenset(),
) -> FusedBlock:
    """Make a block, in which factors are multiplied where they commute to each other.

    Args:
        qubits: The qubits that the factors act on.
        factors: First applied first.
        inputs: Factors with one of these symbols are multiplied among themselves only.
    """
    local = {qubit: index for index, qubit in enumerate(qubits)}
    places = tuple(tuple(local[qubit] for qubit in factor.qubits) for factor in factors)
    key = len(local), places, tuple(factor.key for factor in factors), inputs
    return FusedBlock(qubits, _products(_Block(key, tuple(factors))))


@dataclass(frozen=True)
class _Block:
    """Factors, with all that the product depends on as a key for a cache."""

    key: tuple[int, tuple[tuple[int, ...], ...], tuple[Hashable, ...], frozenset[str]]
    factors: tuple[Factor, ...] = field(compare=False)


@functools.lru_cache(maxsize=1024)  # many blocks of a circuit are equal, and models are built again
def _products(block: _Block) -> tuple[Factor, ...]:
    width, places, _, inputs = block.key
    placed = zip(block.factors, places, strict=True)
    return _multiply([embed(factor, where, width) for factor, where in placed], inputs)


def _multiply(factors: Sequence[Factor], inputs: frozenset[str]) -> tuple[Factor, ...]:
    """Multiply each factor with the first of its kind that it can be commuted to.

    The kinds are: fixed, parametrized by trained symbols only, and parametrized by data. X on one
    qubit then joins X on the other, and ZZ, YY and XX join each other: 15 gates are 7 factors.
    """

    def kind(factor: Factor) -> tuple[bool, bool]:
        return factor.fixed, bool(factor.symbols & inputs)

    products: list[Factor] = []
    for factor in factors:
        target = None
        for at in range(len(products) - 1, -1, -1):
            commute = factor.commutes(products[at])
            same_kind = kind(factor) == kind(products[at])
            if same_kind and (commute or (factor.fixed and target is None)):
                target = at
            if not commute:
                break
        if target is None:
            products.append(factor)
        else:
            products[target] = factor.times(products[target])
    return tuple(products)


def embed(factor: Factor, where: tuple[int, ...], width: int) -> Factor:
    """Extend a factor to all qubits of its block, so that the block is a plain matrix product."""
    projectors = factor.projectors
    if where == (1, 0):
        shape = (-1, 2, 2, 2, 2)
        projectors = projectors.reshape(shape).transpose(0, 2, 1, 4, 3).reshape(-1, 4, 4)
    elif len(where) < width:
        sides = [(p, np.eye(2)) if where == (0,) else (np.eye(2), p) for p in projectors]
        projectors = np.stack([np.kron(*side) for side in sides])
    return Factor(tuple(range(width)), factor.half_turns, projectors, factor.exponents)
