"""Neutral atoms in optical tweezers: a ground and a Rydberg state, driven by lasers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from qfleet.argument_checks import items, number
from qfleet.errors import ArgumentError
from qfleet.pulses.channels import ControlChannel, require_qubits
from qfleet.pulses.hamiltonian import ControlHamiltonian, HamiltonianParts

CHANNELS = ("in_phase", "quadrature", "detuning")
RUBIDIUM_70S = 862.69
"""C6/2pi of the state 70S of rubidium in GHz um^6 (Pulser, arXiv:2104.15044)."""

_MIN_DISTANCE = 0.5  # um: closer atoms do not have this interaction


@dataclass(frozen=True)
class Atoms:
    """Two-level atoms with van der Waals interaction, in the frame of their lasers.

        H = sum_i (Omega_I X_i + Omega_Q Y_i) / 2 - Delta_i n_i + sum_(i<j) C6 / r_ij^6 n_i n_j

    (Henriet et al. 2020, arXiv:2006.12326). The amplitudes of the channels are Omega_I,
    Omega_Q and Delta. A channel of several qubits is a laser on all of them.

    Args:
        positions: (x, y) of each atom in um; at most 4 atoms are a block.
        c6: C6/2pi in GHz um^6.

    Raises:
        ArgumentError: Atoms are too close to each other, or `c6` is not in GHz um^6.
    """

    positions: tuple[tuple[float, float], ...]
    c6: float = RUBIDIUM_70S

    def __post_init__(self) -> None:
        pairs = items(items(number, "(x, y) in um"), "a sequence of (x, y) in um")
        positions = pairs(self.positions, "positions")
        object.__setattr__(self, "positions", positions)
        if not positions or any(len(one) != 2 for one in positions):
            raise ArgumentError("positions must have (x, y) in um of at least one atom")
        if not 0 <= number(self.c6, "c6") <= 1e6:
            raise ArgumentError(f"c6 is {self.c6:g}: pass C6/2pi in GHz um^6, such as 862.69")
        for first, second in combinations(range(len(positions)), 2):
            distance = math.dist(positions[first], positions[second])
            if distance < _MIN_DISTANCE:
                raise ArgumentError(
                    f"the atoms {first} and {second} are {distance:g} um apart: pass um, at least"
                    f" {_MIN_DISTANCE}"
                )

    @property
    def levels(self) -> tuple[int, ...]:
        """Levels of each atom: 2."""
        return (2,) * len(self.positions)

    def hamiltonian(self, channels: Sequence[ControlChannel]) -> ControlHamiltonian:
        """Return the Hamiltonian in the rotating frame, in rad/ns.

        Args:
            channels: The controls.

        Raises:
            ArgumentError: Atoms do not have a channel.
        """
        require_qubits(channels, len(self.positions), CHANNELS)
        parts = HamiltonianParts(self.levels, len(channels))
        for first, second in combinations(range(len(self.positions)), 2):
            distance = math.dist(self.positions[first], self.positions[second])
            energy = 2 * math.pi * self.c6 / distance**6
            parts.static += energy * parts.number(first) @ parts.number(second)
        for at, channel in enumerate(channels):
            for qubit in channel.qubits:
                lower = parts.lowering(qubit)
                if channel.kind == "detuning":
                    parts.add(f"n{qubit}", parts.number(qubit), at, weight=-1)
                elif channel.kind == "in_phase":
                    parts.add(f"x{qubit}", lower + lower.T, at, weight=0.5)
                else:
                    parts.add(f"y{qubit}", 1j * (lower.T - lower), at, weight=0.5)
        return parts.build()

    def collapse_operators(self) -> list[np.ndarray]:
        """Return no operators: pulses of less than a microsecond are short."""
        return []
