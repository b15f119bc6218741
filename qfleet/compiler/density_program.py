"""Programs that evolve density matrices: circuits with noise channels."""

from collections.abc import Sequence
from dataclasses import dataclass

import cirq
import numpy as np

from qfleet.compiler.channel import NoiseChannel, on_block
from qfleet.compiler.factor import Factor
from qfleet.compiler.noisy_blocks import Item, NoisyProgram, join_blocks, merge_factors
from qfleet.compiler.sampling import Sampling
from qfleet.errors import CircuitError

MAX_DENSITY_QUBITS = 16
"""Widest density matrix of a program (kMaxDensityQubits in native/noisy/density_program.h)."""


@dataclass(frozen=True)
class DensityBlock:
    """Items on one or two qubits, which the engine applies as one matrix.

    Attributes:
        qubits: Positions.
        items: Unitaries, each a product of factors on the same qubits, and channels: matrices of
            all qubits as of `NoiseChannel`.
    """

    qubits: tuple[int, ...]
    items: tuple[tuple[Factor, ...] | np.ndarray, ...]


@dataclass(frozen=True)
class DensityProgram(NoisyProgram):
    """A circuit with noise, compiled.

    Attributes:
        blocks: First applied first.
    """

    blocks: tuple[DensityBlock, ...]

    def last_blocks(self) -> list[int]:
        """Return the last block of each position; that of a measured one comes after all."""
        last = [-1] * len(self.qubits)
        for number, block in enumerate(self.blocks):
            for position in block.qubits:
                last[position] = number
        for position in self.terms.support:
            last[position] = len(self.blocks)
        return last

    @property
    def coefficients(self) -> list[int]:
        """Coefficients of the density matrix before each block: others are traced out."""
        last = self.last_blocks()
        return [4 ** sum(one >= number for one in last) for number in range(len(self.blocks))]

    @property
    def operations(self) -> int:
        """Real multiplications of a forward pass, per example."""
        sizes = zip(self.blocks, self.coefficients, strict=True)
        return sum(4 ** len(block.qubits) * size for block, size in sizes)

    def __str__(self) -> str:
        channels = sum(isinstance(item, np.ndarray) for one in self.blocks for item in one.items)
        return (
            f"{len(self.qubits)} qubits, {len(self.inputs)} inputs, {len(self.parameters)}"
            f" parameters, {self.readouts} readouts\n{len(self.blocks)} blocks with {channels}"
            f" channels, {self.operations:,} multiplications per example"
        )


def compile_density(
    items: Sequence[Item],
    inputs: Sequence[str],
    parameters: Sequence[str],
    readouts: Sequence[cirq.PauliSum],
    qubits: Sequence[cirq.Qid],
    sampling: Sampling,
) -> DensityProgram:
    """Compile a product of factors and channels.

    Args:
        items: First applied first.
        inputs: Names of the data symbols, in the order of the columns of the angles.
        parameters: Names of the trained symbols, in order.
        readouts: At least one observable.
        qubits: All qubits, in order.
        sampling: Shots and their seed.

    Raises:
        CircuitError: The observables depend on too many qubits, or have a complex coefficient.
    """
    program, blocks = join_blocks(items, inputs, parameters, readouts, qubits, sampling)
    if len(program.qubits) > MAX_DENSITY_QUBITS:
        raise CircuitError(
            f"a density matrix has at most {MAX_DENSITY_QUBITS} qubits, but the observables depend"
            f" on {len(program.qubits)}: use the method trajectories"
        )
    return DensityProgram(**vars(program), blocks=tuple(_block(*one) for one in blocks))


def _block(qubits: tuple[int, ...], items: Sequence[Item]) -> DensityBlock:
    """Multiply neighbours: channels to one matrix, and factors to one unitary."""
    merged: list[tuple[Factor, ...] | np.ndarray] = []
    for item in merge_factors(items, qubits):
        if isinstance(item, NoiseChannel):
            matrix = on_block(item, qubits)
            if merged and isinstance(merged[-1], np.ndarray):
                merged[-1] = matrix @ merged[-1]
            else:
                merged.append(matrix)
        else:
            merged.append(item)
    return DensityBlock(qubits, tuple(merged))
