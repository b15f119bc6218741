"""Serialization of trajectory programs (read by native/noisy/trajectory_program.cc)."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from qfleet.compiler.circuit.channel import NoiseChannel, kraus_on_block
from qfleet.compiler.noisy.noisy_writer import NoisyWriter
from qfleet.compiler.state.program_writer import pauli_groups

if TYPE_CHECKING:
    from qfleet.compiler.noisy.noisy_blocks import NoisyProgram
    from qfleet.compiler.noisy.trajectory_program import TrajectoryProgram


class TrajectoryWriter(NoisyWriter[NoiseChannel]):
    """A serialized trajectory program and its exponents."""

    format = 4  # version that native/noisy/trajectory_program.cc reads

    def __init__(self, program: "TrajectoryProgram") -> None:
        # Qubits that are used first have the lowest bits: the others are |0> until then.
        order = dict.fromkeys(position for block in program.blocks for position in block.qubits)
        order |= dict.fromkeys(range(len(program.qubits)))
        super().__init__(program, order, program.keys, [program.trajectories])

    def _channel_words(self, channel: NoiseChannel, block: tuple[int, ...]) -> list[int]:
        qubits, kraus = len(channel.qubits), kraus_on_block(channel, block)
        known = channel.probabilities
        header = [qubits, len(kraus), int(known is not None)]
        parts = np.stack([kraus.real, kraus.imag], axis=-1).ravel().tolist()
        number = self._channel(header, [*([] if known is None else known), *parts])
        place = block.index(channel.qubits[0]) if qubits < len(block) else 0
        return [number, qubits, place]

    def _readouts(self, program: "NoisyProgram[NoiseChannel]") -> tuple[list[int], Iterable[float]]:
        return pauli_groups(program.terms, self._place)
