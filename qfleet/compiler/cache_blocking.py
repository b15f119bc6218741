"""Which qubits lie low in the state's index, and which blocks are applied while they are near.

A state of more than WINDOW qubits is worked on in chunks that fit a core's L2: all amplitudes of
WINDOW qubits, for one setting of the others. A window is a set of qubits and the blocks that are
applied to each chunk before the next; the fewer windows, the less often the state crosses the
memory bus. The PARTITIONS lowest qubits may lie across a vector's lanes, so every window holds them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from qfleet.compiler.dense_fusion import FusedBlock

WINDOW_QUBITS = {"complex64": 15, "complex128": 14}  # kernel.h: kChunkBytes of amplitudes
SIMD_LANES = 4


@dataclass(frozen=True)
class CacheBlock:
    """Blocks that are applied together.

    Attributes:
        qubits: Positions that a chunk holds.
        blocks: How many of the blocks, from where the window before ended.
    """

    qubits: frozenset[int]
    blocks: int


@dataclass(frozen=True)
class BlockingPlan:
    """The way through the blocks.

    Attributes:
        order: Positions from the lowest bit of the state's index to the highest.
        blocks: All blocks, in the order in which they are applied.
        windows: None where the state is no larger than a chunk.
    """

    order: tuple[int, ...]
    blocks: tuple[FusedBlock, ...]
    windows: tuple[CacheBlock, ...]


def plan_cache_blocks(
    stages: Sequence[Sequence[FusedBlock]], width: int, size: int, high: Collection[int] = ()
) -> BlockingPlan:
    """Plan windows, each within one stage.

    Args:
        stages: Blocks that must not be mixed, in order: the prefix, and what comes after.
        width: How many qubits there are.
        size: How many a chunk holds.
        high: Positions that must not lie across lanes; where all fits a chunk they lie highest.
    """
    natural = tuple(range(width - 1, -1, -1))
    # To exchange lanes costs something, so the qubits that the fewest blocks touch lie across them.
    touched = dict.fromkeys(natural, 0)
    for stage in stages:
        for block in stage:
            for qubit in block.qubits:
                touched[qubit] += 1
    free = [qubit for qubit in natural if qubit not in high]
    lanes = sorted(free, key=lambda qubit: touched[qubit])[:SIMD_LANES]
    low: list[int] = list(lanes)
    natural = (*free, *high)
    if width <= size:
        low += [qubit for qubit in natural if qubit not in low]
        return BlockingPlan(tuple(low), tuple(block for stage in stages for block in stage), ())
    blocks: list[FusedBlock] = []
    windows: list[CacheBlock] = []
    for stage in reversed(stages):
        found = _windows(stage, frozenset(lanes), size)
        # The first window after the prefix lies lowest, and is worked on where it is.
        if found and len(low) == len(lanes):
            low += sorted(found[0][0] - set(low), reverse=True)
            low += [qubit for qubit in natural if qubit not in low]
        windows[:0] = [CacheBlock(_filled(qubits, low, size), len(part)) for qubits, part in found]
        blocks[:0] = [block for _, part in found for block in part]
    return BlockingPlan(tuple(low if len(low) == width else natural), tuple(blocks), tuple(windows))


def _filled(qubits: frozenset[int], order: Sequence[int], size: int) -> frozenset[int]:
    """A window with as many of the lowest qubits as it has room for: longer runs to copy."""
    room = size - len(qubits)
    return qubits | frozenset([qubit for qubit in order if qubit not in qubits][:room])


def _windows(
    blocks: Sequence[FusedBlock], lanes: frozenset[int], size: int
) -> list[tuple[frozenset[int], list[FusedBlock]]]:
    """Windows, each with as many blocks as can be applied within it, first come first served."""
    windows = []
    waiting = list(blocks)
    while waiting:
        inside = set(lanes)
        held: set[int] = set()  # by a block that waits
        taken: list[FusedBlock] = []
        later: list[FusedBlock] = []
        for block in waiting:
            qubits = set(block.qubits)
            if not qubits & held and len(inside | qubits) <= size:
                inside |= qubits
                taken.append(block)
            else:
                held |= qubits
                later.append(block)
        windows.append((frozenset(inside), taken))
        waiting = later
    return windows
