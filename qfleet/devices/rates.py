"""The calibrated numbers of a qubit and of a pair. Imports no package."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self

from qfleet.argument_checks import instance, shown
from qfleet.errors import NoiseError
from qfleet.noise_rates import MAX_ANGLE, MAX_READOUT_ERROR

MAX_TIME = 1e9

OF_PULSES = ("frequency", "anharmonicity", "drive_strength", "exchange", "zz")
"""Numbers that pulses need, and noise does not: the text of a calibration leaves them out."""

Values = Mapping[str, object]

VALUES = instance(Mapping, "a mapping of names to values")
"""Check of an argument that has values by name; see `qfleet.argument_checks`."""


@dataclass(frozen=True)
class Rates:
    """Base of the numbers of a qubit or a pair, which all have a default."""

    def __post_init__(self) -> None:
        for one in fields(self):
            low, most = _BOUNDS[one.name]
            value = getattr(self, one.name)
            try:
                found = math.nan if isinstance(value, str | bytes | bool) else float(value)
            except (TypeError, ValueError, OverflowError):
                found = math.nan
            if not low <= found <= most:
                text = shown(value) if math.isnan(found) else f"{found:.15g}"
                raise NoiseError(
                    f"{one.name} {text} is out of range: use a number from {low:g} to {most:g}"
                    f"{_UNITS.get(one.name, '')}"
                )

    @classmethod
    def from_values(cls, values: Values) -> Self:
        """Read numbers or their texts, by name.

        Raises:
            NoiseError: A name is unknown, or a value is not a number, or out of range.
            ArgumentError: `values` is not a mapping.
        """
        VALUES(values, "values")
        known = [one.name for one in fields(cls)]
        numbers: dict[str, float] = {}
        for name, value in values.items():
            if name not in known:
                raise NoiseError(f"{str(name)[:40]} is unknown: use {', '.join(known)}")
            try:
                numbers[name] = float(value)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                raise NoiseError(f"{name} is not a number: {str(value)[:40]}") from None
        return cls(**numbers)

    def values(self) -> dict[str, float]:
        """Return the numbers that are not the default, by name."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {one.name: found[one.name] for one in fields(self) if found[one.name] != one.default}


@dataclass(frozen=True)
class QubitCalibration(Rates):
    """A qubit.

    Attributes:
        t1: Relaxation time in microseconds.
        t2: Coherence time in microseconds; at most 2 `t1` counts.
        error: Average infidelity of a pulse.
        duration: Time of a pulse in nanoseconds.
        p01: Probability to read 1 for |0>.
        p10: Probability to read 0 for |1>.
        over_rotation: Coherent error: excess of each pulse in radians.
        frequency: Between the lowest two levels, in GHz; 0 if unknown.
        anharmonicity: Frequency between the levels 1 and 2, less `frequency`, in GHz; 0 if unknown.
        drive_strength: Real amplitude of a drive, divided by that of the pulse.
    """

    t1: float = math.inf
    t2: float = math.inf
    error: float = 0.0
    duration: float = 0.0
    p01: float = 0.0
    p10: float = 0.0
    over_rotation: float = 0.0
    frequency: float = 0.0
    anharmonicity: float = 0.0
    drive_strength: float = 1.0


@dataclass(frozen=True)
class PairCalibration(Rates):
    """Two qubits with a two-qubit gate.

    Attributes:
        error: Average infidelity of the gate.
        duration: Time of the gate in nanoseconds.
        crosstalk: Coherent error: angle in radians of exp(-i angle / 2 Z Z) after each gate.
        exchange: g/2pi of the coupling g (a^dagger b + a b^dagger), in GHz; 0 if unknown.
        zz: Frequency of |11> less those of |01> and |10>, in GHz.
    """

    error: float = 0.0
    duration: float = 0.0
    crosstalk: float = 0.0
    exchange: float = 0.0
    zz: float = 0.0


_BOUNDS = {
    "t1": (1e-6, math.inf),
    "t2": (1e-6, math.inf),
    "error": (0.0, 1.0),
    "duration": (0.0, MAX_TIME),
    "p01": (0.0, MAX_READOUT_ERROR),
    "p10": (0.0, MAX_READOUT_ERROR),
    "over_rotation": (-MAX_ANGLE, MAX_ANGLE),
    "crosstalk": (-MAX_ANGLE, MAX_ANGLE),
    "frequency": (0.0, 100.0),
    "anharmonicity": (-10.0, 10.0),
    "drive_strength": (1e-3, 100.0),
    "exchange": (-10.0, 10.0),
    "zz": (-10.0, 10.0),
}
_UNITS = {
    **dict.fromkeys(("t1", "t2"), " microseconds"),
    "duration": " ns",
    **dict.fromkeys(("over_rotation", "crosstalk"), " radians"),
    **dict.fromkeys(("frequency", "anharmonicity", "exchange", "zz"), " GHz"),
}


def names_of(kind: type[Rates], *, pulses: bool) -> list[str]:
    """Return the names of the numbers in a text, in order."""
    names = [one.name for one in fields(kind)]
    return [name for name in names if pulses or name not in OF_PULSES]


def numbers_text(rates: Rates, pulses: bool) -> str:
    """Return the numbers in the order of `names_of`, with commas; those of a default are empty."""
    found = rates.values()
    names = names_of(type(rates), pulses=pulses)
    while names and names[-1] not in found:
        names.pop()
    digits = {name: 10 if name in OF_PULSES else 4 for name in names}
    return ",".join(f"{found[name]:.{digits[name]}g}" if name in found else "" for name in names)
