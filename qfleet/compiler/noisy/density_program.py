"""Programs that evolve density matrices: circuits with noise channels."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from qfleet.compiler.any_program import SerializedProgram
from qfleet.compiler.circuit.channel import NoiseChannel, on_block
from qfleet.compiler.noisy.noisy_blocks import NoisyProgram, Unitary
from qfleet.compiler.noisy.noisy_writer import NoisyWriter

_DIGITS = {"X": 1, "Y": 2, "Z": 3}


@dataclass(frozen=True)
class DensityProgram(NoisyProgram[np.ndarray]):
    """A circuit with noise, compiled; its channels are matrices as of `channel.on_block`."""

    method = "density_matrix"
    kind = "density matrices"
    has_kernels = True
    hessian_advice = "remove the noise"
    max_qubits = 16  # kMaxDensityQubits in native/noisy/noisy_program.cc
    advice = "use the method trajectories"
    memory_advice = "use the method trajectories, or fewer qubits"
    memory_unit = "gradient of an example"

    @staticmethod
    def _channels(
        items: Sequence[Unitary | NoiseChannel], block: tuple[int, ...]
    ) -> tuple[Unitary | np.ndarray, ...]:
        """Multiply neighbouring channels to one matrix."""
        merged: list[Unitary | np.ndarray] = []
        for item in items:
            if isinstance(item, tuple):
                merged.append(item)
                continue
            matrix = on_block(item, block)
            if merged and isinstance(merged[-1], np.ndarray):
                merged[-1] = matrix @ merged[-1]
            else:
                merged.append(matrix)
        return tuple(merged)

    def serialized(self, dtype: str) -> SerializedProgram:
        """Return the program in the form that the engine takes; see `AnyProgram`."""
        writer = _DensityWriter(self)
        return writer.program(writer.bit_order if self.takes_states else [])

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

    def example_bytes(self, real_bytes: int, states: int = 2) -> int:
        """Return the bytes of the density matrices of one example; see `NoisyProgram`."""
        kept = _kept_coefficients(self.coefficients) if states > 1 else 0
        states_reals: int = 4 ** len(self.qubits) + kept
        return real_bytes * states_reals

    def batch_work(self, threads: int) -> list[float]:
        """Return the work of up to one example per thread; see `ProgramCost`."""
        return [1.0] * threads


class _DensityWriter(NoisyWriter[np.ndarray]):
    """A serialized density program and its exponents."""

    format = 3

    def __init__(self, program: DensityProgram) -> None:
        # Qubits that are needed for longest have the lowest digits: the others are traced out.
        self._last = last = program.last_blocks()
        order = sorted(range(len(last)), key=lambda position: -last[position])
        super().__init__(program, order, program.keys if program.sampling.shots else ())

    def _block_header(self, number: int) -> list[int]:
        return [sum(one >= number for one in self._last)]

    def _channel_words(self, channel: np.ndarray, block: tuple[int, ...]) -> list[int]:
        qubits = len(block)
        return [self._channel([qubits], channel.ravel().tolist()), qubits, 0]

    def _readouts(self, program: NoisyProgram[np.ndarray]) -> tuple[list[int], Iterable[float]]:
        strings = [
            sum(_DIGITS[letter] << 2 * self._place[at] for at, letter in string.items())
            for string in program.terms.strings
        ]
        measured = max(1, sum(one == len(program.blocks) for one in self._last))
        return [measured, len(strings), *strings], program.terms.weights.ravel()


def _kept_coefficients(before: list[int]) -> int:
    """Return the least that a gradient keeps: see ReverseTile in native/noisy/density_engine.cc.

    Args:
        before: Coefficients before each block.
    """
    segment = max(1, math.ceil(math.sqrt(len(before))))
    starts = range(0, len(before), segment)
    others = (sum(before[first + 1 : first + segment]) for first in starts)
    return sum(before[first] for first in starts) + max(others, default=0)
