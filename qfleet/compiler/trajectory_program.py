"""Programs that average over quantum trajectories: circuits with noise channels."""

from collections.abc import Sequence
from dataclasses import dataclass

import cirq
import numpy as np

from qfleet.compiler.channel import NoiseChannel
from qfleet.compiler.factor import Factor
from qfleet.compiler.noisy_blocks import Item, NoisyProgram, join_blocks, merge_factors
from qfleet.compiler.sampling import DEFAULT_TRAJECTORIES, Sampling
from qfleet.errors import CircuitError

MAX_TRAJECTORY_QUBITS = 32
"""Widest states (kMaxTrajectoryQubits in native/noisy/trajectory_program.cc)."""

TREE_TRAJECTORIES = 16
"""Trajectories that share a state until they differ (native/noisy/trajectory_engine.cc)."""


@dataclass(frozen=True)
class TrajectoryBlock:
    """Items on one or two qubits, which the engine applies as one matrix per trajectory.

    Attributes:
        qubits: Positions.
        items: Unitaries, each a product of factors on the same qubits, and channels.
    """

    qubits: tuple[int, ...]
    items: tuple[tuple[Factor, ...] | NoiseChannel, ...]

    @property
    def dominant_probability(self) -> float:
        """The probability that a trajectory draws the likeliest operator of each channel."""
        return float(
            np.prod([_likeliest(one) for one in self.items if isinstance(one, NoiseChannel)])
        )


@dataclass(frozen=True)
class TrajectoryProgram(NoisyProgram):
    """A circuit with noise, compiled.

    Attributes:
        blocks: First applied first.
    """

    blocks: tuple[TrajectoryBlock, ...]

    @property
    def trajectories(self) -> int:
        """Trajectories of each example; one for a circuit without noise."""
        if not any(isinstance(item, NoiseChannel) for one in self.blocks for item in one.items):
            return 1
        return self.sampling.trajectories or DEFAULT_TRAJECTORIES

    @property
    def depends_on_state(self) -> bool:
        """True if a channel has operators whose probabilities depend on the state."""
        items = (item for block in self.blocks for item in block.items)
        return any(isinstance(one, NoiseChannel) and one.probabilities is None for one in items)

    @property
    def operations(self) -> int:
        """Real multiplications of a forward pass, per example: estimated, as paths are random."""
        each = min(self.trajectories, TREE_TRAJECTORIES)
        dominant, states = 1.0, 0.0
        for block in self.blocks:
            dominant *= block.dominant_probability
            states += min(each, each * (1 - dominant) + 1) * 4 * 2 ** len(block.qubits)
        return int(states * 2 ** len(self.qubits) * self.trajectories / each)

    def __str__(self) -> str:
        channels = sum(isinstance(item, NoiseChannel) for one in self.blocks for item in one.items)
        shots = f", {self.sampling.shots:,} shots" if self.sampling.shots else ""
        return (
            f"{len(self.qubits)} qubits, {len(self.inputs)} inputs, {len(self.parameters)}"
            f" parameters, {self.readouts} readouts\n{len(self.blocks)} blocks with {channels}"
            f" channels, {self.trajectories:,} trajectories{shots}, about {self.operations:,}"
            " multiplications per example"
        )


def compile_trajectories(
    items: Sequence[Item],
    inputs: Sequence[str],
    parameters: Sequence[str],
    readouts: Sequence[cirq.PauliSum],
    qubits: Sequence[cirq.Qid],
    sampling: Sampling,
) -> TrajectoryProgram:
    """Compile a product of factors and channels.

    Args:
        items: First applied first.
        inputs: Names of the data symbols, in the order of the columns of the angles.
        parameters: Names of the trained symbols, in order.
        readouts: At least one observable.
        qubits: All qubits, in order.
        sampling: Trajectories, shots and their seed.

    Raises:
        CircuitError: The observables depend on too many qubits, or have a complex coefficient.
    """
    program, blocks = join_blocks(items, inputs, parameters, readouts, qubits, sampling)
    if len(program.qubits) > MAX_TRAJECTORY_QUBITS:
        raise CircuitError(
            f"trajectories have at most {MAX_TRAJECTORY_QUBITS} qubits, but the observables depend"
            f" on {len(program.qubits)}: measure fewer qubits, or use fewer layers"
        )
    return TrajectoryProgram(
        **vars(program),
        blocks=tuple(TrajectoryBlock(q, tuple(merge_factors(found, q))) for q, found in blocks),
    )


def _likeliest(channel: NoiseChannel) -> float:
    """Return the largest probability of an operator, of the mixed state if it depends on it."""
    if channel.probabilities is not None:
        return float(channel.probabilities.max())
    squares = np.einsum("kij,kij->k", channel.kraus.conj(), channel.kraus).real
    return float(squares.max() / channel.kraus.shape[-1])
