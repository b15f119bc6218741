"""What the native backend will do with a circuit and a batch, in words and numbers."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from qfleet import native
from qfleet.compiler import kernel_fusion, program
from qfleet.compiler.dense_fusion import FusedBlock
from qfleet.engine import memory

if TYPE_CHECKING:
    from qfleet.tensorflow.native import NativeSimulator


def describe(
    simulator: "NativeSimulator", batch: int | None, angles: np.ndarray | None = None
) -> str:
    """See NativeSimulator.describe."""
    return "\n".join(_lines(simulator, batch, angles))


def _lines(
    simulator: "NativeSimulator", batch: int | None, angles: np.ndarray | None
) -> Iterator[str]:
    from qfleet.tensorflow.runtime import tf

    width, real = len(simulator.qubits), simulator.dtype.size
    lanes = native.simd_lanes(real)
    threads = tf.config.threading.get_intra_op_parallelism_threads() or memory.cpu_count()
    batch = len(angles) if angles is not None else batch or lanes
    yield (
        f"native kernel, {native.instruction_set()}, {lanes} lanes of {simulator.dtype.name}:"
        f" {width} qubits, {len(simulator.inputs)} inputs, {len(simulator.parameters)} parameters,"
        f" {simulator.readouts} readouts"
    )
    yield from _layout(simulator, batch, threads)
    yield from _operations(simulator)
    if angles is not None and (states := simulator.span(angles)):
        yield (
            f"subspace plan: these {batch} examples are sums of {states} states, which are evolved"
            " in their stead (not where gradients by angles are wanted)"
        )
    elif angles is not None:
        yield f"direct plan: each of these {batch} examples is evolved"
    yield from _blocks(simulator)


def _layout(simulator: "NativeSimulator", batch: int, threads: int) -> Iterator[str]:
    width, real = len(simulator.qubits), simulator.dtype.size
    shape = native.tile_layout(width, real, batch, threads)
    shared = "all threads share a tile" if shape.shared_tile else "a thread takes a tile"
    yield (
        f"batch of {batch} on {threads} threads: {shape.tiles} tiles of {shape.samples} examples,"
        f" {shape.lane_qubits} qubits across lanes; {shared}"
    )
    state = memory.state_bytes(width, 2 * real, 1)
    yield (
        f"memory: {state:,} bytes a state, two states ({2 * state:,} bytes) for each example being"
        f" trained; {width + 1} qubits would need {4 * state:,} bytes, and"
        f" {memory.available_bytes():,} are free"
    )


def count_operations(blocks: Sequence[FusedBlock], qubits: int) -> tuple[float, float]:
    """Floating-point operations of an example, forward and back: two for each multiply-add.

    Args:
        blocks: In the order in which they are applied.
        qubits: Width of the state.
    """
    wanted = [any(factor.symbols for factor in block.factors) for block in blocks]
    forward = backward = 0.0
    for block, one, undone in zip(
        blocks, wanted, kernel_fusion.needs_uncompute(blocks, wanted), strict=True
    ):
        size = 2 ** len(block.qubits)
        applied = 4 * kernel_fusion.block_entries(block).sum() / size
        forward += applied
        backward += (
            one * 4 * kernel_fusion.gradient_entries(block).sum() / size + undone * 2 * applied
        )
    amplitudes = 2 * 2**qubits
    return forward * amplitudes, backward * amplitudes


def _operations(simulator: "NativeSimulator") -> Iterator[str]:
    forward, backward = count_operations(simulator.plan.blocks, len(simulator.qubits))
    yield f"operations: {forward:,.0f} forward and {backward:,.0f} back, for an example"


def _blocks(simulator: "NativeSimulator") -> Iterator[str]:
    plan, qubits = simulator.plan, simulator.qubits
    if simulator.program.initial is not None:
        yield "starts in a constant state: everything before the first symbol"
    elif simulator.prefix:
        yield f"the first {simulator.prefix} blocks come before the first symbol"
    windows = [(window.blocks, sorted(window.qubits)) for window in plan.windows]
    at = 0
    for count, inside in windows or [(len(plan.blocks), list(range(len(qubits))))]:
        where = ", ".join(str(qubits[position]) for position in inside)
        yield f"window of {count} blocks on {where}"
        for block in plan.blocks[at : at + count]:
            yield f"  {_form(block)} {program.describe_block(block, qubits)}"
        at += count
    terms = simulator.program.readout.terms
    if simulator.readouts and terms is not None:
        yield f"reads {len(terms.strings)} Pauli strings"


def _form(block: FusedBlock) -> str:
    """The kind of a block's matrix."""
    entries = kernel_fusion.block_entries(block)
    size = len(entries)
    if entries.sum() > size * size // 2:
        return "dense"
    if not (entries & ~np.eye(size, dtype=bool)).any():
        return "diagonal"
    if (entries.sum(axis=0) <= 1).all() and (entries.sum(axis=1) <= 1).all():
        return "permutation"
    changed = entries.any(axis=1).sum()
    return "controlled" if changed <= size // 2 else "sparse"
