"""Serialization of density programs (read by native/noisy/density_program.cc)."""

import numpy as np

from qfleet.compiler.density_program import DensityBlock, DensityProgram
from qfleet.compiler.noisy_writer import NoisyWriter

FORMAT = 3  # version that native/noisy/density_program.cc reads
_DIGITS = {"X": 1, "Y": 2, "Z": 3}


class DensityWriter(NoisyWriter):
    """A serialized density program and its exponents."""

    def __init__(self, program: DensityProgram) -> None:
        super().__init__(program.inputs)
        # Qubits that are needed for longest have the lowest digits: the others are traced out.
        last = program.last_blocks()
        order = sorted(range(len(last)), key=lambda position: -last[position])
        self._digit = {position: digit for digit, position in enumerate(order)}
        blocks: list[int] = []
        for number, block in enumerate(program.blocks):
            blocks += [sum(one >= number for one in last), *self._write_block(block)]
        sampling = self._sampling(program.sampling, program.keys if program.sampling.shots else ())
        self._list_exponents()
        strings = [
            sum(_DIGITS[letter] << 2 * self._digit[at] for at, letter in string.items())
            for string in program.terms.strings
        ]
        measured = max(1, sum(one == len(program.blocks) for one in last))
        self._ints = [
            *(FORMAT, max(1, len(program.qubits)), len(self.shared), len(self.per_example)),
            *(program.readouts, *sampling, *self._gates.ints()),
            *(len(self._channels), *self._channel_ints),
            *(len(program.blocks), *blocks, measured, len(strings), *strings),
        ]
        self._reals = [*self._gates.reals, *self._channel_reals]
        self._reals += [*program.terms.weights.ravel(), *program.terms.offsets]

    def _write_block(self, block: DensityBlock) -> list[int]:
        qubits = len(block.qubits)
        ints = [qubits, *(self._digit[position] for position in block.qubits), len(block.items)]
        for item in block.items:
            if isinstance(item, np.ndarray):
                ints += [self._channel([qubits], item.ravel().tolist()), qubits, 0]
            else:
                ints += self._unitary(item, block.qubits)
        return ints
