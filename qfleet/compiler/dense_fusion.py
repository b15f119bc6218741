"""Gate fusion for the plain TensorFlow engine: dense blocks, and layers of data-dependent phases.

The cost of a step over the state does not depend on the entries of its 4x4 matrix, so each step
takes as many shared gates as possible: one-qubit gates join the two-qubit blocks around them, and a
two-qubit unitary of an ansatz becomes one block. Data gates differ per example. They arrive here as
parity phases between fixed gates; a layer of them is one multiplication by phases.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy

from qfleet.compiler.factor import Factor


@dataclass(frozen=True)
class FusedBlock:
    """A unitary on one or two qubits, shared by the batch.

    Attributes:
        qubits: Positions in the program's qubits; the first is the most significant bit.
        factors: The factors of the unitary, first applied first; their qubits are positions in
            `qubits`.
    """

    qubits: tuple[int, ...]
    factors: tuple[Factor, ...]


@dataclass(frozen=True)
class ParityPhase:
    """The gate `exp(i pi h t Z...Z)`, per example.

    Attributes:
        qubits: Positions of the Zs.
        half_turns: h, in half-turns per unit of the exponent.
        exponent: The expression t.
    """

    qubits: tuple[int, ...]
    half_turns: float
    exponent: sympy.Expr


@dataclass(frozen=True)
class PhaseLayer:
    """Parity phases that are applied together; all are diagonal.

    Attributes:
        phases: In any order.
    """

    phases: tuple[ParityPhase, ...]

    @property
    def qubits(self) -> tuple[int, ...]:
        """Every position that a phase acts on, sorted."""
        return tuple(sorted({qubit for phase in self.phases for qubit in phase.qubits}))


class _DenseBlockBuilder:
    """A block that further gates may join."""

    def __init__(self, qubits: tuple[int, ...], factors: list[Factor]) -> None:
        self.qubits = qubits
        self.factors = factors


def fuse_gates(factors: Sequence[Factor], inputs: frozenset[str]) -> list[FusedBlock | PhaseLayer]:
    """Fuse factors into steps.

    Args:
        factors: In circuit order, with positions as qubits; those with a data symbol are parity
            phases.
        inputs: Names of the data symbols.

    Returns:
        The steps in a valid order.
    """
    items: list[_DenseBlockBuilder | ParityPhase] = []
    last: dict[int, _DenseBlockBuilder | ParityPhase] = {}  # the newest item on each qubit
    for factor in factors:
        item = _place_factor(factor, inputs, items, last)
        for qubit in factor.qubits:
            last[qubit] = item
    _join_leftovers(items)
    return _arrange(
        [
            drop_unused_qubits(item.qubits, item.factors)
            if isinstance(item, _DenseBlockBuilder)
            else item
            for item in items
        ]
    )


def _place_factor(
    factor: Factor,
    inputs: frozenset[str],
    items: list[_DenseBlockBuilder | ParityPhase],
    last: dict[int, _DenseBlockBuilder | ParityPhase],
) -> _DenseBlockBuilder | ParityPhase:
    """Add a factor to an existing or a new item; return that item."""
    item: _DenseBlockBuilder | ParityPhase
    if factor.symbols & inputs:
        item = ParityPhase(factor.qubits, float(factor.half_turns[0, 0]), factor.exponents[0])
        items.append(item)
        return item
    before = {id(last[qubit]): last[qubit] for qubit in factor.qubits if qubit in last}
    if len(before) == 1:
        (owner,) = before.values()
        # A one-qubit gate joins the next pair instead of the last one: the pairs of an ansatz then
        # consist of the same gates and share one matrix.
        if isinstance(owner, _DenseBlockBuilder) and set(owner.qubits) == set(factor.qubits):
            owner.factors.append(factor)
            return owner
    item = _DenseBlockBuilder(factor.qubits, [])
    for qubit in factor.qubits:
        waiting = last.get(qubit)
        if isinstance(waiting, _DenseBlockBuilder) and len(waiting.qubits) == 1:
            item.factors += waiting.factors
            items.remove(waiting)
    item.factors.append(factor)
    items.append(item)
    return item


def _join_leftovers(items: list[_DenseBlockBuilder | ParityPhase]) -> None:
    """Join each remaining one-qubit block to the block before or after it on that qubit."""
    for block in list(items):
        if not isinstance(block, _DenseBlockBuilder) or len(block.qubits) > 1:
            continue
        at = items.index(block)
        before, after = _nearest(items[at - 1 :: -1] if at else [], block), None
        if before is None:
            after = _nearest(items[at + 1 :], block)
        if before is not None:
            before.factors += block.factors
        elif after is not None:
            after.factors[:0] = block.factors
        if before is not None or after is not None:
            items.remove(block)


def _nearest(
    items: Sequence[_DenseBlockBuilder | ParityPhase], block: _DenseBlockBuilder
) -> _DenseBlockBuilder | None:
    """Return the first item on a block's qubit if it is a block."""
    for item in items:
        if block.qubits[0] in item.qubits:
            return item if isinstance(item, _DenseBlockBuilder) else None
    return None


