"""Preparation of a program for the native engine: cache blocks, bytes and the order of bits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qfleet.compiler.any_program import SerializedProgram
from qfleet.compiler.circuit.fused_blocks import FusedBlock
from qfleet.compiler.state import cache_blocking
from qfleet.compiler.state.cache_blocking import BlockingPlan
from qfleet.compiler.state.program_writer import ProgramWriter

if TYPE_CHECKING:
    from qfleet.compiler.state.program import Program


@dataclass(frozen=True)
class SerializedStateProgram(SerializedProgram):
    """A program of state vectors in the form that the native engine takes.

    Attributes:
        plan: The order of its qubits, its blocks and its cache blocks.
        prefix: Number of blocks before the first symbol.
    """

    plan: BlockingPlan
    prefix: int


def serialize_program(program: "Program", dtype: str) -> SerializedStateProgram:
    """Plan the cache blocks of a program and serialize it.

    Args:
        program: The program.
        dtype: Of the states, "complex64" or "complex128".
    """
    plan, prefix = plan_blocks(program, dtype)
    width = len(program.qubits)
    order = [width - 1 - position for position in plan.order]
    written = ProgramWriter(program, plan, prefix).program(order)
    return SerializedStateProgram(**vars(written), plan=plan, prefix=prefix)


def plan_blocks(program: "Program", dtype: str) -> tuple[BlockingPlan, int]:
    """Return the plan of a program, and the number of blocks before the first symbol.

    Args:
        program: As for `serialize_program`.
        dtype: As for `serialize_program`.
    """
    blocks = program.blocks
    prefix = 0 if program.initial is None else _count_prefix(blocks)
    plan = cache_blocking.plan_cache_blocks(
        [blocks[:prefix], blocks[prefix:]],
        len(program.qubits),
        cache_blocking.CACHE_BLOCK_QUBITS[dtype],
        from_zero=program.initial is None,
    )
    return plan, prefix


def _count_prefix(blocks: Sequence[FusedBlock]) -> int:
    """Count the blocks before the first symbol."""
    for at, block in enumerate(blocks):
        if any(factor.symbols for factor in block.factors):
            return at
    return len(blocks)
