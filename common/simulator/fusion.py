"""Neighbouring factors fused into blocks on one or two qubits.

A step over the state costs the same whatever its 4x4 matrix holds, so as many gates as possible
go into each: one-qubit gates into the two-qubit blocks around them, and a whole two-qubit unitary
of an ansatz into one. Blocks that hold data symbols have a matrix per example; a shared gate only
joins one of them where that saves a block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.simulator.factor import Factor, fixed


@dataclass(frozen=True)
class Block:
    """A unitary on one or two qubits.

    Attributes:
        qubits: Positions in the program's qubits; the first is the most significant bit.
        factors: What is multiplied, first applied first. Their qubits are 0 and 1: positions in
            `qubits`.
        per_example: Whether a data symbol turns one of them.
    """

    qubits: tuple[int, ...]
    factors: tuple[Factor, ...]
    per_example: bool


class _Open:
    """A block while gates still join it."""

    def __init__(self, qubits: tuple[int, ...], per_example: bool) -> None:
        self.qubits = qubits
        self.per_example = per_example
        self.factors: list[Factor] = []


def fuse(factors: Sequence[Factor], inputs: frozenset[str]) -> list[Block]:
    """Fuse factors, whose qubits are positions, into blocks in an order that may be applied.

    Args:
        factors: In circuit order.
        inputs: The names of the data symbols.
    """
    blocks: list[_Open] = []
    last: dict[int, _Open] = {}  # the newest block on each qubit

    def place(factor: Factor, per_example: bool) -> None:
        before = {id(last[qubit]): last[qubit] for qubit in factor.qubits if qubit in last}
        if len(before) == 1:
            (owner,) = before.values()
            # A gate on one qubit waits for the next pair rather than joining the last one: then
            # the pairs of an ansatz hold the same gates, and are one matrix.
            if set(owner.qubits) == set(factor.qubits) and owner.per_example == per_example:
                owner.factors.append(factor)
                return
        block = _Open(factor.qubits, per_example)
        for qubit in factor.qubits:
            waiting = last.get(qubit)
            if waiting and len(waiting.qubits) == 1 and waiting.per_example == per_example:
                block.factors.extend(waiting.factors)
                blocks.remove(waiting)
        block.factors.append(factor)
        blocks.append(block)
        for qubit in factor.qubits:
            last[qubit] = block

    for factor in factors:
        place(factor, bool(factor.symbols & inputs))
    _join_sandwiches(blocks)
    _join_leftovers(blocks)
    _join_same(blocks)
    return [_closed(block) for block in blocks]


def _neighbour(blocks: list[_Open], index: int, step: int) -> list[int]:
    """For each qubit of a block the index of the next block (step 1) or the one before (-1)."""
    found = []
    for qubit in blocks[index].qubits:
        at = index + step
        while 0 <= at < len(blocks) and qubit not in blocks[at].qubits:
            at += step
        found.append(at if 0 <= at < len(blocks) else -1)
    return found


def _join_sandwiches(blocks: list[_Open]) -> None:
    """Join a data block with the shared blocks of the same qubits right before and after it.

    `CNOT, rz(data), CNOT` is then one block per example instead of three.
    """
    index = 0
    while index < len(blocks):
        block = blocks[index]
        before, after = set(_neighbour(blocks, index, -1)), set(_neighbour(blocks, index, 1))
        index += 1
        if not block.per_example or len(before) != 1 or len(after) != 1 or -1 in before | after:
            continue
        first, second = blocks[before.pop()], blocks[after.pop()]
        same = set(first.qubits) == set(second.qubits) >= set(block.qubits)
        if same and _adjacent(blocks, first, second):
            first.factors += block.factors + second.factors
            first.per_example = True
            blocks.remove(block)
            blocks.remove(second)
            index -= 1


def _join_same(blocks: list[_Open]) -> None:
    """Join blocks of one kind that follow each other on the same qubits."""
    index = 0
    while index < len(blocks):
        block = blocks[index]
        before = set(_neighbour(blocks, index, -1))
        index += 1
        if len(before) != 1 or -1 in before:
            continue
        first = blocks[before.pop()]
        if first.per_example == block.per_example and set(block.qubits) <= set(first.qubits):
            first.factors += block.factors
            blocks.remove(block)
            index -= 1


def _adjacent(blocks: list[_Open], first: _Open, second: _Open) -> bool:
    """Whether no more than one other block touches their qubits between two blocks."""
    low, high = blocks.index(first), blocks.index(second)
    between = [b for b in blocks[low + 1 : high] if set(b.qubits) & set(first.qubits)]
    return len(between) == 1


def _join_leftovers(blocks: list[_Open]) -> None:
    """Give shared one-qubit blocks to a neighbour, a shared one where there is one."""
    index = 0
    while index < len(blocks):
        block = blocks[index]
        index += 1
        if len(block.qubits) > 1 or block.per_example:
            continue
        (before,), (after,) = _neighbour(blocks, index - 1, -1), _neighbour(blocks, index - 1, 1)
        near = [at for at in (before, after) if at >= 0]
        if not near:
            continue
        chosen = min(near, key=lambda at: blocks[at].per_example)
        joined = blocks[chosen]
        if chosen == before:
            joined.factors += block.factors
        else:
            joined.factors[:0] = block.factors
        blocks.remove(block)
        index -= 1


def _closed(block: _Open) -> Block:
    """Positions made local, and neighbouring fixed factors multiplied."""
    local = {qubit: at for at, qubit in enumerate(block.qubits)}
    factors: list[Factor] = []
    for factor in block.factors:
        wide = _embed(factor, local)
        if wide.expression is None and factors and factors[-1].expression is None:
            factors[-1] = fixed(wide.qubits, wide.matrix @ factors[-1].matrix)
        else:
            factors.append(wide)
    return Block(block.qubits, tuple(factors), block.per_example)


def _embed(factor: Factor, local: dict[int, int]) -> Factor:
    """A factor on all the qubits of its block, so that the block is a plain matrix product."""
    where = tuple(local[qubit] for qubit in factor.qubits)
    everywhere = tuple(range(len(local)))
    projectors = factor.projectors
    if where == (1, 0):
        shape = (-1, 2, 2, 2, 2)
        projectors = projectors.reshape(shape).transpose(0, 2, 1, 4, 3).reshape(-1, 4, 4)
    elif len(where) < len(local):
        parts = [np.kron(p, np.eye(2)) if where == (0,) else np.kron(np.eye(2), p)
                 for p in projectors]  # fmt: skip
        projectors = np.stack(parts)
    return Factor(everywhere, factor.turns, projectors, factor.expression)
