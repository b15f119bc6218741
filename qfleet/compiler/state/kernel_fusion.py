"""Gate fusion for the native engine.

In the native engine a block costs the same if the batch shares its matrix and if every example has
its own, so data gates join blocks like all others. The cost depends on how many of a block's
entries can be nonzero: a single CNOT or CZ costs an eighth of a dense block. One-qubit gates around
it therefore go to a dense neighbour if there is one.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from qfleet.compiler.circuit import fused_blocks
from qfleet.compiler.circuit.factor import Factor
from qfleet.compiler.circuit.fused_blocks import FusedBlock

SPARSE_ENTRIES = 4  # nonzero entries up to which a two-qubit block is kept sparse


class _KernelBlockBuilder:
    """A block that further gates may join.

    Attributes:
        qubits: Positions.
        factors: Factors on these qubits, first applied first.
    """

    def __init__(self, qubits: tuple[int, ...], factors: Iterable[Factor] = ()) -> None:
        self.qubits = qubits
        self.factors = list(factors)

    def is_sparse(self) -> bool:
        """Return True if few matrix entries differ from the identity's for any symbol values."""
        return (
            len(self.qubits) == 2
            and block_entries(_build(self, frozenset())).sum() <= SPARSE_ENTRIES
        )


def fuse_for_kernel(factors: Sequence[Factor], inputs: frozenset[str]) -> list[FusedBlock]:
    """Fuse factors into blocks of one and two qubits.

    Args:
        factors: In circuit order, with positions as qubits.
        inputs: Names of the data symbols. Data factors are multiplied among themselves only, so
            that gradients of shared factors can be summed over the examples first.
    """
    items = _join_pairs(factors)
    items = _sparsify(items)
    return [_build(item, inputs) for item in _pair_single_qubit_items(items)]


def _join_pairs(factors: Sequence[Factor]) -> list[_KernelBlockBuilder]:
    """Join one-qubit gates to the next pair on their qubit, and pairs on the same qubits."""
    items: list[_KernelBlockBuilder] = []
    pairs: dict[int, _KernelBlockBuilder] = {}  # the newest pair on each qubit
    waiting: dict[int, _KernelBlockBuilder] = {}  # one-qubit gates after it
    for factor in factors:
        qubits = factor.qubits
        if len(qubits) == 1:
            if qubits[0] not in waiting:
                waiting[qubits[0]] = _KernelBlockBuilder(qubits)
                items.append(waiting[qubits[0]])
            waiting[qubits[0]].factors.append(factor)
            continue
        before = {id(pairs.get(qubit)): pairs.get(qubit) for qubit in qubits}
        item = next(iter(before.values()))
        if len(before) > 1 or item is None or set(item.qubits) != set(qubits):
            item = _KernelBlockBuilder(qubits)
            items.append(item)
        for qubit in qubits:
            if qubit in waiting:
                item.factors += waiting[qubit].factors
                items.remove(waiting.pop(qubit))
            pairs[qubit] = item
        item.factors.append(factor)
    return items


def _sparsify(items: Sequence[_KernelBlockBuilder]) -> list[_KernelBlockBuilder]:
    """Move one-qubit gates from blocks that are sparse without them to dense neighbours."""
    done: list[_KernelBlockBuilder] = []
    last: dict[int, _KernelBlockBuilder] = {}
    for item in items:
        core = item
        if len(item.qubits) == 2:
            core, ahead = _peel_leading_gates(item)
            homes = {qubit: last[qubit] for qubit in ahead if _dense(last.get(qubit))}
            if not core.is_sparse() or len(ahead) - len(homes) > 1:
                core, ahead = item, {}
            for qubit, gates in ahead.items():
                if qubit in homes:
                    homes[qubit].factors += gates
                else:
                    done.append(_KernelBlockBuilder((qubit,), gates))
        elif _dense(home := last.get(item.qubits[0])):  # at the circuit's end
            assert home is not None
            home.factors += item.factors
            continue
        done.append(core)
        last.update(dict.fromkeys(core.qubits, core))
    return done


def _dense(item: _KernelBlockBuilder | None) -> bool:
    return item is not None and len(item.qubits) == 2 and not item.is_sparse()


def _peel_leading_gates(
    item: _KernelBlockBuilder,
) -> tuple[_KernelBlockBuilder, dict[int, list[Factor]]]:
    """Split off the one-qubit gates before a pair's first two-qubit gate; return them by qubit."""
    first = next(at for at, factor in enumerate(item.factors) if len(factor.qubits) == 2)
    ahead: dict[int, list[Factor]] = {}
    for factor in item.factors[:first]:
        ahead.setdefault(factor.qubits[0], []).append(factor)
    return _KernelBlockBuilder(item.qubits, item.factors[first:]), ahead


