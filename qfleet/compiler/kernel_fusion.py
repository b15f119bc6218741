"""Factors fused into blocks for the native kernel.

There a block costs the same whether its matrix is shared by the batch or every example has its
own, so data gates join blocks like any others. What counts is how many of a block's entries can
differ from zero: CNOT or CZ alone costs an eighth of a dense block, so the one-qubit gates around
it go to a dense neighbour where there is one.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from qfleet.compiler import dense_fusion
from qfleet.compiler.dense_fusion import FusedBlock
from qfleet.compiler.factor import Factor

LIGHT_ENTRIES = 4  # entries up to which a two-qubit block is better left alone


class _Open:
    """A block while gates still join it.

    Attributes:
        qubits: Positions.
        factors: On those; first applied first.
    """

    def __init__(self, qubits: tuple[int, ...], factors: Iterable[Factor] = ()) -> None:
        self.qubits = qubits
        self.factors = list(factors)

    def light(self) -> bool:
        """Whether most of its matrix is zero, or the identity's, whatever the symbols are."""
        return (
            len(self.qubits) == 2
            and block_entries(_closed(self, frozenset())).sum() <= LIGHT_ENTRIES
        )


def fuse_for_kernel(factors: Sequence[Factor], inputs: frozenset[str]) -> list[FusedBlock]:
    """Fuse factors, whose qubits are positions, into blocks of one and two qubits.

    Args:
        factors: In circuit order.
        inputs: The names of the data symbols; data factors are multiplied among themselves only,
            so that a block's gradient can be summed over the examples before it comes to them.
    """
    items = _joined(factors)
    items = _lightened(items)
    return [_closed(item, inputs) for item in _paired(items)]


def _joined(factors: Sequence[Factor]) -> list[_Open]:
    """One-qubit gates wait for the next pair on their qubit; pairs on the same qubits are one."""
    items: list[_Open] = []
    pairs: dict[int, _Open] = {}  # the newest pair on each qubit
    waiting: dict[int, _Open] = {}  # one-qubit gates after it
    for factor in factors:
        qubits = factor.qubits
        if len(qubits) == 1:
            if qubits[0] not in waiting:
                waiting[qubits[0]] = _Open(qubits)
                items.append(waiting[qubits[0]])
            waiting[qubits[0]].factors.append(factor)
            continue
        before = {id(pairs.get(qubit)): pairs.get(qubit) for qubit in qubits}
        item = next(iter(before.values()))
        if len(before) > 1 or item is None or set(item.qubits) != set(qubits):
            item = _Open(qubits)
            items.append(item)
        for qubit in qubits:
            if qubit in waiting:
                item.factors += waiting[qubit].factors
                items.remove(waiting.pop(qubit))
            pairs[qubit] = item
        item.factors.append(factor)
    return items


def _lightened(items: Sequence[_Open]) -> list[_Open]:
    """Take one-qubit gates off what is light without them, and give them to dense neighbours."""
    done: list[_Open] = []
    last: dict[int, _Open] = {}
    for item in items:
        core = item
        if len(item.qubits) == 2:
            core, ahead = _peeled(item)
            homes = {qubit: last[qubit] for qubit in ahead if _dense(last.get(qubit))}
            if not core.light() or len(ahead) - len(homes) > 1:
                core, ahead = item, {}
            for qubit, gates in ahead.items():
                if qubit in homes:
                    homes[qubit].factors += gates
                else:
                    done.append(_Open((qubit,), gates))
        elif _dense(home := last.get(item.qubits[0])):  # at the circuit's end
            assert home is not None
            home.factors += item.factors
            continue
        done.append(core)
        last.update(dict.fromkeys(core.qubits, core))
    return done


def _dense(item: _Open | None) -> bool:
    return item is not None and len(item.qubits) == 2 and not item.light()


def _peeled(item: _Open) -> tuple[_Open, dict[int, list[Factor]]]:
    """A pair without the one-qubit gates before its first two-qubit gate, and those by qubit."""
    first = next(at for at, factor in enumerate(item.factors) if len(factor.qubits) == 2)
    ahead: dict[int, list[Factor]] = {}
    for factor in item.factors[:first]:
        ahead.setdefault(factor.qubits[0], []).append(factor)
    return _Open(item.qubits, item.factors[first:]), ahead


def _paired(items: Sequence[_Open]) -> list[_Open]:
    """Blocks on one qubit, on different ones, two to a block: half the passes over the state."""
    done: list[_Open] = []
    held: list[_Open] = []  # on one qubit, until another item needs that qubit

    def release(single: _Open) -> None:
        held.remove(single)
        near = sorted(held, key=lambda other: abs(other.qubits[0] - single.qubits[0]))
        if near:
            held.remove(near[0])
            pair = _Open((*single.qubits, *near[0].qubits), [*single.factors, *near[0].factors])
            done.append(pair)
        else:
            done.append(single)

    for item in items:
        for single in [one for one in held if one.qubits[0] in item.qubits]:
            if single in held:
                release(single)
        if len(item.qubits) == 1:
            held.append(item)
        else:
            done.append(item)
    while held:
        release(held[0])
    return done


def _closed(item: _Open, inputs: frozenset[str]) -> FusedBlock:
    """Positions made local, and factors multiplied where they can be."""
    return dense_fusion.drop_unused_qubits(item.qubits, item.factors, inputs)


def factor_pattern(factor: Factor) -> tuple[np.ndarray, np.ndarray]:
    """[D, D] whether an entry can differ from zero; [D] whether a row is the identity's."""
    sizes = np.abs(factor.projectors) > 1e-12
    still = factor.projectors[~factor.turns.any(axis=1)].sum(axis=0)
    kept = np.abs(np.diagonal(still) - 1) < 1e-12 if still.shape else np.zeros(len(sizes[0]), bool)
    return sizes.any(axis=0), kept


def block_entries(block: FusedBlock) -> np.ndarray:
    """[D, D] bool: entries that are needed to apply the block's matrix, or its inverse.

    Not those that are zero, and not the rows that are the identity's, whatever the symbols are.
    """
    filled = np.eye(2 ** len(block.qubits), dtype=bool)
    same = np.ones(len(filled), bool)
    for factor in block.factors:
        sizes, kept = factor_pattern(factor)
        filled = (sizes.astype(int) @ filled.astype(int)) > 0
        same &= kept
    filled |= filled.T
    filled[same] = False
    return filled


def gradient_entries(block: FusedBlock) -> np.ndarray:
    """[D, D] bool: entries that its factors, their products and their inverses can have.

    The gradient needs these of psi lambda^dagger; rows that stay the identity's are left out.
    """
    size = 2 ** len(block.qubits)
    reach = np.eye(size, dtype=bool)
    same = np.ones(size, bool)
    for factor in block.factors:
        sizes, kept = factor_pattern(factor)
        reach |= sizes | sizes.T
        same &= kept
    for _ in range(size):
        reach |= (reach.astype(int) @ reach.astype(int)) > 0
    reach[same] = False
    return reach


def needs_uncompute(blocks: Sequence[FusedBlock], wanted: Sequence[bool]) -> list[bool]:
    """Whether each block has to be undone on the way back: a wanted gradient lies before it.

    Args:
        blocks: In the order in which they are applied.
        wanted: Whether the gradient by each block is wanted.
    """
    behind: set[int] = set()
    found = []
    for block, one in zip(blocks, wanted, strict=True):
        found.append(bool(behind.intersection(block.qubits)))
        if one or found[-1]:
            behind.update(block.qubits)
    return found
