"""Cache blocking: the order of a state's index bits, and the gates applied per chunk in cache.

A state of more qubits than a chunk holds is processed in chunks that fit a core's L2 cache: all
amplitudes of some qubits, for one setting of the others. A cache block is a set of qubits and the
fused blocks that are applied to each chunk before the next one. Fewer cache blocks mean fewer
passes of the state over the memory bus. The LANE_QUBITS lowest qubits may lie across a vector's
lanes, so every cache block contains them. Doi and Horii describe the technique for Qiskit Aer
(arXiv:2102.02957).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from qfleet.compiler.circuit.fused_blocks import FusedBlock

CACHE_BLOCK_QUBITS = {"complex64": 16, "complex128": 15}  # kChunkBytes of amplitudes in kernels.h
LANE_QUBITS = 4
FEW_CHUNKS_BITS = 3  # more qubits outside of a chunk: the first cache block costs next to nothing


@dataclass(frozen=True)
class CacheBlock:
    """Fused blocks that are applied together.

    Attributes:
        qubits: Positions that a chunk holds.
        block_count: Number of fused blocks, from where the previous cache block ended.
    """

    qubits: frozenset[int]
    block_count: int


@dataclass(frozen=True)
class BlockingPlan:
    """The order of qubits and of blocks.

    Attributes:
        order: Positions from the lowest bit of the state's index to the highest.
        blocks: All blocks, in the order in which they are applied.
        cache_blocks: Empty if the state is not larger than a chunk.
        from_zero: True if the state starts at |0...0>, so that the engine skips the amplitudes of
            qubits that no block has used yet.
    """

    order: tuple[int, ...]
    blocks: tuple[FusedBlock, ...]
    cache_blocks: tuple[CacheBlock, ...]
    from_zero: bool = False


def plan_cache_blocks(
    stages: Sequence[Sequence[FusedBlock]],
    width: int,
    size: int,
    high: Collection[int] = (),
    *,
    from_zero: bool = False,
) -> BlockingPlan:
    """Plan cache blocks, each within one stage.

    Args:
        stages: Lists of blocks that must not be mixed, in order: the prefix, and the rest.
        width: Number of qubits.
        size: Number of qubits in a chunk.
        high: Positions that must not lie across SIMD lanes. They get the highest bits if all
            qubits fit a chunk.
        from_zero: True if the first stage begins at |0...0>. Then the blocks that use further
            qubits are delayed, and bits are ordered by their first use: the engine skips the
            amplitudes that are still 0.
    """
    natural = tuple(range(width - 1, -1, -1))
    # Gates across lanes need shuffles, so the least used qubits get the lanes.
    uses = dict.fromkeys(natural, 0)
    for stage in stages:
        for block in stage:
            for qubit in block.qubits:
                uses[qubit] += 1
    free = [qubit for qubit in natural if qubit not in high]
    lanes = sorted(free, key=lambda qubit: uses[qubit])[:LANE_QUBITS]
    low: list[int] = list(lanes)
    natural = (*free, *high)
    if from_zero:
        stages = _delay_new_qubits(stages, lanes)
    if width <= size:
        used = [qubit for stage in stages for block in stage for qubit in block.qubits]
        low = list(dict.fromkeys([*low, *(used if from_zero else ()), *natural]))
        blocks = tuple(block for stage in stages for block in stage)
        return BlockingPlan(tuple(low), blocks, (), from_zero)
    grouped = [
        groups for stage in stages if (groups := _group_blocks(stage, frozenset(lanes), size))
    ]
    groups = [group for stage in grouped for group in stage]
    blocks = tuple(block for _, members in groups for block in members)

    if from_zero:
        low = _order_by_first_use(groups, lanes, width - size)
    elif grouped:  # the first cache block after the prefix gets the lowest bits: it is not copied
        low += sorted(grouped[-1][0][0], reverse=True)
    order = tuple(dict.fromkeys([*low, *natural]))
    cache_blocks = tuple(
        CacheBlock(_fill_with_low_qubits(qubits, order, size), len(members))
        for qubits, members in groups
    )
    return BlockingPlan(order, blocks, cache_blocks, from_zero)


def _order_by_first_use(
    groups: Sequence[tuple[frozenset[int], list[FusedBlock]]], lanes: Sequence[int], outside: int
) -> list[int]:
    """Order the qubits of cache blocks by their first use, after the lanes.

    Copies are contiguous if the lowest bits are in all cache blocks. So in each cache block that
    is applied to few chunks, qubits that are missing in fewer of the others come first.
    """

    def missing(qubit: int) -> int:
        return sum(qubit not in inside for inside, _ in groups)

    order = list(lanes)
    for inside, members in groups:
        new = [qubit for block in members for qubit in block.qubits if qubit not in order]
        few_chunks = len(inside.union(order)) <= len(inside) and outside >= FEW_CHUNKS_BITS
        order += sorted(dict.fromkeys(new), key=missing) if few_chunks else dict.fromkeys(new)
    return order


def _delay_new_qubits(
    stages: Sequence[Sequence[FusedBlock]], lanes: Collection[int]
) -> list[list[FusedBlock]]:
    """Order the blocks of each stage so that they use as few qubits as possible for long."""
    used = set(lanes)
    ordered = []
    for stage in stages:
        done: list[FusedBlock] = []
        waiting = list(stage)
        while waiting:
            ready = _ready_blocks(waiting)
            new = [frozenset(block.qubits) - used for block in ready]
            if all(new):  # the qubits that enable the most blocks, by the number of qubits
                used |= max(
                    dict.fromkeys(new),
                    key=lambda more: len(_apply_within(waiting, used | more)[0]) / len(more),
                )
            within, waiting = _apply_within(waiting, used)
            done += within
        ordered.append(done)
    return ordered


def _ready_blocks(blocks: Sequence[FusedBlock]) -> list[FusedBlock]:
    """Return the blocks that need no other block first."""
    blocked: set[int] = set()
    ready = []
    for block in blocks:
        if not blocked.intersection(block.qubits):
            ready.append(block)
        blocked.update(block.qubits)
    return ready


def _apply_within(
    blocks: Sequence[FusedBlock], qubits: Collection[int]
) -> tuple[list[FusedBlock], list[FusedBlock]]:
    """Divide blocks into those that can be applied within some qubits, and the others."""
    blocked: set[int] = set()
    within: list[FusedBlock] = []
    later: list[FusedBlock] = []
    for block in blocks:
        if blocked.isdisjoint(block.qubits) and set(block.qubits) <= set(qubits):
            within.append(block)
        else:
            later.append(block)
            blocked.update(block.qubits)
    return within, later


def _fill_with_low_qubits(
    qubits: frozenset[int], order: Sequence[int], size: int
) -> frozenset[int]:
    """Add as many of the lowest qubits as a chunk has room for: longer contiguous copies."""
    room = size - len(qubits)
    return qubits | frozenset([qubit for qubit in order if qubit not in qubits][:room])


def _group_blocks(
    blocks: Sequence[FusedBlock], lanes: frozenset[int], size: int
) -> list[tuple[frozenset[int], list[FusedBlock]]]:
    """Group blocks greedily: each group takes every block that can be applied within a chunk."""
    groups = []
    waiting = list(blocks)
    while waiting:
        inside = set(lanes)
        blocked: set[int] = set()  # qubits of blocks that wait for a later group
        members: list[FusedBlock] = []
        later: list[FusedBlock] = []
        for block in waiting:
            qubits = set(block.qubits)
            if not qubits & blocked and len(inside | qubits) <= size:
                inside |= qubits
                members.append(block)
            else:
                blocked |= qubits
                later.append(block)
        groups.append((frozenset(inside), members))
        waiting = later
    return groups
