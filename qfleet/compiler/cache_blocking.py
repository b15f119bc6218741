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

from qfleet.compiler.dense_fusion import FusedBlock

CACHE_BLOCK_QUBITS = {"complex64": 15, "complex128": 14}  # kChunkBytes of amplitudes in kernels.h
LANE_QUBITS = 4


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
    """

    order: tuple[int, ...]
    blocks: tuple[FusedBlock, ...]
    cache_blocks: tuple[CacheBlock, ...]


def plan_cache_blocks(
    stages: Sequence[Sequence[FusedBlock]], width: int, size: int, high: Collection[int] = ()
) -> BlockingPlan:
    """Plan cache blocks, each within one stage.

    Args:
        stages: Lists of blocks that must not be mixed, in order: the prefix, and the rest.
        width: Number of qubits.
        size: Number of qubits in a chunk.
        high: Positions that must not lie across SIMD lanes. They get the highest bits if all
            qubits fit a chunk.
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
    if width <= size:
        low += [qubit for qubit in natural if qubit not in low]
        return BlockingPlan(tuple(low), tuple(block for stage in stages for block in stage), ())
    blocks: list[FusedBlock] = []
    cache_blocks: list[CacheBlock] = []
    for stage in reversed(stages):
        groups = _group_blocks(stage, frozenset(lanes), size)
        # The first cache block after the prefix gets the lowest bits and needs no copying.
        if groups and len(low) == len(lanes):
            low += sorted(groups[0][0] - set(low), reverse=True)
            low += [qubit for qubit in natural if qubit not in low]
        cache_blocks[:0] = [
            CacheBlock(_fill_with_low_qubits(qubits, low, size), len(members))
            for qubits, members in groups
        ]
        blocks[:0] = [block for _, members in groups for block in members]
    order = tuple(low if len(low) == width else natural)
    return BlockingPlan(order, tuple(blocks), tuple(cache_blocks))


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
