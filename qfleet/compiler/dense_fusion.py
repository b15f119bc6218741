"""Neighbouring factors fused into blocks, and data gates gathered into layers.

A step over the state costs the same whatever its 4x4 matrix holds, so as many shared gates as
possible go into each: one-qubit gates into the two-qubit blocks around them, and a whole two-qubit
unitary of an ansatz into one. Data gates, which differ from example to example, come here as
parity turns between fixed gates; a layer of them is one product with phases.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sympy

from qfleet.compiler.factor import Factor


@dataclass(frozen=True)
class FusedBlock:
    """A unitary on one or two qubits, shared by the batch.

    Attributes:
        qubits: Positions in the program's qubits; the first is the most significant bit.
        factors: What is multiplied, first applied first. Their qubits are positions in `qubits`.
    """

    qubits: tuple[int, ...]
    factors: tuple[Factor, ...]


@dataclass(frozen=True)
class ParityPhase:
    """`exp(i pi turn t Z...Z)`, per example.

    Attributes:
        qubits: Positions of the Zs.
        turn: Half-turns per unit of the exponent.
        exponent: The expression t.
    """

    qubits: tuple[int, ...]
    turn: float
    exponent: sympy.Expr


@dataclass(frozen=True)
class PhaseLayer:
    """Turns that are applied together, all diagonal.

    Attributes:
        turns: In any order.
    """

    turns: tuple[ParityPhase, ...]

    @property
    def qubits(self) -> tuple[int, ...]:
        """Every position that a turn touches, sorted."""
        return tuple(sorted({qubit for turn in self.turns for qubit in turn.qubits}))


class _Open:
    """A block while gates still join it."""

    def __init__(self, qubits: tuple[int, ...], factors: list[Factor]) -> None:
        self.qubits = qubits
        self.factors = factors


def fuse_gates(factors: Sequence[Factor], inputs: frozenset[str]) -> list[FusedBlock | PhaseLayer]:
    """Fuse factors, whose qubits are positions, into steps in an order that may be applied.

    Args:
        factors: In circuit order; those with a data symbol are parity turns.
        inputs: The names of the data symbols.
    """
    items: list[_Open | ParityPhase] = []
    last: dict[int, _Open | ParityPhase] = {}  # the newest item on each qubit
    for factor in factors:
        item = _placed(factor, inputs, items, last)
        for qubit in factor.qubits:
            last[qubit] = item
    _join_leftovers(items)
    return _arranged(
        [
            drop_unused_qubits(item.qubits, item.factors) if isinstance(item, _Open) else item
            for item in items
        ]
    )


def _placed(
    factor: Factor,
    inputs: frozenset[str],
    items: list[_Open | ParityPhase],
    last: dict[int, _Open | ParityPhase],
) -> _Open | ParityPhase:
    """The item that a factor went to."""
    item: _Open | ParityPhase
    if factor.symbols & inputs:
        item = ParityPhase(factor.qubits, float(factor.turns[0, 0]), factor.exponents[0])
        items.append(item)
        return item
    before = {id(last[qubit]): last[qubit] for qubit in factor.qubits if qubit in last}
    if len(before) == 1:
        (owner,) = before.values()
        # A gate on one qubit waits for the next pair rather than joining the last one: then the
        # pairs of an ansatz hold the same gates, and are one matrix.
        if isinstance(owner, _Open) and set(owner.qubits) == set(factor.qubits):
            owner.factors.append(factor)
            return owner
    item = _Open(factor.qubits, [])
    for qubit in factor.qubits:
        waiting = last.get(qubit)
        if isinstance(waiting, _Open) and len(waiting.qubits) == 1:
            item.factors += waiting.factors
            items.remove(waiting)
    item.factors.append(factor)
    items.append(item)
    return item


def _join_leftovers(items: list[_Open | ParityPhase]) -> None:
    """Give the blocks on one qubit that are left to the block before or after on that qubit."""
    for block in list(items):
        if not isinstance(block, _Open) or len(block.qubits) > 1:
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


def _nearest(items: Sequence[_Open | ParityPhase], block: _Open) -> _Open | None:
    """The first item on a block's qubit, if it is a block."""
    for item in items:
        if block.qubits[0] in item.qubits:
            return item if isinstance(item, _Open) else None
    return None


