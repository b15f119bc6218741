"""Planning of index-bit swaps for a state that is sharded over 2**k processes.

In each stage k qubits are global: the bits of a process's rank are their values, and the process
holds the amplitudes of all other qubits, the local ones. No block of a stage acts on its global
qubits. Between two stages one all-to-all swaps the k global qubits with k local ones.

The beginning of a circuit needs no communication. The blocks that the first stage's global qubits
need, and what these blocks depend on, act on few qubits. Every process simulates this prefix, the
seed, and takes the part with its rank's bits from it. All other qubits are |0> until then. Where
each example has an initial state of its own, the seed is this state, without blocks. If some
qubits are used only early, as those that a QCNN pools, all of their blocks are in the seed, and the
rest of the circuit factorizes into 2**k parts without communication.

Sets of blocks and qubits are bit masks here: bit q of a mask is position q.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qfleet.compiler.circuit.fused_blocks import FusedBlock
from qfleet.compiler.state import cache_blocking
from qfleet.compiler.state.program import Program
from qfleet.errors import ShardingError

MAX_CANDIDATES = 2000  # sets of global qubits that are compared per stage
BEAM_WIDTH = 6  # partial plans that are extended per stage
SEED_MARGIN_QUBITS = 3  # the seed has at least this many qubits less than a local state


@dataclass(frozen=True)
class ShardStage:
    """Blocks between two swaps.

    Attributes:
        globals: Positions that the bits of the rank stand for, the lowest bit first.
        slots: Position in each slot of the local state. After a swap, a position that becomes
            local is in the slot of the position that becomes global.
        blocks: Blocks on positions, in the order in which they are applied.
    """

    globals: tuple[int, ...]
    slots: tuple[int, ...]
    blocks: tuple[FusedBlock, ...]

    def local_blocks(self) -> list[FusedBlock]:
        """Return the blocks with slots as qubits."""
        slot = {position: at for at, position in enumerate(self.slots)}
        return [
            FusedBlock(tuple(slot[q] for q in block.qubits), block.factors) for block in self.blocks
        ]


@dataclass(frozen=True)
class ShardingPlan:
    """The stages of one circuit.

    Attributes:
        seed: Positions of the seed, the first stage's global ones first.
        seed_blocks: Blocks that are applied to the seed, in order.
        stages: One stage, and one more per swap.
    """

    seed: tuple[int, ...]
    seed_blocks: tuple[FusedBlock, ...]
    stages: tuple[ShardStage, ...]

    @property
    def swaps(self) -> tuple[tuple[int, ...], ...]:
        """For each swap, the slots that are swapped with the bits of the rank."""
        return tuple(
            tuple(before.slots.index(position) for position in after.globals)
            for before, after in itertools.pairwise(self.stages)
        )


def plan_sharding(
    blocks: Sequence[FusedBlock],
    width: int,
    bits: int,
    flipped: Iterable[int] = (),
    *,
    takes_states: bool = False,
) -> ShardingPlan:
    """Choose the global qubits of each stage.

    Args:
        blocks: All blocks of the circuit, in order.
        width: Number of qubits.
        bits: Number of global qubits, k.
        flipped: Positions that an observable reads X or Y of. They are kept local in the last stage
            if possible.
        takes_states: If each example starts at a state of its own, which is then the seed.

    Returns:
        The plan with the fewest swaps, then with the smallest seed.

    Raises:
        ShardingError: There are fewer than 2 k + 1 qubits.
    """
    if width < 2 * bits + 1:
        raise ShardingError(
            f"a state of {width} qubits cannot be sharded over {2**bits} processes: use at least"
            f" {2 * bits + 1} qubits or fewer shards"
        )
    return _PlanSearch(blocks, width, bits, frozenset(flipped), takes_states).best_plan()


def plan_for_program(program: Program, bits: int) -> ShardingPlan:
    """Plan the stages of a program that was compiled with the target "sharded".

    Args:
        program: The program.
        bits: Number of global qubits.

    Raises:
        ShardingError: There are too few qubits; see `plan_sharding`.
    """
    terms = program.terms
    flipped = {at for string in terms.strings for at, pauli in string.items() if pauli != "Z"}
    width, takes_states = len(program.qubits), program.takes_states
    return plan_sharding(program.blocks, width, bits, flipped, takes_states=takes_states)


@dataclass(frozen=True)
class _PartialPlan:
    """A partial plan, with blocks as numbers.

    Attributes:
        seed: Mask of the seed's positions.
        seed_blocks: Blocks of the seed.
        stages: Global positions and blocks of each stage.
        remaining: Blocks that are not in a stage yet.
    """

    seed: int
    seed_blocks: tuple[int, ...]
    stages: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    remaining: tuple[int, ...]


class _PlanSearch:
    """Beam search over the global qubits of each stage; arguments as for `plan_sharding`."""

    def __init__(
        self,
        blocks: Sequence[FusedBlock],
        width: int,
        bits: int,
        flipped: frozenset[int],
        takes_states: bool,
    ) -> None:
        self.blocks, self.width, self.bits, self.flipped = blocks, width, bits, flipped
        self.takes_states = takes_states
        self.masks = [_mask(block.qubits) for block in blocks]
        # For each block, masks of the blocks it depends on (itself included) and of their qubits.
        self.dependencies: list[int] = []
        self.support: list[int] = []
        last: dict[int, int] = {}
        for at, block in enumerate(blocks):
            dependencies, support = 1 << at, self.masks[at]
            for before in {last[qubit] for qubit in block.qubits if qubit in last}:
                dependencies |= self.dependencies[before]
                support |= self.support[before]
            last.update(dict.fromkeys(block.qubits, at))
            self.dependencies.append(dependencies)
            self.support.append(support)

    def best_plan(self) -> ShardingPlan:
        """Return the plan with the fewest swaps, then with the smallest seed."""
        plans = self._sorted(self._start(one) for one in self._candidates(range(self.width)))
        if plans[0].remaining:
            # The lowest bits of a state lie across SIMD lanes and are never swapped.
            by_use = sorted(range(self.width), key=self._uses, reverse=True)
            lanes = min(cache_blocking.LANE_QUBITS, self.width - 2 * self.bits - 1)
            free = sorted(by_use[lanes:])
            plans = self._sorted(self._start(one) for one in self._candidates(free))
            while plans[0].remaining:
                plans = self._sorted(
                    self._extend(plan, one)
                    for plan in plans[:BEAM_WIDTH]
                    for one in self._candidates(
                        [q for q in free if q not in plan.stages[-1][0]], plan
                    )
                )
        return self._build(plans[0])

    def _uses(self, qubit: int) -> int:
        return sum(mask >> qubit & 1 for mask in self.masks)

    def _sorted(self, plans: Iterable[_PartialPlan]) -> list[_PartialPlan]:
        def cost(plan: _PartialPlan) -> tuple[int, int, int]:
            crossing = len(self.flipped.intersection(plan.stages[-1][0]))
            return (len(plan.remaining), crossing, plan.seed.bit_count())

        return sorted(plans, key=cost)

    def _candidates(
        self, positions: Sequence[int], plan: _PartialPlan | None = None
    ) -> Iterable[tuple[int, ...]]:
        """Return sets of global qubits, limited to those of the best single qubits."""
        count = len(positions)
        if math.comb(count, self.bits) > MAX_CANDIDATES:

            def single_cost(position: int) -> tuple[int, int]:
                one = (position,)
                tried = self._start(one) if plan is None else self._extend(plan, one)
                return (len(tried.remaining), tried.seed.bit_count())

            while math.comb(count, self.bits) > MAX_CANDIDATES:
                count -= 1
            positions = sorted(sorted(positions, key=single_cost)[:count])
        return itertools.combinations(positions, self.bits)

    def _start(self, global_qubits: tuple[int, ...]) -> _PartialPlan:
        """Choose the seed for a first stage's global qubits, and the first stage."""
        if self.takes_states:
            every = tuple(range(len(self.masks)))
            return self._extend(_PartialPlan((1 << self.width) - 1, (), (), every), global_qubits)
        widest = max(len(global_qubits), self.width - self.bits - SEED_MARGIN_QUBITS)
        global_mask = _mask(global_qubits)
        seed_blocks, seed = 0, global_mask
        for at, mask in enumerate(self.masks):
            if mask & global_mask and (seed | self.support[at]).bit_count() <= widest:
                seed_blocks |= self.dependencies[at]
                seed |= self.support[at]
        numbers = range(len(self.masks))
        inside = tuple(at for at in numbers if seed_blocks >> at & 1)
        rest = tuple(at for at in numbers if not seed_blocks >> at & 1)
        return self._extend(_PartialPlan(seed, inside, (), rest), global_qubits)

    def _extend(self, plan: _PartialPlan, global_qubits: tuple[int, ...]) -> _PartialPlan:
        """Add a stage of all blocks that can be applied while these qubits are global."""
        blocked = _mask(global_qubits)
        applied, remaining = [], []
        for at in plan.remaining:
            if self.masks[at] & blocked:
                blocked |= self.masks[at]
                remaining.append(at)
            else:
                applied.append(at)
        stages = (*plan.stages, (global_qubits, tuple(applied)))
        return _PartialPlan(plan.seed, plan.seed_blocks, stages, tuple(remaining))

    def _build(self, plan: _PartialPlan) -> ShardingPlan:
        first = plan.stages[0][0]
        inside = (q for q in range(self.width) if plan.seed >> q & 1 and q not in first)
        slots = [q for q in range(self.width) if q not in first]
        stages: list[ShardStage] = []
        for global_qubits, numbers in plan.stages:
            if stages:
                for before, after in zip(stages[-1].globals, global_qubits, strict=True):
                    slots[slots.index(after)] = before
            blocks = tuple(self.blocks[at] for at in numbers)
            stages.append(ShardStage(global_qubits, tuple(slots), blocks))
        seed_blocks = tuple(self.blocks[at] for at in plan.seed_blocks)
        return ShardingPlan((*first, *inside), seed_blocks, tuple(stages))


def _mask(positions: Iterable[int]) -> int:
    return sum(1 << position for position in positions)
