"""DATA of TASK=gate: a gate by name, such as x or cz:3-4, or a YAML file. Imports no package."""

import cmath
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from common.errors import DataError, SettingsError
from common.settings import yaml_file
from common.text import did_you_mean

CONTROLS = ("drive", "cross-drive", "detuning", "coupler")
"""Channels of a pulse: I and Q of each qubit; these at the frequency of the last qubit; the flux of
the qubit with the highest frequency; a tunable exchange of two qubits."""

MAX_NUMBERS, MAX_DEVICES, MAX_SAMPLES, MAX_LEVELS = 200, 256, 10_000, 8


class _Form(NamedTuple):
    """The defaults of a gate: number of qubits, and its pulse."""

    width: int
    duration: float
    dt: float
    controls: tuple[str, ...]
    numbers: int
    drive_strength: tuple[float, ...] = (1.0,)


_TURN = _Form(1, 16.0, 0.5, ("drive",), 6, (0.99, 1.0, 1.01))
_TUNED = _Form(2, 40.0, 1.0, ("detuning", "coupler"), 12)
NAMED: Mapping[str, _Form] = {
    "x": _TURN,
    "sx": _TURN,
    "cz": _TUNED,
    "iswap": _TUNED,
    "cr": _Form(2, 400.0, 2.0, ("cross-drive",), 12),
}
"""Gates by name; cr is the cross resonance exp(-i pi/4 Z X), its control first."""

_FORMS: Mapping[int, _Form] = {1: _TURN, 2: _TUNED, 3: _Form(3, 100.0, 1.0, ("drive",), 12)}
"""The defaults of other gates, by the number of their qubits."""

Unitary = tuple[tuple[complex, ...], ...]


@dataclass(frozen=True)
class GateFile:
    """A gate, and the pulse that is wanted for it.

    Attributes:
        gate: A key of NAMED; empty with `unitary`.
        unitary: Rows of the matrix, the first qubit leftmost; empty with `gate`.
        qubits: Names of the device's qubits; empty for its best ones.
        duration: In ns.
        dt: Of a sample, in ns.
        controls: Of CONTROLS.
        numbers: B-splines of each channel.
        drive: Largest amplitude of I and of Q, in rad/ns.
        detuning: Largest detuning, in rad/ns.
        coupler: Largest exchange, in rad/ns.
        bandwidth: Of the electronics, in GHz; 0 for no filter.
        levels: Of each qubit, from 2 to MAX_LEVELS.
        frequency: Deviations of the qubits' frequencies in GHz, over which fidelities are averaged.
        drive_strength: Factors of the drives, likewise.
    """

    gate: str
    unitary: Unitary
    qubits: tuple[str, ...]
    duration: float
    dt: float
    controls: tuple[str, ...]
    numbers: int
    drive: float = 0.6
    detuning: float = 2.5
    coupler: float = 0.2
    bandwidth: float = 0.0
    levels: int = 3
    frequency: tuple[float, ...] = (-1e-5, 0.0, 1e-5)
    drive_strength: tuple[float, ...] = (1.0,)

    @property
    def width(self) -> int:
        """Number of qubits."""
        return _width(self.gate, self.unitary)

    @classmethod
    def from_values(cls, values: Mapping[str, Any], title: str) -> "GateFile":
        """Read texts of a file, or what `to_json` returned.

        Args:
            values: By name of an attribute.
            title: Of the values, for messages.

        Raises:
            DataError: A name is unknown, or a value is missing or out of range.
        """
        known = [one.name for one in fields(cls)]
        for name in values:
            if name not in known:
                close = did_you_mean(str(name)[:40], known)
                raise DataError(f"{title} has {str(name)[:40]!r}: use {', '.join(known)}{close}")
        read: dict[str, Any] = {}
        for name, value in values.items():
            try:
                read[name] = _READERS[name](value)
            except (TypeError, ValueError, OverflowError) as error:
                text = " ".join(str(value).split())[:60]
                raise DataError(f"{title} has {name}={text}: give {error}") from None
        return cls(**_with_defaults(read, title))

    def to_json(self) -> dict[str, Any]:
        """Return plain data, from which `from_values` makes the same object."""
        found = {name: value for name, value in asdict(self).items() if value not in ("", ())}
        if self.unitary:
            found["unitary"] = [list(map(str, row)) for row in self.unitary]
        listed = {name: [*value] for name, value in found.items() if isinstance(value, tuple)}
        return {**found, **listed}


def named_gate(data: str) -> GateFile:
    """Return the gate of a name, such as x, cz, or cz:3-4 with the qubits of the device.

    Args:
        data: DATA.

    Raises:
        DataError: There is no such gate.
    """
    name, colon, qubits = data.partition(":")
    if name not in NAMED:
        raise DataError(
            f"DATA={data[:60]} is not a gate: allowed are {', '.join(NAMED)}, each also with qubits"
            " such as cz:3-4, or the path of a YAML file that ends in .yaml"
            + did_you_mean(name, NAMED)
        )
    given = {"qubits": qubits} if colon else {}
    return GateFile.from_values({"gate": name, **given}, f"DATA={data[:60]}")