def _arranged(items: Sequence[FusedBlock | ParityPhase]) -> list[FusedBlock | PhaseLayer]:
    """Items in an order of as few steps as possible.

    Blocks come as early as they can, since the turns that wait meanwhile go into one layer, and
    the first blocks meet a state that does not differ from example to example yet.
    """
    steps: list[FusedBlock | PhaseLayer] = []
    waiting = list(items)
    while waiting:
        held: set[int] = set()  # by a block that waits, or by a turn
        blocked: set[int] = set()  # by a block that waits
        turns: list[ParityPhase] = []
        single: list[FusedBlock] = []
        later: list[FusedBlock | ParityPhase] = []
        for item in waiting:
            if isinstance(item, ParityPhase):
                if blocked.intersection(item.qubits):
                    later.append(item)
                    blocked.update(item.qubits)
                else:
                    turns.append(item)
                held.update(item.qubits)
            elif held.intersection(item.qubits):
                later.append(item)
                held.update(item.qubits)
                blocked.update(item.qubits)
            elif len(item.qubits) == 1:
                single.append(item)
            else:
                steps.extend(_paired([b for b in single if b.qubits[0] in item.qubits]))
                single = [b for b in single if b.qubits[0] not in item.qubits]
                steps.append(item)
        steps.extend(_paired(single))
        if turns:
            steps.append(PhaseLayer(tuple(turns)))
        waiting = later
    return steps


def _paired(single: list[FusedBlock]) -> list[FusedBlock]:
    """Blocks on one qubit, on different ones, two to a block."""
    pairs = []
    for first, second in zip(single[0::2], single[1::2], strict=False):
        qubits = (*first.qubits, *second.qubits)
        local = {qubit: at for at, qubit in enumerate(qubits)}
        moved = [
            Factor((local[block.qubits[0]],), factor.turns, factor.projectors, factor.exponents)
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
    """A block of factors on some of these qubits, multiplied where they can be.

    Args:
        qubits: What the factors' qubits are taken from.
        factors: First applied first.
        inputs: Factors with one of these symbols are multiplied among themselves only.
        at: The block's positions, unless they are `qubits`.
    """
    local = {qubit: index for index, qubit in enumerate(qubits)}
    return FusedBlock(
        at or qubits, _multiplied([_embed(factor, local) for factor in factors], inputs)
    )


def _multiplied(factors: Sequence[Factor], inputs: frozenset[str]) -> tuple[Factor, ...]:
    """Each factor moved to the first of its kind that it commutes its way to.

    Kinds are fixed, turned by trained symbols alone, and turned by data. X on one qubit then meets
    X on the other, and ZZ, YY and XX each other: 15 gates are 7 factors.
    """

    def kind(factor: Factor) -> tuple[bool, bool]:
        return factor.fixed, bool(factor.symbols & inputs)

    done: list[Factor] = []
    for factor in factors:
        found = None
        for at in range(len(done) - 1, -1, -1):
            commute = factor.commutes(done[at])
            alike = kind(factor) == kind(done[at])
            if alike and (commute or (factor.fixed and found is None)):
                found = at
            if not commute:
                break
        if found is None:
            done.append(factor)
        else:
            done[found] = factor.times(done[found])
    return tuple(done)


def _embed(factor: Factor, local: dict[int, int]) -> Factor:
    """A factor on all the qubits of its block, so that the block is a plain matrix product."""
    where = tuple(local[qubit] for qubit in factor.qubits)
    projectors = factor.projectors
    if where == (1, 0):
        shape = (-1, 2, 2, 2, 2)
        projectors = projectors.reshape(shape).transpose(0, 2, 1, 4, 3).reshape(-1, 4, 4)
    elif len(where) < len(local):
        sides = [(p, np.eye(2)) if where == (0,) else (np.eye(2), p) for p in projectors]
        projectors = np.stack([np.kron(*side) for side in sides])
    return Factor(tuple(range(len(local))), factor.turns, projectors, factor.exponents)
