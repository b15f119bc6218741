"""The way of a state that is split over 2**k workers: few exchanges, or none.

In each stage k qubits are global: a worker's rank says what they are, and it holds the amplitudes
of all the others. No block of a stage touches its global qubits. Between two stages one all-to-all
swaps the k global qubits with k local ones.

What begins a circuit needs no exchange: the blocks that the first stage's global qubits need, and
what these blocks depend on, act on few qubits as long as that is early. Every worker evolves this
seed, a state of those few qubits, by itself, and takes from it the part with its rank's bits; all
other qubits are |0> until then. Where a qubit is done with early, as one that a QCNN pools out, all
of its blocks are in the seed, and the rest of the circuit falls apart into 2**k parts that never
exchange anything.

Blocks are known by the bits of their qubits here: bit q of a mask is position q.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from common.errors import CircuitError
from qfleet.compiler import cache_blocking
from qfleet.compiler.dense_fusion import FusedBlock
from qfleet.compiler.program import Program

MAX_CANDIDATES = 2000  # sets of global qubits that are compared for one stage
BEAM_WIDTH = 6  # ways that are followed at a time, where there are several exchanges
SMALLER = 3  # qubits by which the seed is smaller than a worker's part of the state


@dataclass(frozen=True)
class ShardStage:
    """Blocks between two exchanges.

    Attributes:
        globals: Positions that the bits of the rank stand for, the lowest bit first.
        slots: Positions by the slot that they have in the local state; an exchange puts a
            position that becomes local into the slot of the one that it is swapped with.
        blocks: In the order in which they are applied; of positions.
    """

    globals: tuple[int, ...]
    slots: tuple[int, ...]
    blocks: tuple[FusedBlock, ...]


@dataclass(frozen=True)
class ShardingPlan:
    """The way of one circuit.

    Attributes:
        seed: Positions of the seed, the first stage's global ones first.
        seed_blocks: What is applied to it, in order.
        stages: One, and one more for each exchange.
    """

    seed: tuple[int, ...]
    seed_blocks: tuple[FusedBlock, ...]
    stages: tuple[ShardStage, ...]

    @property
    def exchanges(self) -> tuple[tuple[int, ...], ...]:
        """For each exchange, the slots that are swapped with the bits of the rank."""
        return tuple(
            tuple(before.slots.index(position) for position in after.globals)
            for before, after in itertools.pairwise(self.stages)
        )

    @property
    def still(self) -> tuple[int, ...]:
        """Slots that no exchange swaps."""
        swapped = {slot for exchange in self.exchanges for slot in exchange}
        return tuple(slot for slot in range(len(self.stages[0].slots)) if slot not in swapped)


def plan_sharding(
    blocks: Sequence[FusedBlock], width: int, bits: int, flipped: Iterable[int] = ()
) -> ShardingPlan:
    """Choose the global qubits of each stage.

    Args:
        blocks: All of the circuit, in order.
        width: N, how many qubits there are.
        bits: k, how many of them are global.
        flipped: Positions that an observable reads X or Y of; better local in the last stage.

    Raises:
        CircuitError: There are fewer than 2 k + 1 qubits.
    """
    if width < 2 * bits + 1:
        raise CircuitError(
            f"a state of {width} qubits can't be split over {2**bits} workers: split one of"
            f" {2 * bits + 1} qubits or more, or use a smaller SPLIT"
        )
    return _Search(blocks, width, bits, frozenset(flipped)).found()


def plan_for_program(program: Program, bits: int) -> ShardingPlan:
    """The plan of a circuit that was compiled with the target "split"; see `plan`."""
    terms = program.readout.terms
    assert terms is not None
    blocks = [step for step in program.steps if isinstance(step, FusedBlock)]
    flipped = {at for string in terms.strings for at, pauli in string.items() if pauli != "Z"}
    return plan_sharding(blocks, len(program.qubits), bits, flipped)


@dataclass(frozen=True)
class _Way:
    """What was chosen so far: each stage's global qubits and blocks, and the blocks left."""

    seed: int  # mask of positions
    first: tuple[int, ...]  # blocks of the seed
    stages: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    left: tuple[int, ...]


