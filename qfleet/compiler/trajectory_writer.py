"""Serialization of trajectory programs (read by native/noisy/trajectory_program.cc)."""

import numpy as np

from qfleet.compiler.channel import NoiseChannel, kraus_on_block
from qfleet.compiler.noisy_writer import NoisyWriter
from qfleet.compiler.serialize import pauli_groups
from qfleet.compiler.trajectory_program import TrajectoryBlock, TrajectoryProgram

FORMAT = 4  # version that native/noisy/trajectory_program.cc reads


class TrajectoryWriter(NoisyWriter):
    """A serialized trajectory program and its exponents."""

    def __init__(self, program: TrajectoryProgram) -> None:
        super().__init__(program.inputs)
        # Qubits that are used first have the lowest bits: the others are |0> until then.
        order = dict.fromkeys(position for block in program.blocks for position in block.qubits)
        order |= dict.fromkeys(range(len(program.qubits)))
        self._bit = {position: bit for bit, position in enumerate(order)}
        blocks = [word for block in program.blocks for word in self._write_block(block)]
        sampling = self._sampling(program.sampling, program.keys)
        self._list_exponents()
        groups, weights = pauli_groups(program.terms, self._bit)
        self._ints = [
            *(FORMAT, max(1, len(program.qubits)), len(self.shared), len(self.per_example)),
            *(program.readouts, program.trajectories, *sampling),
            *(*self._gates.ints(), len(self._channels), *self._channel_ints),
            *(len(program.blocks), *blocks, *groups),
        ]
        self._reals = [*self._gates.reals, *self._channel_reals, *weights, *program.terms.offsets]

    def _write_block(self, block: TrajectoryBlock) -> list[int]:
        ints = [len(block.qubits), *(self._bit[position] for position in block.qubits)]
        ints.append(len(block.items))
        for item in block.items:
            if isinstance(item, NoiseChannel):
                ints += self._write_channel(item, block.qubits)
            else:
                ints += self._unitary(item, block.qubits)
        return ints

    def _write_channel(self, channel: NoiseChannel, block: tuple[int, ...]) -> list[int]:
        qubits, kraus = len(channel.qubits), kraus_on_block(channel, block)
        known = channel.probabilities
        header = [qubits, len(kraus), int(known is not None)]
        parts = np.stack([kraus.real, kraus.imag], axis=-1).ravel().tolist()
        number = self._channel(header, [*([] if known is None else known), *parts])
        place = block.index(channel.qubits[0]) if qubits < len(block) else 0
        return [number, qubits, place]
