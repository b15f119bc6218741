"""Operations and bytes of a program in the native engine, as far as its results need them."""

from collections.abc import Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qfleet.compiler.circuit import expressions
from qfleet.compiler.state import kernel_fusion
from qfleet.compiler.state.cache_blocking import BlockingPlan, CacheBlock

if TYPE_CHECKING:
    from qfleet.engine.machine import Machine


@dataclass(frozen=True)
class PassCost:
    """The cost of one pass of an example through a program.

    Attributes:
        operations: Floating-point operations; a multiply-add is two.
        bytes: Bytes of states that are read or written: both once per cache block.
        cached_bytes: The same once per block, which finds its states in a cache.
    """

    operations: float
    bytes: float
    cached_bytes: float = 0

    def __add__(self, other: "PassCost") -> "PassCost":
        return PassCost(
            self.operations + other.operations,
            self.bytes + other.bytes,
            self.cached_bytes + other.cached_bytes,
        )


def pass_costs(
    plan: BlockingPlan,
    prefix: int,
    amplitude_bytes: int,
    inputs: Set[str] = frozenset(),
) -> tuple[PassCost, PassCost]:
    """Count the cost of the forward pass and of the adjoint pass.

    Blocks before the first symbol are not counted: a batch applies them once. Neither are the
    measurements, and blocks are counted without padding to SIMD vectors.

    Args:
        plan: The blocks and cache blocks.
        prefix: Number of blocks before the first symbol.
        amplitude_bytes: Bytes per amplitude, 8 or 16.
        inputs: Names of the symbols whose gradients are not wanted.
    """
    bit = {position: bit for bit, position in enumerate(plan.order)}
    wanted = [
        any(
            not expressions.symbol_names(exponent) & inputs
            for factor in block.factors
            for exponent in factor.exponents
        )
        for block in plan.blocks
    ]
    uncompute = kernel_fusion.needs_uncompute(plan.blocks, wanted, from_zero=plan.from_zero)
    active = 0 if plan.from_zero else len(plan.order)  # lowest bits that may differ from 0
    forward = backward = PassCost(0, 0)
    first = 0
    for cache_block in plan.cache_blocks or (CacheBlock(frozenset(plan.order), len(plan.blocks)),):
        end = first + cache_block.block_count
        for at in range(first, end):
            block = plan.blocks[at]
            active = max(active, *(bit[position] + 1 for position in block.qubits))
            scale = 2 * 4 * 2.0**active / 2 ** len(block.qubits) * (at >= prefix)
            entries = kernel_fusion.block_entries(block)
            applied = scale * entries.sum()
            gradient = scale * kernel_fusion.gradient_entries(block).sum()
            # Rows that a block changes are read and written.
            changed = 2 * amplitude_bytes * 2.0**active * entries.any(axis=1).mean()
            changed *= at >= prefix
            forward += PassCost(applied, 0, changed)
            # A gradient reads two states, which are in the nearest cache when they are uncomputed.
            backward += PassCost(
                wanted[at] * gradient + uncompute[at] * 2 * applied,
                0,
                2 * changed if uncompute[at] else wanted[at] * changed,
            )
        moved = 2 * amplitude_bytes * 2.0**active * (end > prefix)
        forward += PassCost(0, moved)
        backward += PassCost(0, 2 * moved)
        first = end
    return forward, backward


def tile_work(machine: "Machine", width: int, threads: int) -> list[float]:
    """Return the work of 1, 2, ... examples as of `ProgramCost.batch_work`, for state vectors.

    Args:
        machine: The machine.
        width: Qubits per state.
        threads: Number of threads.
    """
    work = []
    for examples in range(1, machine.lanes * threads + 1):
        layout = machine.tile_layout(width, examples, threads)
        if layout.shared_tile:
            work.append(float(layout.tiles * layout.samples / threads))
        else:
            work.append(float(-(-layout.tiles // threads) * layout.samples))
    return work
