"""Calibrations of devices: rates and times of each qubit and of each pair. Imports no package."""

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self, TypeVar

from qfleet.argument_checks import TEXT, instance, items, shown
from qfleet.devices.qubit_names import QUBIT, Pair, ordered, qubit_order
from qfleet.devices.rates import (
    VALUES,
    PairCalibration,
    QubitCalibration,
    Rates,
    Values,
    names_of,
    numbers_text,
)
from qfleet.errors import NoiseError

GATES = ("cz", "sqrt_iswap")
"""Two-qubit gates of devices; cx and ecr are cz between gates on one qubit."""

PULSES = ("sx", "phased_x")
"""Gates on one qubit: quarter turns about X, or turns by any angle about any axis of the equator.
Rotations about Z are virtual: without error, in no time."""

NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,59}"
"""Pattern of the name of a device."""

INLINE = "device:"
"""Begin of the text of a calibration; see `Calibration.from_text`."""

MAX_INLINE = 4000
"""Most characters of such a text after `INLINE`, which runs record."""

_MAX_NAME = 60
_MAX_SHOWN = 200

MAX_QUBITS = 10_000

_INLINE = re.compile(rf"{INLINE}({NAME}):([a-z_]+):([a-z_]+);(.*)", re.ASCII)

_Kind = TypeVar("_Kind", bound=Rates)

_NAMES = items(TEXT, "a sequence of names of qubits")


@dataclass(frozen=True)
class Calibration:
    """The calibration of a device, or of a part of it.

    Attributes:
        name: Name of the device.
        gate: Its two-qubit gate, of GATES.
        pulse: Its gate on one qubit, of PULSES.
        qubits: By name: a number, or row_column.
        pairs: By the names of both qubits in order.
    """

    name: str
    gate: str
    pulse: str
    qubits: Mapping[str, QubitCalibration]
    pairs: Mapping[Pair, PairCalibration] = field(default_factory=dict)

    KEYS: ClassVar = ("name", "date", "source", "gate", "pulse", "qubits", "pairs")

    def __post_init__(self) -> None:
        TEXT(self.name, "name")
        if not re.fullmatch(NAME, self.name, re.ASCII):
            raise NoiseError(
                f"the name of the device is {self.name[:60]!r}: use letters, digits, '_', '-', '.'"
            )
        for key, value, allowed in (("gate", self.gate, GATES), ("pulse", self.pulse, PULSES)):
            if TEXT(value, key) not in allowed:
                raise NoiseError(f"{key} is {value[:40]!r}: use {' or '.join(allowed)}")
        _require_entries(self.qubits, "qubits", QubitCalibration)
        _require_entries(self.pairs, "pairs", PairCalibration)
        if not 1 <= len(self.qubits) <= MAX_QUBITS:
            raise NoiseError(f"there are {len(self.qubits)} qubits: use 1 to {MAX_QUBITS:,}")
        for one in self.qubits:
            if not isinstance(one, str) or not QUBIT.fullmatch(one):
                raise NoiseError(f"{str(one)[:40]!r} is not a qubit: write a number, or row_column")
        for pair in self.pairs:
            if not isinstance(pair, tuple) or [*map(type, pair)] != [str, str]:
                raise NoiseError(
                    f"{shown(pair)} in pairs is not a pair: pass the names of two qubits, such as"
                    " ('0', '1')"
                )
            if pair != ordered(*pair) or pair[0] == pair[1] or not self.qubits.keys() >= {*pair}:
                raise NoiseError(
                    f"{'-'.join(pair)[:40]} is not a pair of two qubits of the device, the lower"
                    " one first"
                )

    @classmethod
    def check(cls, value: object, name: str) -> Self:
        """Check an argument that is a calibration; see `qfleet.argument_checks`."""
        found: Self = instance(cls, "a qfleet.devices.Calibration")(value, name)
        return found

    @classmethod
    def from_values(cls, values: Values) -> "Calibration":
        """Read the content of a YAML file of a calibration.

        Args:
            values: KEYS by name; numbers may be texts. The keys of `pairs` are such as `3-4`.

        Raises:
            NoiseError: Something is missing, unknown or out of range.
            ArgumentError: `values` is not a mapping.
        """
        VALUES(values, "values")
        if unknown := {*map(str, values)} - {*cls.KEYS}:
            raise NoiseError(f"{min(unknown)[:40]} is unknown: use {', '.join(cls.KEYS)}")
        for key in ("name", "gate", "pulse", "qubits"):
            if key not in values:
                raise NoiseError(f"{key} is missing: a calibration has {', '.join(cls.KEYS)}")
        name, gate, pulse = (str(values[key]) for key in ("name", "gate", "pulse"))
        qubits = {
            key: _read(QubitCalibration, f"qubit {key}", one)
            for key, one in _items(values, "qubits")
        }
        pairs: dict[Pair, PairCalibration] = {}
        for key, one in _items(values, "pairs"):
            first, _, second = key.partition("-")
            pair = ordered(first, second)
            if pair in pairs:
                raise NoiseError(f"pair {key[:40]} is given twice: keep one of them")
            pairs[pair] = _read(PairCalibration, f"pair {key}", one)
        return cls(name, gate, pulse, qubits, pairs)

    @classmethod
    def from_text(cls, text: str) -> "Calibration":
        """Read what `str` returns.

        Raises:
            NoiseError: It is no such text.
            ArgumentError: It is not a text.
        """
        found = _INLINE.fullmatch(TEXT(text, "text"))
        if not found:
            raise NoiseError("the calibration is not a text that qfleet wrote")
        name, gate, pulse, items = found.groups()
        qubits: dict[str, object] = {}
        pairs: dict[str, object] = {}
        for item in items.split(";"):
            key, _, numbers = item.partition("=")
            kind = PairCalibration if "-" in key else QubitCalibration
            names = names_of(kind, pulses=True)
            split = numbers.split(",")
            target = pairs if "-" in key else qubits
            if len(split) > len(names) or key in target:
                raise NoiseError(f"the calibration has a wrong item {item[:40]!r}")
            target[key] = {one: value for one, value in zip(names, split, strict=False) if value}
        return cls.from_values(
            {"name": name, "gate": gate, "pulse": pulse, "qubits": qubits, "pairs": pairs}
        )

    def __str__(self) -> str:
        """Return the calibration in one line, for `from_text`, with four digits of each number.

        OF_PULSES are left out.
        """
        return self.to_text(pulses=False)

    def to_text(self, *, pulses: bool) -> str:
        """Return the calibration in one line, as `str`.

        Args:
            pulses: Include OF_PULSES, with ten digits.
        """
        items = [f"{name}={numbers_text(one, pulses)}" for name, one in self.qubits.items()]
        items += [
            f"{'-'.join(pair)}={numbers_text(one, pulses)}" for pair, one in self.pairs.items()
        ]
        return ";".join([f"{INLINE}{self.name}:{self.gate}:{self.pulse}", *items])

    def part(self, names: Collection[str]) -> "Calibration":
        """Return some qubits, and the pairs of them, in order.

        Raises:
            ArgumentError: `names` is not a sequence of names.
            NoiseError: There is no qubit of a name.
        """
        kept = sorted(set(_NAMES(names, "names")), key=qubit_order)
        for one in kept:
            if one not in self.qubits:
                raise NoiseError(
                    f"{self.name} has no qubit {one[:40]!r}: name some of its {len(self.qubits)}"
                    f" qubits, such as {next(iter(self.qubits))!r}"
                )
        pairs = sorted(
            (pair for pair in self.pairs if {*pair} <= {*kept}),
            key=lambda pair: (qubit_order(pair[0]), qubit_order(pair[1])),
        )
        return Calibration(
            self.name,
            self.gate,
            self.pulse,
            {name: self.qubits[name] for name in kept},
            {pair: self.pairs[pair] for pair in pairs},
        )