def _arrange(items: Sequence[FusedBlock | ParityPhase]) -> list[FusedBlock | PhaseLayer]:
    """Order items in as few steps as possible.

    Blocks come as early as possible: the phases that wait meanwhile share one layer, and the first
    blocks act on a state that is still the same for all examples.
    """
    steps: list[FusedBlock | PhaseLayer] = []
    waiting = list(items)
    while waiting:
        in_use: set[int] = set()  # qubits of waiting blocks and of phases
        blocked: set[int] = set()  # qubits of waiting blocks
        phases: list[ParityPhase] = []
        single: list[FusedBlock] = []
        later: list[FusedBlock | ParityPhase] = []
        for item in waiting:
            if isinstance(item, ParityPhase):
                if blocked.intersection(item.qubits):
                    later.append(item)
                    blocked.update(item.qubits)
                else:
                    phases.append(item)
                in_use.update(item.qubits)
            elif in_use.intersection(item.qubits):
                later.append(item)
                in_use.update(item.qubits)
                blocked.update(item.qubits)
            elif len(item.qubits) == 1:
                single.append(item)
            else:
                steps.extend(
                    _pair_single_qubit_blocks([b for b in single if b.qubits[0] in item.qubits])
                )
                single = [b for b in single if b.qubits[0] not in item.qubits]
                steps.append(item)
        steps.extend(_pair_single_qubit_blocks(single))
        if phases:
            steps.append(PhaseLayer(tuple(phases)))
        waiting = later
    return steps


def _pair_single_qubit_blocks(single: list[FusedBlock]) -> list[FusedBlock]:
    """Combine one-qubit blocks on different qubits, two per block."""
    pairs = []
    for first, second in zip(single[0::2], single[1::2], strict=False):
        qubits = (*first.qubits, *second.qubits)
        local = {qubit: at for at, qubit in enumerate(qubits)}
        moved = [
            Factor(
                (local[block.qubits[0]],), factor.half_turns, factor.projectors, factor.exponents
            )
            for block in (first, second)
            for factor in block.factors
        ]
        pairs.append(drop_unused_qubits((0, 1), moved, at=qubits))
    return pairs + single[len(single) - len(single) % 2 :]


def drop_unused_qubits(
    qubits: tuple[int, ...],
    factors: Sequence[Factor],
    inputs: frozenset[str] = frozenset(),
    *,
    at: tuple[int, ...] | None = None,
) -> FusedBlock:
    """Make a block of factors, multiplying those that can be.

    Args:
        qubits: The qubits that the factors act on.
        factors: First applied first.
        inputs: Factors with one of these symbols are multiplied among themselves only.
        at: The block's positions if they differ from `qubits`.
    """
    local = {qubit: index for index, qubit in enumerate(qubits)}
    places = tuple(tuple(local[qubit] for qubit in factor.qubits) for factor in factors)
    key = len(local), places, tuple(factor.key for factor in factors), inputs
    return FusedBlock(at or qubits, _products(_Block(key, tuple(factors))))


@dataclass(frozen=True)
class _Block:
    """Factors, with all that the product depends on as a key for a cache."""

    key: tuple[int, tuple[tuple[int, ...], ...], tuple[Any, ...], frozenset[str]]
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
