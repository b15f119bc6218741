"""Populations of levels while a pulse lasts, the limit of decay, and amplitudes as a table."""

import csv
import io
import math

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import instance, number
from qfleet.devices.noise import relaxation_fidelity
from qfleet.errors import ArgumentError
from qfleet.pulses.fidelity import computational_places
from qfleet.pulses.propagator import Propagator
from qfleet.pulses.pulse_gate import PulseGate
from qfleet.pulses.transmons import Transmons

_MICROSECONDS = 1e-3  # in a nanosecond


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
    instance(Propagator, "a Propagator")(propagator, "propagator")
    if propagator.decay or propagator.count > 1:
        raise ArgumentError("the propagator has decay or several devices: pass one device without")
    states = np.eye(propagator.dimension)[computational_places(propagator.levels)]
    found = [states]
    for unitary in propagator.samples(amplitudes):
        states = states @ unitary.T
        found.append(np.abs(states) ** 2)
    return np.stack(found)


def decay_limit(device: Transmons, duration: float) -> float:
    """Return the average gate fidelity that T1 and T2 leave to a perfect gate.

    It is that of waiting: F = (d f + 1) / (d + 1), with f the product over qubits of
    (1 + exp(-t/T1) + 2 exp(-t/T2)) / 4 (Nielsen 2002, arXiv:quant-ph/0205035). The infidelity of a
    gate of the same duration t is the same to first order in t/T1, since its mean over all states
    does not depend on how the gate turns them. Higher levels decay faster.

    Args:
        device: The device.
        duration: t in ns.

    Raises:
        ArgumentError: An argument has the wrong type, or `duration` is not above 0.
    """
    instance(Transmons, "Transmons")(device, "device")
    if number(duration, "duration") <= 0:
        raise ArgumentError(f"duration is {duration:g} ns: pass a time above 0")
    size = 1 << len(device.qubits)
    kept = 1.0
    for one in device.qubits:
        t1 = one.t1 or math.inf
        kept *= relaxation_fidelity(
            duration, t1 * _MICROSECONDS, (one.t2 or 2 * t1) * _MICROSECONDS
        )
    return (size * kept + 1) / (size + 1)


def amplitude_table(gate: PulseGate) -> str:
    """Return the amplitudes of a gate as CSV: the middle of each sample in ns, and rad/ns.

    Args:
        gate: A gate without symbols.

    Raises:
        ArgumentError: The gate has symbols.
    """
    instance(PulseGate, "a PulseGate")(gate, "gate")
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