def parse_gate(content: bytes, title: str) -> GateFile:
    """Read a YAML file.

    Args:
        content: The file.
        title: DATA, for messages.

    Raises:
        DataError: The content is of another kind, or as for `GateFile.from_values`.
    """
    try:
        values = yaml_file.parse_nested(content, title, "a YAML file of a gate")
    except SettingsError as error:
        raise DataError(str(error)) from None
    return GateFile.from_values(values, title)


def local_gate(data: str) -> GateFile | None:
    """Return the gate of DATA; None if it can't be read here, which is reported later.

    Args:
        data: DATA.
    """
    try:
        if not data.lower().endswith((".yaml", ".yml")):
            return named_gate(data)
        path = Path(data)
        if not path.is_file() or path.stat().st_size > yaml_file.MAX_BYTES:
            return None
        return parse_gate(path.read_bytes(), f"DATA={data}")
    except (OSError, DataError):
        return None


def _width(gate: str, unitary: Unitary) -> int:
    return NAMED[gate].width if gate else (len(unitary) - 1).bit_length()


def _with_defaults(read: dict[str, Any], title: str) -> dict[str, Any]:
    """Return all values of a gate; those that are not given have the defaults of its name."""
    gate, unitary = read.get("gate", ""), read.get("unitary", ())
    if bool(gate) == bool(unitary):
        raise DataError(
            f"{title} needs either gate or unitary: give gate, one of {', '.join(NAMED)}"
        )
    width = _width(gate, unitary)
    if unitary and len(unitary) not in (2, 4, 8):
        raise DataError(f"{title} has a unitary of {len(unitary)} rows: give 2, 4 or 8")
    form = NAMED[gate] if gate else _FORMS[width]
    defaults = {name: getattr(form, name) for name in form._fields if name != "width"}
    found = {"gate": gate, "unitary": unitary, "qubits": (), **defaults, **read}
    qubits = found["qubits"]
    if qubits and len(set(qubits)) != width:
        raise DataError(
            f"{title} names the qubits {', '.join(qubits)[:60]}: give {width} of them for"
            f" {gate or 'the unitary'}"
        )
    if width != 2 and "coupler" in found["controls"]:
        raise DataError(f"{title} has a coupler, which joins 2 qubits: give other controls")
    if found["duration"] > MAX_SAMPLES * found["dt"]:
        raise DataError(
            f"{title} has duration={found['duration']:g} ns and dt={found['dt']:g} ns: give at most"
            f" {MAX_SAMPLES:,} samples"
        )
    if len(found.get("frequency", GateFile.frequency)) * len(found["drive_strength"]) > MAX_DEVICES:
        raise DataError(
            f"{title} has more than {MAX_DEVICES} perturbed devices: give fewer frequencies or"
            " drive strengths"
        )
    return found


def _number(low: float, high: float, unit: str) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        wanted = f"a number from {low:g} to {high:g}{unit}"
        try:
            found = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            found = math.nan
        if not low <= found <= high:
            raise ValueError(wanted)
        return found

    return read


def _whole(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        found = _number(low, high, "")(value)
        if found != int(found):
            raise ValueError(f"a whole number from {low} to {high}")
        return int(found)

    return read


def _listed(value: Any, separator: str = ",") -> list[Any]:
    if isinstance(value, str):
        return [one.strip() for one in value.split(separator)]
    if isinstance(value, list | tuple) and value:
        return list(value)
    raise ValueError("values separated by commas")


def _numbers(low: float, high: float, unit: str) -> Callable[[Any], tuple[float, ...]]:
    each = _number(low, high, unit)
    return lambda value: tuple(each(one) for one in _listed(value))


def _one_of(value: Any, allowed: Any) -> str:
    if value not in allowed:
        raise ValueError(f"one of {', '.join(allowed)}{did_you_mean(str(value)[:40], allowed)}")
    return str(value)


def _names(value: Any) -> tuple[str, ...]:
    return tuple(map(str, _listed(value, "-")))


def _controls(value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_one_of(one, CONTROLS) for one in _listed(value)))


def _rows(value: Any) -> Unitary:
    """Return the rows of a matrix: a mapping of texts such as `0: 0, 1`, or lists."""
    wanted = ValueError("rows such as '0: 0, 1j' with as many numbers as rows")
    listed = list(value.values()) if isinstance(value, Mapping) else value
    if not isinstance(listed, list | tuple):
        raise wanted
    try:
        rows = tuple(tuple(complex(one) for one in _listed(row)) for row in listed)
    except (TypeError, ValueError):
        raise wanted from None
    if any(len(row) != len(rows) or not all(map(cmath.isfinite, row)) for row in rows):
        raise wanted
    return rows


_RADIANS = _number(1e-6, 100, " rad/ns")
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "gate": lambda value: _one_of(value, NAMED),
    "unitary": _rows,
    "qubits": _names,
    "duration": _number(1e-3, 1e6, " ns"),
    "dt": _number(1e-3, 1e4, " ns"),
    "controls": _controls,
    "numbers": _whole(1, MAX_NUMBERS),
    "drive": _RADIANS,
    "detuning": _RADIANS,
    "coupler": _RADIANS,
    "bandwidth": _number(0, 100, " GHz"),
    "levels": _whole(2, MAX_LEVELS),
    "frequency": _numbers(-1, 1, " GHz"),
    "drive_strength": _numbers(1e-3, 100, ""),
}
