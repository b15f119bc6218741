"""Coupled transmons: frequencies, couplings and decay, in the frame of their drives."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import flag, instance, integer, items, number, optional
from qfleet.engine.arguments import checked_values
from qfleet.errors import ArgumentError
from qfleet.pulses.channels import ControlChannel, require_qubits
from qfleet.pulses.hamiltonian import ControlHamiltonian, HamiltonianParts, embedded, lowering

CHANNELS = ("in_phase", "quadrature", "detuning", "coupler")
TURN = 2 * math.pi
MAX_LEVELS = 8
"""Most levels of a transmon; a deep one has about as many below the top of its potential."""


@dataclass(frozen=True)
class Transmon:
    """A transmon as an anharmonic oscillator of a few levels.

    Attributes:
        frequency: Between the lowest two levels, in GHz.
        anharmonicity: Frequency between the levels 1 and 2, less `frequency`, in GHz; mostly
            negative. It has no effect with two levels.
        levels: 2, or 3 and more for leakage, up to MAX_LEVELS.
        drive_frequency: Of the drive and of the rotating frame, in GHz; `frequency` unless given.
        drive_strength: Real amplitude of a drive, divided by that of the pulse: 1.01 for a drive
            that is 1 % too strong.
        t1: Relaxation time in ns; none unless given.
        t2: Coherence time in ns, at most 2 T1; 2 T1 unless given.

    Raises:
        ArgumentError: A number is out of range.
    """

    frequency: float
    anharmonicity: float = 0.0
    levels: int = 2
    drive_frequency: float | None = None
    drive_strength: float = 1.0
    t1: float | None = None
    t2: float | None = None

    def __post_init__(self) -> None:
        integer(2, MAX_LEVELS)(self.levels, "levels")
        in_ghz("frequency", self.frequency, 1e-3, 100, "5.0")
        optional(lambda value, name: in_ghz(name, value, 1e-3, 100, "5.0"))(
            self.drive_frequency, "drive_frequency"
        )
        in_ghz("anharmonicity", self.anharmonicity, -10, 10, "-0.3")
        if self.levels > 2 and not self.anharmonicity:
            raise ArgumentError(
                f"anharmonicity is 0 with {self.levels} levels: pass it in GHz, such as -0.3, or"
                " levels=2"
            )
        if not 0 < number(self.drive_strength, "drive_strength") <= 100:
            raise ArgumentError(
                f"drive_strength is {self.drive_strength}: pass a ratio near 1, above 0"
            )
        for name in ("t1", "t2"):
            time = getattr(self, name)
            if time is not None and not 1 <= number(time, name) <= 1e12:
                raise ArgumentError(f"{name} is {time:g}: pass ns, such as 50_000 for 50 us")
        if self.t1 is not None and self.t2 is not None and self.t2 > 2 * self.t1:
            raise ArgumentError(
                f"t2 is {self.t2:g} ns, more than twice t1, {self.t1:g} ns: pass at most"
                f" {2 * self.t1:g} ns"
            )

    @property
    def frame(self) -> float:
        """Frequency of the rotating frame in GHz."""
        return self.frequency if self.drive_frequency is None else self.drive_frequency

    @property
    def collapse_operators(self) -> list[np.ndarray]:
        """The operators of T1 and T2 on its levels; see `Transmons.collapse_operators`."""
        found = []
        relaxation = 0.0 if self.t1 is None else 1 / self.t1
        dephasing = 0.0 if self.t2 is None else 1 / self.t2 - relaxation / 2
        if relaxation:
            found.append(relaxation**0.5 * lowering(self.levels))
        if dephasing > 1e-18:
            count = np.diag(np.arange(self.levels, dtype=np.complex128))
            found.append((2 * dephasing) ** 0.5 * count)
        return found


@dataclass(frozen=True)
class Coupling:
    """A coupling of two transmons.

    Attributes:
        first: Number of a qubit.
        second: Number of another one.
        exchange: g/2pi of g (a^dagger b + a b^dagger), in GHz.
        zz: Frequency of |11> less those of |01> and |10>, in GHz.

    Raises:
        ArgumentError: The qubits are the same, or a number is out of range.
    """

    first: int
    second: int
    exchange: float = 0.0
    zz: float = 0.0

    def __post_init__(self) -> None:
        for name in ("first", "second"):
            integer(0)(getattr(self, name), name)
        if self.first == self.second:
            raise ArgumentError(f"a coupling joins the qubit {self.first} and itself: pass two")
        in_ghz("exchange", self.exchange, -10, 10, "0.005")
        in_ghz("zz", self.zz, -10, 10, "0.0001")


@dataclass(frozen=True)
class Transmons:
    """Coupled transmons, in the frame that rotates at each qubit's drive frequency.

    The Hamiltonian is that of Duffing oscillators with exchange couplings (Krantz et al. 2019,
    arXiv:1904.06560). At time 0 all frames agree with the laboratory's.

    Args:
        qubits: The transmons; at most 3 of 3 levels are one block.
        couplings: Their couplings.
        rotating_wave: Leave out the terms that rotate at sums of frequencies. Without it, the
            Hamiltonian changes within a sample, and more steps are needed.

    Raises:
        ArgumentError: A coupling joins a qubit that does not exist, or two join the same pair.
    """

    qubits: tuple[Transmon, ...]
    couplings: tuple[Coupling, ...] = ()
    rotating_wave: bool = True

    def __post_init__(self) -> None:
        qubits = items(instance(Transmon, "a Transmon"), "a sequence of Transmon")
        object.__setattr__(self, "qubits", qubits(self.qubits, "qubits"))
        couplings = items(instance(Coupling, "a Coupling"), "a sequence of Coupling")
        object.__setattr__(self, "couplings", couplings(self.couplings, "couplings"))
        flag(self.rotating_wave, "rotating_wave")
        if not self.qubits:
            raise ArgumentError("qubits is empty: pass at least one Transmon")
        seen = set()
        for at, one in enumerate(self.couplings):
            if max(one.first, one.second) >= len(self.qubits):
                raise ArgumentError(
                    f"couplings[{at}] joins the qubits {one.first} and {one.second}: the last"
                    f" qubit of the device is {len(self.qubits) - 1}"
                )
            if (pair := frozenset((one.first, one.second))) in seen:
                raise ArgumentError(
                    f"couplings[{at}] joins the qubits {one.first} and {one.second} again: pass"
                    " one Coupling per pair"
                )
            seen.add(pair)

    @property
    def levels(self) -> tuple[int, ...]:
        """Levels of each qubit."""
        return tuple(one.levels for one in self.qubits)

    def perturbed(
        self, *, frequency: ArrayLike = (0.0,), drive_strength: ArrayLike = (1.0,)
    ) -> list["Transmons"]:
        """Return devices for robust control: all combinations of deviations.

        All qubits deviate in the same way. Drives and frames keep their frequencies.

        Args:
            frequency: [F] deviations of the qubits' frequencies, in GHz.
            drive_strength: [A] factors of the drives' strengths.

        Returns:
            F * A devices, the drive strength fastest.
        """
        shifts = checked_values(frequency, ("F",), "frequency", because="it is a list")
        factors = checked_values(drive_strength, ("A",), "drive_strength", because="it is a list")
        return [
            replace(
                self,
                qubits=tuple(
                    replace(
                        one,
                        frequency=one.frequency + shift,
                        drive_frequency=one.frame,
                        drive_strength=one.drive_strength * factor,
                    )
                    for one in self.qubits
                ),
            )
            for shift, factor in product(shifts.tolist(), factors.tolist())
        ]

    def hamiltonian(self, channels: Sequence[ControlChannel]) -> ControlHamiltonian:
        """Return the Hamiltonian in the rotating frame, in rad/ns.

        Args:
            channels: The controls.

        Raises:
            ArgumentError: The device does not have a channel, or has more than 27 levels.
        """
        require_qubits(channels, len(self.qubits), CHANNELS)
        parts = HamiltonianParts(self.levels, len(channels))
        for at, one in enumerate(self.qubits):
            count = parts.number(at)
            parts.static += TURN * (one.frequency - one.frame) * count
            parts.static += TURN * one.anharmonicity / 2 * (count @ count - count)
        for pair in self.couplings:
            self._add_exchange(parts, pair.first, pair.second, None, TURN * pair.exchange)
            parts.static += TURN * pair.zz * parts.number(pair.first) @ parts.number(pair.second)
        for at, channel in enumerate(channels):
            if channel.kind == "coupler":
                first, second = channel.qubits
                self._add_exchange(parts, first, second, at, 1.0)
                continue
            for qubit in channel.qubits:
                if channel.kind == "detuning":
                    parts.add(f"n{qubit}", parts.number(qubit), at, weight=-1)
                else:
                    self._add_drive(parts, qubit, at, channel.kind == "quadrature")
        return parts.build()

    def collapse_operators(self) -> list[np.ndarray]:
        """Return sqrt(1/T1) a and sqrt(2/Tphi) n of each qubit, with 1/Tphi = 1/T2 - 1/(2 T1)."""
        return [
            embedded(operator, at, self.levels)
            for at, one in enumerate(self.qubits)
            for operator in one.collapse_operators
        ]

    def _add_drive(
        self, parts: HamiltonianParts, qubit: int, channel: int, quadrature: bool
    ) -> None:
        """Add u cos(w t) (a + a^dagger) of the laboratory, or u sin(w t) of it."""
        one = self.qubits[qubit]
        lower = parts.lowering(qubit)
        x = f"x{qubit}", one.drive_strength * (lower + lower.T)
        y = f"y{qubit}", one.drive_strength * 1j * (lower.T - lower)
        own, other = (y, x) if quadrature else (x, y)
        parts.add(*own, channel, weight=0.5)
        if not self.rotating_wave:
            twice = 2 * TURN * one.frame
            sign = -0.5 if quadrature else 0.5
            parts.add(*own, channel, twice, 0.0, sign)
            parts.add(*other, channel, twice, -math.pi / 2, 0.5)

    def _add_exchange(
        self, parts: HamiltonianParts, first: int, second: int, channel: int | None, weight: float
    ) -> None:
        """Add weight (a + a^dagger) (b + b^dagger), or its part in the rotating wave."""
        if not weight:
            return
        a, b = parts.lowering(first), parts.lowering(second)
        frames = [self.qubits[at].frame for at in (first, second)]
        pairs = [("exchange", a.T @ b, frames[0] - frames[1])]
        if not self.rotating_wave:
            pairs.append(("pairs", a.T @ b.T, frames[0] + frames[1]))
        for kind, matrix, difference in pairs:
            frequency = TURN * difference
            name = f"{kind} {min(first, second)} {max(first, second)}"
            sign = 1 if first < second or kind == "pairs" else -1
            parts.add(name, matrix + matrix.T, channel, frequency, 0.0, weight)
            if frequency:
                shifted = 1j * sign * (matrix - matrix.T)
                parts.add(f"{name} i", shifted, channel, frequency, -math.pi / 2, weight * sign)


def in_ghz(name: str, value: object, low: float, high: float, example: str) -> None:
    """Check a frequency in GHz.

    Args:
        name: Of the argument.
        value: Its value.
        low: Its least value.
        high: Its largest value.
        example: A value, for the message.

    Raises:
        ArgumentError: It is out of range, such as a frequency in Hz.
    """
    found = number(value, name)
    if not low <= found <= high:
        unit = " Hz" if abs(found) >= 1e6 else ""
        raise ArgumentError(
            f"{name} is {found:g}{unit and ', which looks like' + unit}: pass GHz from {low:g} to"
            f" {high:g}, such as {example}"
        )