class _Search:
    def __init__(
        self, blocks: Sequence[FusedBlock], width: int, bits: int, flipped: frozenset[int]
    ) -> None:
        self.blocks, self.width, self.bits, self.flipped = blocks, width, bits, flipped
        self.masks = [_mask(block.qubits) for block in blocks]
        # What each block depends on, itself included, as bits of block numbers; and on which
        # qubits that is.
        self.past: list[int] = []
        self.reach: list[int] = []
        last: dict[int, int] = {}
        for at, block in enumerate(blocks):
            past, reach = 1 << at, self.masks[at]
            for before in {last[qubit] for qubit in block.qubits if qubit in last}:
                past |= self.past[before]
                reach |= self.reach[before]
            last.update(dict.fromkeys(block.qubits, at))
            self.past.append(past)
            self.reach.append(reach)

    def found(self) -> ShardingPlan:
        """The best way: the fewest exchanges, then the smallest seed."""
        ways = self._ranked(self._begun(one) for one in self._sets(range(self.width)))
        if ways[0].left:
            # The lowest bits of a state lie across a vector's lanes, and are never swapped.
            busy = sorted(range(self.width), key=self._uses, reverse=True)
            lanes = min(cache_blocking.SIMD_LANES, self.width - 2 * self.bits - 1)
            free = sorted(busy[lanes:])
            ways = self._ranked(self._begun(one) for one in self._sets(free))
            while ways[0].left:
                ways = self._ranked(
                    self._followed(way, one)
                    for way in ways[:BEAM_WIDTH]
                    for one in self._sets([q for q in free if q not in way.stages[-1][0]], way)
                )
        return self._spelt(ways[0])

    def _uses(self, qubit: int) -> int:
        return sum(mask >> qubit & 1 for mask in self.masks)

    def _ranked(self, ways: Iterable[_Way]) -> list[_Way]:
        def worth(way: _Way) -> tuple[int, int, int]:
            crossed = len(self.flipped.intersection(way.stages[-1][0]))
            return (len(way.left), crossed, way.seed.bit_count())

        return sorted(ways, key=worth)

    def _sets(self, positions: Sequence[int], way: _Way | None = None) -> Iterable[tuple[int, ...]]:
        """Sets of global qubits that are worth trying."""
        count = len(positions)
        if math.comb(count, self.bits) > MAX_CANDIDATES:
            # Those that are the best by themselves.
            def alone(position: int) -> tuple[int, int]:
                one = (position,)
                tried = self._begun(one) if way is None else self._followed(way, one)
                return (len(tried.left), tried.seed.bit_count())

            while math.comb(count, self.bits) > MAX_CANDIDATES:
                count -= 1
            positions = sorted(sorted(positions, key=alone)[:count])
        return itertools.combinations(positions, self.bits)

    def _begun(self, chosen: tuple[int, ...]) -> _Way:
        """A first stage, and its seed."""
        most = max(len(chosen), self.width - self.bits - SMALLER)
        wanted = _mask(chosen)
        seed, reach = 0, wanted
        for at, mask in enumerate(self.masks):
            if mask & wanted and (reach | self.reach[at]).bit_count() <= most:
                seed |= self.past[at]
                reach |= self.reach[at]
        rest = [at for at in range(len(self.masks)) if not seed >> at & 1]
        first = tuple(at for at in range(len(self.masks)) if seed >> at & 1)
        return self._followed(_Way(reach, first, (), tuple(rest)), chosen)

    def _followed(self, way: _Way, chosen: tuple[int, ...]) -> _Way:
        """A further stage: all blocks that can be applied while these qubits are global."""
        held = _mask(chosen)
        taken, left = [], []
        for at in way.left:
            if self.masks[at] & held:
                held |= self.masks[at]
                left.append(at)
            else:
                taken.append(at)
        return _Way(way.seed, way.first, (*way.stages, (chosen, tuple(taken))), tuple(left))

    def _spelt(self, way: _Way) -> ShardingPlan:
        first = way.stages[0][0]
        seed = (*first, *(q for q in range(self.width) if way.seed >> q & 1 and q not in first))
        slots = [q for q in range(self.width) if q not in first]
        stages: list[ShardStage] = []
        for chosen, numbers in way.stages:
            if stages:
                for before, after in zip(stages[-1].globals, chosen, strict=True):
                    slots[slots.index(after)] = before
            taken = tuple(self.blocks[at] for at in numbers)
            stages.append(ShardStage(chosen, tuple(slots), taken))
        return ShardingPlan(seed, tuple(self.blocks[at] for at in way.first), tuple(stages))


def _mask(positions: Iterable[int]) -> int:
    return sum(1 << position for position in positions)
