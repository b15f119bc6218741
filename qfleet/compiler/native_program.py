"""Preparation of a program for the native engine: cache blocks, bytes and the order of bits."""

from collections.abc import Sequence
from dataclasses import dataclass

import sympy

from qfleet.compiler import cache_blocking
from qfleet.compiler.cache_blocking import BlockingPlan
from qfleet.compiler.dense_fusion import FusedBlock
from qfleet.compiler.program import Program
from qfleet.compiler.serialize import ProgramWriter


@dataclass(frozen=True)
class NativeProgram:
    """A program in the form that the native engine takes.

    Attributes:
        program: The program, compiled for the target "native".
        plan: The order of its qubits, its blocks and its cache blocks.
        prefix: Number of blocks before the first symbol.
        serialized: The bytes that the engine reads.
        shared: E expressions of trained symbols only: exponents that the batch shares.
        per_example: F expressions that contain a data symbol: exponents of each example.
        bit_order: [N] bit i of the engine's index of a state is this bit of Cirq's index, where the
            first qubit is the highest bit.
    """

    program: Program
    plan: BlockingPlan
    prefix: int
    serialized: bytes
    shared: tuple[sympy.Expr, ...]
    per_example: tuple[sympy.Expr, ...]
    bit_order: tuple[int, ...]


def prepare_native_program(program: Program, dtype: str) -> NativeProgram:
    """Plan the cache blocks of a program and serialize it.

    Args:
        program: Compiled for the target "native".
        dtype: Of the states, "complex64" or "complex128".
    """
    blocks, width = program.blocks, len(program.qubits)
    prefix = 0 if program.initial is None else _count_prefix(blocks)
    plan = cache_blocking.plan_cache_blocks(
        [blocks[:prefix], blocks[prefix:]],
        width,
        cache_blocking.CACHE_BLOCK_QUBITS[dtype],
        from_zero=program.initial is None,
    )
    writer = ProgramWriter(program, plan, prefix)
    return NativeProgram(
        program,
        plan,
        prefix,
        writer.bytes(),
        tuple(writer.shared),
        tuple(writer.per_example),
        tuple(width - 1 - position for position in plan.order),
    )


def _count_prefix(blocks: Sequence[FusedBlock]) -> int:
    """Count the blocks before the first symbol."""
    for at, block in enumerate(blocks):
        if any(factor.symbols for factor in block.factors):
            return at
    return len(blocks)
