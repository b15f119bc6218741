"""The division of a device of many qubits: blocks, and couplings between them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from qfleet.errors import ArgumentError
from qfleet.pulses.channels import ControlChannel
from qfleet.pulses.grid import Grid
from qfleet.pulses.hamiltonian import lowering
from qfleet.pulses.propagator import Propagator
from qfleet.pulses.split_native import SplitOperation
from qfleet.pulses.transmons import TURN, Coupling, Transmons


@dataclass(frozen=True)
class SplitBlock:
    """Neighbouring qubits whose Hamiltonian is exponentiated as one matrix.

    Attributes:
        propagator: Of these qubits.
        columns: Numbers of their channels; empty if they have none.
    """

    propagator: Propagator
    columns: list[int]


def block_members(levels: Sequence[int], most: int) -> list[range]:
    """Return the qubits of each block.

    Args:
        levels: Levels of each qubit.
        most: Largest product of the levels of a block.
    """
    found = [0]
    for at in range(1, len(levels)):
        if np.prod(levels[found[-1] : at + 1]) > most:
            found.append(at)
    return [range(*pair) for pair in zip(found, [*found[1:], len(levels)], strict=True)]


def split_blocks(
    device: Transmons, channels: Sequence[ControlChannel], grid: Grid, members: Sequence[range]
) -> list[SplitBlock]:
    """Return the blocks of a device.

    Args:
        device: The qubits.
        channels: The controls.
        grid: The steps.
        members: The qubits of each block.

    Raises:
        ArgumentError: A channel acts on two blocks.
    """
    found = []
    placed = set()
    for part in members:
        columns = [at for at, one in enumerate(channels) if {*one.qubits} <= {*part}]
        placed |= {*columns}
        inner = tuple(
            replace(one, first=one.first - part.start, second=one.second - part.start)
            for one in device.couplings
            if {one.first, one.second} <= {*part}
        )
        own = tuple(
            replace(one, qubits=tuple(qubit - part.start for qubit in one.qubits))
            for one in (channels[at] for at in columns)
        ) or (ControlChannel("detuning", (0,)),)
        cut = Transmons(device.qubits[part.start : part.stop], inner)
        found.append(SplitBlock(Propagator(cut, own, grid, order=4), columns))
    for at, one in enumerate(channels):
        if at not in placed:
            raise ArgumentError(
                f"channels[{at}] acts on the qubits {one.qubits} of different blocks:"
                f" {', '.join(f'{m.start} to {m.stop - 1}' for m in members)}; order the"
                " qubits so that one block has them, or pass a channel for each"
            )
    return found


def links(device: Transmons, members: Sequence[range], dt: float) -> list[SplitOperation]:
    """Return the couplings between blocks, for half a step.

    Args:
        device: The qubits.
        members: The qubits of each block.
        dt: The step in ns.
    """
    block_of = {qubit: at for at, one in enumerate(members) for qubit in one}
    return [
        _half(device, one, dt)
        for one in device.couplings
        if block_of[one.first] != block_of[one.second]
    ]


def _half(device: Transmons, coupling: Coupling, dt: float) -> SplitOperation:
    first, second = (device.qubits[at] for at in (coupling.first, coupling.second))
    a, b = lowering(first.levels), lowering(second.levels)
    exchange = np.kron(a.T, b)
    counts = np.kron(a.T @ a, b.T @ b)
    energy = TURN * (coupling.exchange * (exchange + exchange.T) + coupling.zz * counts)
    excitations = np.add.outer(np.arange(first.levels), np.arange(second.levels)).ravel()
    half = np.zeros_like(energy)
    for count in range(excitations.max() + 1):  # which the coupling keeps
        rows = np.ix_(*2 * (np.flatnonzero(excitations == count),))
        values, vectors = np.linalg.eigh(energy[rows])
        half[rows] = (vectors * np.exp(-0.5j * dt * values)) @ vectors.conj().T
    turn = TURN * (first.frame - second.frame) * dt  # of a^dagger b
    return SplitOperation((coupling.first, coupling.second), half, turn)
