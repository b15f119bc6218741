"""Programs that average over quantum trajectories: circuits with noise channels, or shots."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cirq
import numpy as np

from qfleet.compiler.any_program import Item, SerializedProgram
from qfleet.compiler.circuit.channel import NoiseChannel, kraus_on_block
from qfleet.compiler.circuit.observables import collect
from qfleet.compiler.circuit.sampling import DEFAULT_TRAJECTORIES, EXACT
from qfleet.compiler.noisy.noisy_blocks import NoisyBlock, NoisyProgram, Unitary
from qfleet.compiler.noisy.noisy_writer import NoisyWriter
from qfleet.compiler.state.program_writer import pauli_groups
from qfleet.errors import CircuitError

if TYPE_CHECKING:
    from qfleet.engine.machine import Machine

TREE_TRAJECTORIES = 16
"""Trajectories that share a state until they differ (native/noisy/trajectory_engine.cc)."""

_MAX_TREE_BYTES = 256 << 20  # of one state per trajectory (native/noisy/trajectory_engine.cc)
_COPIES = 2  # of states, where operators have no inverse (native/noisy/trajectory_engine.h)


@dataclass(frozen=True)
class TrajectoryProgram(NoisyProgram[NoiseChannel]):
    """A circuit with noise, shots or measurements, compiled.

    Attributes:
        is_measured: If it is run for its measurements, and has no readouts.
    """

    is_measured: bool = False

    method = "trajectories"
    kind = "trajectories"
    hessian_advice = "remove the noise and the shots"
    max_qubits = 32  # kMaxTrajectoryQubits in native/noisy/noisy_program.cc
    advice = "measure fewer qubits, or use fewer layers"
    memory_advice = "use fewer qubits, fewer threads or a machine with more memory"
    memory_unit = "thread"

    @staticmethod
    def _channels(
        items: Sequence[Unitary | NoiseChannel], block: tuple[int, ...]
    ) -> tuple[Unitary | NoiseChannel, ...]:
        return tuple(items)

    def serialized(self, dtype: str) -> SerializedProgram:
        """Return the program in the form that the engine takes; see `AnyProgram`."""
        writer = _TrajectoryWriter(self)
        has_states = self.takes_states or self.is_measured
        return writer.program(writer.bit_order if has_states else [])

    @property
    def trajectories(self) -> int:
        """Trajectories of each example; one for a circuit without noise."""
        if not any(block.channels for block in self.blocks):
            return 1
        return self.sampling.trajectories or DEFAULT_TRAJECTORIES

    @property
    def depends_on_state(self) -> bool:
        """True if a channel has operators whose probabilities depend on the state."""
        channels = (channel for block in self.blocks for channel in block.channels)
        return any(one.probabilities is None for one in channels)

    @property
    def operations(self) -> int:
        """Real multiplications of a forward pass, per example: estimated, as paths are random."""
        each = min(self.trajectories, TREE_TRAJECTORIES)
        dominant, states = 1.0, 0.0
        for block in self.blocks:
            dominant *= _dominant_probability(block)
            states += min(each, each * (1 - dominant) + 1) * 4 * 2 ** len(block.qubits)
        return int(states * 2 ** len(self.qubits) * self.trajectories / each)

    @property
    def samples(self) -> str:
        """A description of the numbers of samples."""
        shots = f", {self.sampling.shots:,} shots" if self.sampling.shots else ""
        return f"{self.trajectories:,} trajectories{shots}, about "

    def example_bytes(self, real_bytes: int, states: int = 2) -> int:
        """Return the bytes of the states of open branches, and copies; see `NoisyProgram`."""
        size, together = self._tree(real_bytes)
        copies = _COPIES if states > 1 and self.depends_on_state else 0
        return together.bit_length() * (states + copies) * size

    def threads(self, machine: "Machine") -> int:
        """Return the threads that have states of their own."""
        return min(machine.threads, -(-self.trajectories // self._tree(machine.real_bytes)[1]))

    def batch_work(self, threads: int) -> list[float]:
        """Return the work of up to one example per thread; see `ProgramCost`."""
        trees = -(-self.trajectories // TREE_TRAJECTORIES)  # evolved at a time
        return [-(-count * trees // threads) / trees for count in range(1, threads + 1)]

    def _tree(self, real_bytes: int) -> tuple[int, int]:
        """Return the bytes of a state, and the trajectories that share states."""
        size = 2 * real_bytes << len(self.qubits)
        return size, min(self.trajectories, TREE_TRAJECTORIES, max(1, _MAX_TREE_BYTES // size))


def compile_measurements(
    items: Sequence[Item], qubits: Sequence[cirq.Qid], *, takes_states: bool = False
) -> TrajectoryProgram:
    """Compile a circuit that is run for its measurements.

    Args:
        items: Fixed factors and channels, with the measurements before the end.
        qubits: All qubits, in order; they are measured at the end.
        takes_states: If runs start at a given state, not at |0...0>.

    Raises:
        CircuitError: There are too many qubits.
    """
    kind = TrajectoryProgram
    if len(qubits) > kind.max_qubits:
        raise CircuitError(
            f"{kind.kind} have at most {kind.max_qubits} qubits, not {len(qubits)}: {kind.advice}"
        )
    position = {qubit: at for at, qubit in enumerate(qubits)}
    placed = [item.on(tuple(position[q] for q in item.qubits)) for item in items if item.qubits]
    counts = len(items), len(placed)
    return kind(
        *((), (), tuple(qubits), counts, collect([], position), EXACT, ()),
        kind.blocks_of(placed),
        is_measured=True,
        takes_states=takes_states,
    )


class _TrajectoryWriter(NoisyWriter[NoiseChannel]):
    """A serialized trajectory program and its exponents."""

    format = 6

    def __init__(self, program: TrajectoryProgram) -> None:
        # Qubits that are used first have the lowest bits: the others are |0> until then.
        order = dict.fromkeys(position for block in program.blocks for position in block.qubits)
        order |= dict.fromkeys(range(len(program.qubits)))
        self._trajectories = program.trajectories
        super().__init__(program, order, program.keys)

    def _channel_words(self, channel: NoiseChannel, block: tuple[int, ...]) -> list[int]:
        qubits, kraus = len(channel.qubits), kraus_on_block(channel, block)
        known = channel.probabilities
        header = [qubits, len(kraus), int(known is not None)]
        parts = np.stack([kraus.real, kraus.imag], axis=-1).ravel().tolist()
        number = self._channel(header, [*([] if known is None else known), *parts])
        place = block.index(channel.qubits[0]) if qubits < len(block) else 0
        records, acts = channel.condition.records, channel.condition.acts
        return [number, qubits, place, channel.record, len(records), *records, *map(int, acts)]

    def _readouts(self, program: NoisyProgram[NoiseChannel]) -> tuple[list[int], Iterable[float]]:
        groups, weights = pauli_groups(program.terms, self._place)
        return [self._trajectories, *groups], weights


def _dominant_probability(block: NoisyBlock[NoiseChannel]) -> float:
    """Return the probability that a trajectory draws the likeliest operator of each channel."""
    return float(np.prod([_likeliest(channel) for channel in block.channels]))


def _likeliest(channel: NoiseChannel) -> float:
    """Return the largest probability of an operator, of the mixed state if it depends on it."""
    if channel.probabilities is not None:
        return float(channel.probabilities.max())
    squares = np.einsum("kij,kij->k", channel.kraus.conj(), channel.kraus).real
    return float(squares.max() / channel.kraus.shape[-1])
