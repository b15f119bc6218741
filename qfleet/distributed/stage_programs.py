"""The serialized programs of one process of a state group: the seed's and each stage's."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qfleet.compiler.circuit.fused_blocks import FusedBlock
from qfleet.compiler.circuit.observables import PauliTerms
from qfleet.compiler.state import cache_blocking
from qfleet.compiler.state.program import Program
from qfleet.compiler.state.program_writer import ProgramWriter
from qfleet.distributed.plan import ShardingPlan, ShardStage
from qfleet.distributed.state_group import StateGroup


@dataclass(frozen=True)
class SeedProgram:
    """The seed's program. Its highest index bits are the first stage's global qubits.

    Attributes:
        writer: The program and its exponents, which all stages share.
        order: For each index bit of the program, its bit in the result.
        own: Amplitudes of the seed that this process continues with.
        size: Number of amplitudes of the seed.
        amplitudes: int64 [size] where each amplitude of the seed is in a state of all of the seed's
            qubits, the first position the most significant bit.
    """

    writer: ProgramWriter
    order: tuple[int, ...]
    own: slice
    size: int
    amplitudes: np.ndarray


def seed_program(
    program: Program, plan: ShardingPlan, group: StateGroup, chunk_qubits: int
) -> SeedProgram:
    """Serialize the seed.

    Args:
        program: The circuit's program, compiled with the target "sharded".
        plan: Its stages.
        group: The processes that hold the state.
        chunk_qubits: Number of qubits that a chunk in cache holds.
    """
    index = {position: at for at, position in enumerate(plan.seed)}
    blocks = [
        FusedBlock(tuple(index[position] for position in block.qubits), block.factors)
        for block in plan.seed_blocks
    ]
    width = len(plan.seed)
    blocking = cache_blocking.plan_cache_blocks([blocks], width, chunk_qubits)
    no_terms = PauliTerms((), np.zeros((0, 0)), np.zeros(0))
    local = width - group.bits
    # Bits of the seed, the lowest first: its own qubits, then the global ones.
    bits = [*plan.seed[group.bits :], *plan.seed[: group.bits]]
    amplitudes = np.zeros(1, np.int64)
    for position in bits if program.takes_states else ():
        amplitudes = np.concatenate([amplitudes, amplitudes + (1 << (width - 1 - position))])
    return SeedProgram(
        writer=ProgramWriter(program.inputs, no_terms, blocking, extra_blocks=program.blocks),
        order=tuple(at - group.bits if at >= group.bits else local + at for at in blocking.order),
        own=slice(group.rank << local, (group.rank + 1) << local),
        size=2**width,
        amplitudes=amplitudes,
    )


@dataclass(frozen=True)
class StagePrograms:
    """The programs of all stages.

    Attributes:
        programs: The serialized program of each stage; the last one reads the local terms.
        gradient_before: For each stage, and for the end, if anything before it has a gradient: by
            trained symbols only, and by all symbols.
        crossing: Serialized terms that read amplitudes of another process, by the XOR of its rank
            and this process's rank.
        width: Number of local qubits.
        seed_bits: Index bits of the seed's local qubits.
        swap_bits: For each swap, the index bits that are swapped with the rank's.
        across: Number of index bits that may lie across SIMD lanes.
    """

    programs: tuple[bytes, ...]
    gradient_before: tuple[tuple[bool, bool], ...]
    crossing: dict[int, bytes]
    width: int
    seed_bits: tuple[int, ...]
    swap_bits: tuple[tuple[int, ...], ...]
    across: int


def stage_programs(
    program: Program,
    plan: ShardingPlan,
    group: StateGroup,
    chunk_qubits: int,
    seed_gradient: tuple[bool, bool],
) -> StagePrograms:
    """Serialize all stages.

    Args:
        program: The circuit's program, compiled with the target "sharded".
        plan: Its stages.
        group: The processes that hold the state.
        chunk_qubits: Number of qubits that a chunk in cache holds.
        seed_gradient: If the seed has a gradient: by trained symbols only, and by all symbols.
    """
    width = len(program.qubits) - group.bits
    swapped = sorted({slot for swap in plan.swaps for slot in swap})
    stages = [stage.local_blocks() for stage in plan.stages]
    blocking = cache_blocking.plan_cache_blocks(stages, width, chunk_qubits, swapped)
    bit = {slot: at for at, slot in enumerate(blocking.order)}

    terms = program.terms
    by_flip = _terms_by_flip(terms, plan.stages[-1], group.rank)
    local_terms = by_flip.pop(0, _no_terms(terms))
    programs: list[bytes] = []
    gradient_before = [seed_gradient]
    for at, stage_plan in enumerate(_split_plan(blocking, stages)):
        read = local_terms if at == len(stages) - 1 else _no_terms(terms)
        before = gradient_before[-1]
        writer = ProgramWriter(
            program.inputs,
            read,
            stage_plan,
            extra_blocks=program.blocks,
            gradient_before=before,
        )
        programs.append(writer.bytes())
        own = writer.has_gradient
        gradient_before.append((before[0] or own[0], before[1] or own[1]))
    empty = cache_blocking.BlockingPlan(blocking.order, (), ())
    crossing = {
        flip: ProgramWriter(program.inputs, read, empty, extra_blocks=program.blocks).bytes()
        for flip, read in by_flip.items()
    }
    return StagePrograms(
        programs=tuple(programs),
        gradient_before=tuple(gradient_before),
        crossing=crossing,
        width=width,
        seed_bits=tuple(bit[plan.stages[0].slots.index(q)] for q in plan.seed[group.bits :]),
        swap_bits=tuple(tuple(bit[slot] for slot in swap) for swap in plan.swaps),
        across=min([cache_blocking.LANE_QUBITS, *(bit[slot] for slot in swapped)]),
    )


def _split_plan(
    blocking: cache_blocking.BlockingPlan, stages: Sequence[Sequence[FusedBlock]]
) -> list[cache_blocking.BlockingPlan]:
    """Split a plan of all stages into one per stage, with the same order of qubits."""
    plans, block, cache_block = [], 0, 0
    for stage in stages:
        end, first = block + len(stage), cache_block
        at = block
        while blocking.cache_blocks and at < end:
            at += blocking.cache_blocks[cache_block].block_count
            cache_block += 1
        plans.append(
            cache_blocking.BlockingPlan(
                blocking.order,
                blocking.blocks[block:end],
                blocking.cache_blocks[first:cache_block],
            )
        )
        block = end
    return plans


def _no_terms(terms: PauliTerms) -> PauliTerms:
    readouts = len(terms.offsets)
    return PauliTerms((), np.zeros((0, readouts)), np.zeros(readouts))


def _terms_by_flip(terms: PauliTerms, last: ShardStage, rank: int) -> dict[int, PauliTerms]:
    """Group a process's terms by the process whose amplitudes they read.

    A string that flips global qubits of the last stage needs another process's amplitudes. The
    string's sign on the global qubits is included in its weight. Ys on global qubits stay in the
    string, at negative positions. Rank 0 adds the offsets.

    Returns:
        Terms on slots, by the XOR of the other process's rank and this process's rank.
    """
    slot = {position: at for at, position in enumerate(last.slots)}
    slot |= {position: ~at for at, position in enumerate(last.globals)}
    groups: dict[int, list[tuple[dict[int, str], np.ndarray]]] = {}
    for string, weights in zip(terms.strings, terms.weights, strict=True):
        flip = sign = 0
        for position, pauli in string.items():
            if slot[position] < 0:
                flip |= (pauli != "Z") << ~slot[position]
                sign ^= (pauli != "X") & rank >> ~slot[position]
        local = {slot[position]: pauli for position, pauli in string.items()}
        groups.setdefault(flip, []).append((local, -weights if sign else weights))
    offsets = terms.offsets if rank == 0 else np.zeros_like(terms.offsets)
    by_flip = {
        flip: PauliTerms(
            tuple(string for string, _ in members),
            np.stack([weights for _, weights in members]),
            np.zeros_like(offsets) if flip else offsets,
        )
        for flip, members in groups.items()
    }
    if 0 not in by_flip:
        empty = _no_terms(terms)
        by_flip[0] = PauliTerms(empty.strings, empty.weights, offsets)
    return by_flip
