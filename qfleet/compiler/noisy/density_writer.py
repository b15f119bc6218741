"""Serialization of density programs (read by native/noisy/density_program.cc)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from qfleet.compiler.noisy.noisy_writer import NoisyWriter

if TYPE_CHECKING:
    from qfleet.compiler.noisy.density_program import DensityProgram
    from qfleet.compiler.noisy.noisy_blocks import NoisyProgram

_DIGITS = {"X": 1, "Y": 2, "Z": 3}


class DensityWriter(NoisyWriter[np.ndarray]):
    """A serialized density program and its exponents."""

    format = 3  # version that native/noisy/density_program.cc reads

    def __init__(self, program: "DensityProgram") -> None:
        # Qubits that are needed for longest have the lowest digits: the others are traced out.
        self._last = last = program.last_blocks()
        order = sorted(range(len(last)), key=lambda position: -last[position])
        super().__init__(program, order, program.keys if program.sampling.shots else ())

    def _block_header(self, number: int) -> list[int]:
        return [sum(one >= number for one in self._last)]

    def _channel_words(self, channel: np.ndarray, block: tuple[int, ...]) -> list[int]:
        qubits = len(block)
        return [self._channel([qubits], channel.ravel().tolist()), qubits, 0]

    def _readouts(self, program: "NoisyProgram[np.ndarray]") -> tuple[list[int], Iterable[float]]:
        strings = [
            sum(_DIGITS[letter] << 2 * self._place[at] for at, letter in string.items())
            for string in program.terms.strings
        ]
        measured = max(1, sum(one == len(program.blocks) for one in self._last))
        return [measured, len(strings), *strings], program.terms.weights.ravel()
