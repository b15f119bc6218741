"""Text that describes the native engine's plan for a circuit and a batch."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import cirq
import numpy as np

from qfleet.compiler.circuit.fused_blocks import FusedBlock
from qfleet.compiler.state import kernel_fusion
from qfleet.compiler.state.cache_blocking import BlockingPlan
from qfleet.compiler.state.cost import pass_costs
from qfleet.compiler.state.program import Program, describe_block
from qfleet.engine import memory

if TYPE_CHECKING:
    from qfleet.engine.machine import Machine


def describe_states(
    program: Program, machine: "Machine", batch: int, spanning: int | None = None
) -> str:
    """Describe the native engine's plan.

    Args:
        program: The compiled circuit.
        machine: The machine.
        batch: Number of examples.
        spanning: Number of states that span the batch, 0 if it is not used; None if unknown.

    Returns:
        Lines of text.
    """
    plan, prefix = program.plan_blocks(f"complex{16 * machine.real_bytes}")
    width, readouts = len(program.qubits), len(program.terms.offsets)
    forward, backward = pass_costs(plan, prefix, 2 * machine.real_bytes)
    lines = [
        f"native engine, {machine.instruction_set}, {machine.lanes} lanes of {machine.real}:"
        f" {width} qubits, {len(program.inputs)} inputs, {len(program.parameters)} parameters,"
        f" {readouts} readouts",
        *_layout(width, machine, batch),
        f"operations per example: {forward.operations:,.0f} forward, {backward.operations:,.0f}"
        " backward",
    ]
    if spanning:
        lines.append(
            f"subspace plan: the states of these {batch} examples are sums of {spanning} states,"
            " which are evolved instead (without gradients by angles)"
        )
    elif spanning is not None:
        lines.append(f"direct plan: each of these {batch} examples is evolved")
    lines += _blocks(program.qubits, plan)
    if program.takes_states:
        lines.append("initial states: one per example, passed with each call")
    elif program.initial is not None:
        lines.append("initial state: precomputed, includes all gates before the first symbol")
    elif prefix:
        lines.append(f"blocks before the first symbol: {prefix}")
    if readouts:
        lines.append(f"reads {len(program.terms.strings)} Pauli strings")
    return "\n".join(lines)


def _layout(width: int, machine: "Machine", batch: int) -> Iterator[str]:
    layout = machine.tile_layout(width, batch, machine.threads)
    sharing = "all threads share a tile" if layout.shared_tile else "one tile per thread"
    yield (
        f"batch of {batch} on {machine.threads} threads: {layout.tiles} tiles of {layout.samples}"
        f" examples, {layout.lane_qubits} qubits across lanes; {sharing}"
    )
    state = memory.state_bytes(width, 2 * machine.real_bytes)
    yield (
        f"memory: {state:,} bytes per state, two states ({2 * state:,} bytes) per example in"
        f" training; {width + 1} qubits would need {4 * state:,} bytes;"
        f" {machine.free_bytes:,} bytes are free"
    )


def _blocks(qubits: Sequence[cirq.Qid], plan: BlockingPlan) -> Iterator[str]:
    """Describe each cache block and its fused blocks."""
    groups = [(one.block_count, sorted(one.qubits)) for one in plan.cache_blocks]
    first = 0
    for count, positions in groups or [(len(plan.blocks), list(range(len(qubits))))]:
        where = ", ".join(str(qubits[position]) for position in positions)
        yield f"cache block of {count} blocks on {where}"
        for block in plan.blocks[first : first + count]:
            yield f"  {_matrix_kind(block)} {describe_block(block, qubits)}"
        first += count


def _matrix_kind(block: FusedBlock) -> str:
    """Return the kind of a block's matrix, such as "diagonal"."""
    entries = kernel_fusion.block_entries(block)
    size = len(entries)
    if entries.sum() > size * size // 2:
        return "dense"
    if not (entries & ~np.eye(size, dtype=bool)).any():
        return "diagonal"
    if (entries.sum(axis=0) <= 1).all() and (entries.sum(axis=1) <= 1).all():
        return "permutation"
    changed_rows = entries.any(axis=1).sum()
    return "controlled" if changed_rows <= size // 2 else "sparse"
