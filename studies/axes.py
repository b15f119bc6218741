"""Varied settings of a study: their values on the command line, and combinations of them."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from common.errors import SettingsError
from common.settings import SettingField

VARIED_GROUPS = ("model", "data", "training", "checkpointing", "fault_tolerance")
"""Groups of settings that a study can vary: those of a training."""

TEXT_WITH_COMMAS = frozenset({"noise", "classes", "class_weights"})
"""Settings of these groups whose values may contain commas; a semicolon separates their values."""

MAX_COMBINATIONS = 10_000
MAX_VALUES = 10_000
LOG_SCALE_RATIO = 10
"""A range of numbers whose bounds have more than this ratio is sampled on a logarithmic scale."""

Combination = dict[str, str]
"""Values of the varied settings, as text, by name in lower case."""

_NUMBER = r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})")


@dataclass(frozen=True)
class Axis:
    """A varied setting: a list of values, or a range of numbers that a search draws from.

    Attributes:
        name: Name of the setting in lower case.
        values: The values as text; empty for a range.
        low: Lower bound of a range, inclusive.
        high: Upper bound of a range, inclusive.
        whole: True if the range has whole numbers only.
    """

    name: str
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    whole: bool = False

    @property
    def is_logarithmic(self) -> bool:
        """True if the range is sampled on a logarithmic scale."""
        return not self.whole and self.low > 0 and self.high / self.low > LOG_SCALE_RATIO

    @property
    def ends(self) -> tuple[str, ...]:
        """The values, or the bounds of the range, as text."""
        return self.values or (self.text(self.low), self.text(self.high))

    @property
    def size(self) -> float:
        """The number of different values; infinite for a range of numbers that are not whole."""
        if self.values:
            return len(self.values)
        return self.high - self.low + 1 if self.whole else math.inf

    def text(self, value: float) -> str:
        """Return a number of the range as it is written in settings."""
        return str(round(value)) if self.whole else f"{value:.6g}"

    def at(self, fraction: float) -> str:
        """Return the value at a fraction of the axis, from 0 to below 1."""
        if self.values:
            return self.values[int(fraction * len(self.values))]
        if self.whole:
            return self.text(self.low + int(fraction * self.size))
        if self.is_logarithmic:
            low, high = math.log(self.low), math.log(self.high)
            return self.text(min(max(math.exp(low + fraction * (high - low)), self.low), self.high))
        return self.text(self.low + fraction * (self.high - self.low))

    def to_json(self) -> dict[str, Any]:
        """Return the axis as study.json has it."""
        if self.values:
            return {"values": list(self.values)}
        return {"low": self.low, "high": self.high, "whole": self.whole}


def parse_axis(field: SettingField, text: str, *, search: str) -> Axis | str:
    """Read the value of a setting on the command line of a study.

    Args:
        field: The setting.
        text: One value, several (`8,12`; with a semicolon where values contain commas), or a range
            (`0..4`).
        search: SEARCH; a grid enumerates ranges.

    Returns:
        The axis, or the text if it is one value.

    Raises:
        SettingsError: A range is reversed or too long, or a grid can't enumerate it.
    """
    if field.group not in VARIED_GROUPS:
        return text
    separator = ";" if ";" in text or field.name in TEXT_WITH_COMMAS else ","
    parts = [part.strip() for part in text.split(separator) if part.strip()]
    if len(parts) == 1 and (found := _RANGE.fullmatch(parts[0])) and search != "grid":
        return _range(field, text, found[1], found[2])
    if text and not parts:
        raise SettingsError(f"{field.variable}={text} has no value: write one, or omit the setting")
    values = [value for part in parts for value in _enumerate(field, part)]
    if len(values) <= 1 and separator not in text and values == parts:
        return text
    repeated = [value for value in dict.fromkeys(values) if values.count(value) > 1]
    if repeated:
        raise SettingsError(
            f"{field.variable}={text} contains {repeated[0]} more than once: give each value once"
        )
    return Axis(field.name, tuple(values))


def _enumerate(field: SettingField, part: str) -> Sequence[str]:
    found = _RANGE.fullmatch(part)
    if not found or not _is_numeric(field):
        return [part]
    axis = _range(field, part, found[1], found[2])
    if not axis.whole:
        raise SettingsError(
            f"{field.variable}={part} is a range of numbers that a grid can't enumerate: list the"
            " values, separated by commas, or set SEARCH=random"
        )
    if axis.size > MAX_VALUES:
        raise SettingsError(
            f"{field.variable}={part} has {axis.size:,.0f} values: at most {MAX_VALUES:,} are"
            " allowed"
        )
    return [str(value) for value in range(int(axis.low), int(axis.high) + 1)]


def _range(field: SettingField, text: str, low: str, high: str) -> Axis:
    if not _is_numeric(field):
        raise SettingsError(
            f"{field.variable}={text} is a range, but {field.variable} is not a number: list the"
            " values, separated by commas"
        )
    if float(low) >= float(high):
        raise SettingsError(
            f"{field.variable}={text} is not a range: write the lower bound before a higher one"
        )
    whole = float not in _types(field)
    if whole and not all(bound.lstrip("-").isdigit() for bound in (low, high)):
        raise SettingsError(f"{field.variable}={text} is not a range of whole numbers")
    return Axis(field.name, (), float(low), float(high), whole)


def _is_numeric(field: SettingField) -> bool:
    return bool(_types(field) & {int, float})


def _types(field: SettingField) -> set[object]:
    return {field.annotation, *get_args(field.annotation)}


def grid(axes: Sequence[Axis]) -> Iterator[Combination]:
    """Yield all combinations of the values; those of the last axis change fastest."""
    for values in itertools.product(*(axis.values for axis in axes)):
        yield dict(zip((axis.name for axis in axes), values, strict=True))


def combination_count(axes: Sequence[Axis]) -> float:
    """Return the number of different combinations; infinite if a range has no steps."""
    return math.prod(axis.size for axis in axes)


def to_args(combination: Mapping[str, str]) -> list[str]:
    """Return a combination as arguments."""
    return [f"{name.upper()}={value}" for name, value in combination.items()]
