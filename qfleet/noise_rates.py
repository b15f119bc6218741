"""Rates of noise, written as `depolarizing:0.01,readout:0.02`. Imports no package."""

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields

from qfleet.argument_checks import TEXT, checked, shown
from qfleet.errors import NoiseError

MAX_READOUT_ERROR = 0.5
"""Above, the readout is wrong more often than right."""

MAX_ANGLE = 3.2
"""Largest coherent error in radians."""


@dataclass(frozen=True)
class NoiseRates:
    """Noise after each gate, on each of its qubits, unless stated otherwise.

    Attributes:
        depolarizing: Probability of one of the three Pauli errors.
        two_qubit_depolarizing: Probability of one of the 15 Pauli errors of a pair, after each gate
            on two qubits; these then have no `depolarizing`.
        amplitude_damping: Probability of |1> to decay to |0>.
        phase_damping: Probability of a scattering that measures the qubit.
        bit_flip: Probability of X.
        phase_flip: Probability of Z.
        over_rotation: Angle in radians of a rotation about X, after each gate on one qubit.
        crosstalk: Angle in radians of exp(-i angle / 2 Z Z), after each gate on two qubits.
        readout: Probability to read the other value, for each measured qubit.
    """

    depolarizing: float = 0.0
    two_qubit_depolarizing: float = 0.0
    amplitude_damping: float = 0.0
    phase_damping: float = 0.0
    bit_flip: float = 0.0
    phase_flip: float = 0.0
    over_rotation: float = 0.0
    crosstalk: float = 0.0
    readout: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            low, most = _range(field.name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not low <= value <= most:
                raise NoiseError(
                    f"the rate {_name(field.name)}:{shown(value)} is out of range: use a number"
                    f" from {low:g} to {most:g}"
                )

    @classmethod
    def from_values(cls, values: Mapping[str, object]) -> "NoiseRates":
        """Read rates, or their texts, by the names of the attributes; also with hyphens.

        Raises:
            NoiseError: A name is unknown, or a rate is not a number or out of range.
        """
        known = [field.name for field in fields(cls)]
        rates: dict[str, float] = {}
        for name, value in values.items():
            if name.replace("-", "_") not in known:
                raise _unknown(name, known)
            try:
                rates[name.replace("-", "_")] = float(value)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                raise NoiseError(f"the rate of {name} is not a number: write 0.01") from None
        return cls(**rates)


def format_rates(rates: NoiseRates) -> str:
    """Return the text for `parse_rates`, without rates of 0; `depolarizing:0` for none."""
    found = {field.name: getattr(rates, field.name) for field in fields(NoiseRates)}
    pairs = [f"{_name(name)}:{value!r}" for name, value in found.items() if value]
    return ",".join(pairs) or f"{_name('depolarizing')}:0"


@checked(text=TEXT)
def parse_rates(text: str) -> NoiseRates:
    """Read rates.

    Args:
        text: Pairs such as `depolarizing:0.01`, separated by commas; names have hyphens.

    Raises:
        ArgumentError: `text` is not a text.
        NoiseError: A name is unknown or given twice, or a rate is not a number or out of range.
    """
    known = {_name(field.name): field.name for field in fields(NoiseRates)}
    rates: dict[str, float] = {}
    for pair in text.split(","):
        name, _, number = pair.partition(":")
        if name not in known:
            raise _unknown(name, known)
        if known[name] in rates:
            raise NoiseError(f"the noise {name} is given twice: give each rate once")
        try:
            rates[known[name]] = float(number)
        except ValueError:
            raise NoiseError(
                f"the rate of {pair[:60]!r} is not a number: write {name}:0.01"
            ) from None
    return NoiseRates(**rates)


def _unknown(name: str, known: Collection[str]) -> NoiseError:
    near = difflib.get_close_matches(name[:40], known, n=1)
    hint = f": did you mean {near[0]}?" if near else ""
    return NoiseError(f"the noise {name[:40]!r} is unknown: use {', '.join(known)}{hint}")


def _name(field: str) -> str:
    return field.replace("_", "-")


def _range(field: str) -> tuple[float, float]:
    if field in ("over_rotation", "crosstalk"):
        return -MAX_ANGLE, MAX_ANGLE
    return 0.0, MAX_READOUT_ERROR if field == "readout" else 1.0