def _pair_single_qubit_items(items: Sequence[_KernelBlockBuilder]) -> list[_KernelBlockBuilder]:
    """Combine one-qubit blocks on different qubits, two per block: half the passes."""
    done: list[_KernelBlockBuilder] = []
    waiting: list[_KernelBlockBuilder] = []  # on one qubit, until another item needs that qubit

    def release(single: _KernelBlockBuilder) -> None:
        waiting.remove(single)
        near = sorted(waiting, key=lambda other: abs(other.qubits[0] - single.qubits[0]))
        if near:
            waiting.remove(near[0])
            qubits = (*single.qubits, *near[0].qubits)
            done.append(_KernelBlockBuilder(qubits, [*single.factors, *near[0].factors]))
        else:
            done.append(single)

    for item in items:
        for single in [one for one in waiting if one.qubits[0] in item.qubits]:
            if single in waiting:
                release(single)
        if len(item.qubits) == 1:
            waiting.append(item)
        else:
            done.append(item)
    while waiting:
        release(waiting[0])
    return done


def _build(item: _KernelBlockBuilder, inputs: frozenset[str]) -> FusedBlock:
    """Make the block: with local positions, and with factors multiplied where possible."""
    return fused_blocks.make_block(item.qubits, item.factors, inputs)


def nonzero_pattern(projectors: np.ndarray) -> np.ndarray:
    """Return [D, D] bool: the entries that can be nonzero in a factor of projectors [K, D, D]."""
    nonzero: np.ndarray = (np.abs(projectors) > 1e-12).any(axis=0)
    return nonzero


def factor_pattern(factor: Factor) -> tuple[np.ndarray, np.ndarray]:
    """Return which entries can be nonzero [D, D], and which rows are the identity's [D]."""
    nonzero = nonzero_pattern(factor.projectors)
    constant = factor.projectors[~factor.half_turns.any(axis=1)].sum(axis=0)
    identity = (
        np.abs(np.diagonal(constant) - 1) < 1e-12
        if constant.shape
        else np.zeros(len(nonzero), bool)
    )
    return nonzero, identity


def block_entries(block: FusedBlock) -> np.ndarray:
    """Return [D, D] bool: the entries needed to apply the block's matrix or its inverse.

    Excluded are entries that are zero and rows that are the identity's for all symbol values.
    """
    filled = nonzero_entries(block)
    filled |= filled.T
    same = np.ones(len(filled), bool)
    for factor in block.factors:
        same &= factor_pattern(factor)[1]
    filled[same] = False
    return filled


def nonzero_entries(block: FusedBlock) -> np.ndarray:
    """Return [D, D] bool: the entries of a block's matrix that can be nonzero."""
    filled = np.eye(2 ** len(block.qubits), dtype=bool)
    for factor in block.factors:
        nonzero = nonzero_pattern(factor.projectors)
        filled = (nonzero.astype(int) @ filled.astype(int)) > 0
    return filled


def gradient_entries(block: FusedBlock) -> np.ndarray:
    """Return [D, D] bool: the nonzero entries of all factors, their products and inverses.

    The gradient needs these entries of psi lambda^dagger. Rows that stay the identity's are
    excluded.
    """
    size = 2 ** len(block.qubits)
    reach = np.eye(size, dtype=bool)
    same = np.ones(size, bool)
    for factor in block.factors:
        nonzero, identity = factor_pattern(factor)
        reach |= nonzero | nonzero.T
        same &= identity
    for _ in range(size):
        reach |= (reach.astype(int) @ reach.astype(int)) > 0
    reach[same] = False
    return reach


def needs_uncompute(
    blocks: Sequence[FusedBlock], wanted: Sequence[bool], *, from_zero: bool = False
) -> list[bool]:
    """Return for each block if the adjoint pass must uncompute it.

    A block is uncomputed if an earlier block on its light cone needs a gradient.

    Args:
        blocks: In the order in which they are applied.
        wanted: For each block, if its gradient is needed.
        from_zero: True if the state starts at |0...0> and earlier gradients skip the amplitudes
            that are 0. Then the first blocks on their qubits are uncomputed, too.
    """
    before: set[int] = set()  # qubits that earlier gradients depend on
    used: set[int] = set()  # qubits of the blocks up to the first gradient
    uncompute = []
    for block, gradient in zip(blocks, wanted, strict=True):
        if not before:
            used.update(block.qubits)
        fresh = from_zero and not used.issuperset(block.qubits)
        uncompute.append(fresh or bool(before.intersection(block.qubits)))
        if gradient or uncompute[-1]:
            before.update(block.qubits)
    return uncompute


def count_operations(blocks: Sequence[FusedBlock], qubits: int) -> tuple[float, float]:
    """Count the floating-point operations per example; a multiply-add is two.

    Args:
        blocks: In the order in which they are applied.
        qubits: Width of the state.

    Returns:
        Operations of the forward pass and of the adjoint pass.
    """
    wanted = [any(factor.symbols for factor in block.factors) for block in blocks]
    forward = backward = 0.0
    for block, gradient, uncompute in zip(
        blocks, wanted, needs_uncompute(blocks, wanted), strict=True
    ):
        size = 2 ** len(block.qubits)
        applied = 4 * block_entries(block).sum() / size
        forward += applied
        backward += gradient * 4 * gradient_entries(block).sum() / size + uncompute * 2 * applied
    amplitudes = 2 * 2**qubits
    return forward * amplitudes, backward * amplitudes
