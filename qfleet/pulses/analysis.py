"""Populations of levels while a pulse lasts, and its amplitudes as a table."""

import csv
import io

import numpy as np
from numpy.typing import ArrayLike

from qfleet.errors import ArgumentError
from qfleet.pulses.fidelity import computational_places
from qfleet.pulses.propagator import Propagator
from qfleet.pulses.pulse_gate import PulseGate


def populations(propagator: Propagator, amplitudes: ArrayLike) -> np.ndarray:
    """Return the populations of all levels after each sample, from each computational state.

    Args:
        propagator: Of one device without decay.
        amplitudes: [N, C] in rad/ns.

    Returns:
        [N + 1, 2^n, D] probabilities: at the start and after each sample, of each state of the
        levels 0 and 1 at the start, the first qubit leftmost.

    Raises:
        ArgumentError: The propagator has several devices or decay, or as for its call.
    """
    if propagator.decay or propagator.count > 1:
        raise ArgumentError("the propagator has decay or several devices: pass one device without")
    states = np.eye(propagator.dimension)[computational_places(propagator.levels)]
    found = [states]
    for unitary in propagator.samples(amplitudes):
        states = states @ unitary.T
        found.append(np.abs(states) ** 2)
    return np.stack(found)


def amplitude_table(gate: PulseGate) -> str:
    """Return the amplitudes of a gate as CSV: the middle of each sample in ns, and rad/ns.

    Args:
        gate: A gate without symbols.

    Raises:
        ArgumentError: The gate has symbols.
    """
    amplitudes, grid = gate.amplitudes, gate.propagator.grid
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    channels = gate.propagator.channels
    names = [f"{one.kind}_{'_'.join(map(str, one.qubits))}" for one in channels]
    writer.writerow(["time_ns", *names])
    writer.writerows(
        [time, *row] for time, row in zip(grid.times.tolist(), amplitudes.tolist(), strict=True)
    )
    return text.getvalue()