def short_name(noise: str) -> str:
    """Return a value of NOISE for a message: a calibration by its name and its SHA-256."""
    if not noise.startswith(INLINE):
        return noise if len(noise) <= _MAX_SHOWN else f"{noise[:_MAX_SHOWN]}..."
    digest = hashlib.sha256(noise.encode()).hexdigest()
    name = noise.removeprefix(INLINE).partition(":")[0]
    return f"{name[:_MAX_NAME]} (sha256 {digest[:12]})"


def _require_entries(entries: object, name: str, kind: type[Rates]) -> None:
    """Check that all values of a mapping are of one type."""
    wanted = f"a mapping to {kind.__name__}"
    each = instance(kind, f"a {kind.__name__}")
    for key, one in instance(Mapping, wanted)(entries, name).items():
        each(one, f"{name}[{shown(key)}]")


def _items(values: Values, key: str) -> list[tuple[str, Values]]:
    """Return the entries of `qubits` or `pairs`."""
    entries = values.get(key, {})
    if not isinstance(entries, Mapping):
        raise NoiseError(f"{key} has no entries: write one line for each")
    for name, one in entries.items():
        if not isinstance(one, Mapping):
            raise NoiseError(f"{key} {str(name)[:40]} has no rates: write {{error: 0.001}}")
    return [(str(name), one) for name, one in entries.items()]


def _read(kind: type[_Kind], title: str, values: Values) -> _Kind:
    try:
        return kind.from_values(values)
    except NoiseError as error:
        raise NoiseError(f"{title[:60]}: {error}") from None
