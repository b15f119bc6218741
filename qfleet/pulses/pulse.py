"""Pulses: envelopes on channels, and what electronics make of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import sympy
from numpy.typing import ArrayLike

from qfleet.argument_checks import TEXT, instance, items, number, optional, shown
from qfleet.engine.arguments import checked_values
from qfleet.errors import ArgumentError
from qfleet.pulses.channels import CONTROL_CHANNELS, ControlChannel
from qfleet.pulses.envelopes import Bound, Envelope
from qfleet.pulses.grid import GRID, Grid

MAX_FILTERED = 10_000  # samples
MAX_TABLE = 100_000  # amplitudes of all numbers of a linear pulse


@dataclass(frozen=True)
class GaussianFilter:
    """A low-pass filter with a Gaussian response, as electronics and lines have.

    A sample is replaced by a weighted mean of its neighbours. Amplitudes before and after the pulse
    are 0; what the filter moves there is cut off.

    Attributes:
        bandwidth: Frequency in GHz at which the amplitude is 1 / sqrt(2) (-3 dB).
    """

    bandwidth: float

    def __post_init__(self) -> None:
        if not 1e-4 <= number(self.bandwidth, "bandwidth") <= 100:
            raise ArgumentError(f"bandwidth is {self.bandwidth:g}: pass GHz, such as 0.3")

    def matrix(self, grid: Grid) -> np.ndarray:
        """Return the filter of samples, [N, N], a symmetric matrix.

        Args:
            grid: The samples.

        Raises:
            ArgumentError: There are too many samples for a matrix.
        """
        GRID(grid, "grid")
        if grid.samples > MAX_FILTERED:
            raise ArgumentError(
                f"the pulse has {grid.samples:,} samples: a filter takes at most {MAX_FILTERED:,}"
            )
        sigma = math.sqrt(math.log(2)) / (2 * math.pi * self.bandwidth)  # in ns
        reach = grid.samples - 1
        offsets = np.arange(-reach, reach + 1)
        weights = np.exp(-((offsets * grid.dt) ** 2) / (2 * sigma**2))
        weights /= weights.sum()
        at = np.arange(grid.samples)
        found: np.ndarray = weights[at[:, np.newaxis] - at + reach]
        return found


_FILTER = instance(GaussianFilter, "a GaussianFilter")
_ENVELOPE = instance(Envelope, "an Envelope, such as Drag")


def _part(value: object, name: str) -> tuple[Envelope, object]:
    pair = items(lambda one, _name: one, "(envelope, channels)")(value, name)
    if len(pair) != 2:
        raise ArgumentError(f"{name} is {shown(value)}: pass (envelope, channels)")
    return _ENVELOPE(pair[0], f"{name}[0]"), pair[1]


_PARTS = items(_part, "a sequence of (envelope, channels)")


@dataclass(frozen=True)
class Pulse:
    """Envelopes on channels: from trained numbers to the amplitudes of all channels.

    Args:
        parts: Pairs of an envelope and its channels: one channel, or (I, Q) for `Drag`. Several
            envelopes on a channel are added.
        filter: Bandwidth of the electronics; none unless given.

    Attributes:
        grid: The samples.
        channels: All channels, in the order of their first envelope.

    Raises:
        ArgumentError: The envelopes have different samples, or another number of channels, or an
            argument has another type.
    """

    parts: Sequence[tuple[Envelope, ControlChannel | Sequence[ControlChannel]]]
    filter: GaussianFilter | None = None
    grid: Grid = field(init=False)
    channels: tuple[ControlChannel, ...] = field(init=False)
    _listed: tuple[tuple[Envelope, tuple[ControlChannel, ...]], ...] = field(init=False, repr=False)
    _matrix: np.ndarray | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts: list[tuple[Envelope, tuple[ControlChannel, ...]]] = []
        optional(_FILTER)(self.filter, "filter")
        for at, (envelope, channels) in enumerate(_PARTS(self.parts, "parts")):
            one = (channels,) if isinstance(channels, ControlChannel) else channels
            listed = CONTROL_CHANNELS(one, f"parts[{at}][1]")
            if len(listed) != envelope.width:
                raise ArgumentError(
                    f"parts[{at}] has {len(listed)} channels: a {type(envelope).__name__} has"
                    f" {envelope.width}"
                )
            if parts and envelope.grid != parts[0][0].grid:
                raise ArgumentError(
                    f"parts[{at}] has the samples {envelope.grid}, and parts[0]"
                    f" {parts[0][0].grid}: pass one grid to all envelopes"
                )
            parts.append((envelope, listed))
        if not parts:
            raise ArgumentError("parts is empty: pass (envelope, channels), at least once")
        for name in ("parts", "_listed"):
            object.__setattr__(self, name, tuple(parts))
        object.__setattr__(self, "grid", parts[0][0].grid)
        ordered = dict.fromkeys(one for _, listed in parts for one in listed)
        object.__setattr__(self, "channels", tuple(ordered))
        matrix = self.filter.matrix(self.grid) if self.filter else None
        object.__setattr__(self, "_matrix", matrix)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the trained numbers, P, such as "0.amplitude"."""
        return tuple(
            f"{at}.{name}"
            for at, (envelope, _) in enumerate(self._listed)
            for name in envelope.names
        )

    @property
    def bounds(self) -> list[Bound]:
        """Least and largest value of each trained number, so that channels keep their bounds."""
        return [
            bound
            for envelope, channels in self._listed
            for bound in envelope.bounds(min(one.bound for one in channels))
        ]

    def symbols(self, prefix: str) -> list[sympy.Expr]:
        """Return an expression of a symbol for each number, which keeps its bounds.

        A number from a to b is (a + b) / 2 + (b - a) / 2 sin(symbol) for any value of the symbol.

        Args:
            prefix: The symbols are named prefix and the number's name: "x.0.amplitude".

        Returns:
            P expressions, for `PulseGate`.
        """
        TEXT(prefix, "prefix")
        return [
            (low + high) / 2 + (high - low) / 2 * sympy.sin(sympy.Symbol(f"{prefix}.{name}"))
            for name, (low, high) in zip(self.names, self.bounds, strict=True)
        ]

    def sample(self, parameters: ArrayLike) -> np.ndarray:
        """Return the amplitudes of the channels, [N, C] in rad/ns.

        Args:
            parameters: [P].

        Raises:
            ArgumentError: The array has another shape, or a number is not finite.
        """
        found = np.zeros((self.grid.samples, len(self.channels)))
        for (envelope, channels), values in zip(self._listed, self._split(parameters), strict=True):
            found[:, self._columns(channels)] += envelope.sample(values)
        return self._filtered(found)

    def vjp(self, parameters: ArrayLike, upstream: np.ndarray) -> np.ndarray:
        """Return the gradient of a loss L by the trained numbers, [P].

        Args:
            parameters: [P].
            upstream: [N, C], dL/damplitudes.
        """
        upstream = self._filtered(upstream)  # the filter's matrix is symmetric
        found = [
            envelope.vjp(values, upstream[:, self._columns(channels)])
            for (envelope, channels), values in zip(
                self._listed, self._split(parameters), strict=True
            )
        ]
        return np.concatenate(found)

    def samples(self, rows: np.ndarray) -> np.ndarray:
        """Return the amplitudes of B pulses, [B, N, C] in rad/ns.

        Args:
            rows: [B, P] float64.

        Raises:
            ArgumentError: As for `sample`.
        """
        if self._table is None:
            return np.stack([self.sample(row) for row in rows])
        found: np.ndarray = np.einsum("bp,pnc->bnc", rows, self._table)
        return found

    def vjps(self, rows: np.ndarray, upstream: np.ndarray) -> np.ndarray:
        """Return the gradients of losses of B pulses by their numbers, [B, P].

        Args:
            rows: [B, P] float64.
            upstream: [B, N, C], dL/damplitudes.
        """
        if self._table is None:
            return np.stack([self.vjp(*one) for one in zip(rows, upstream, strict=True)])
        found: np.ndarray = np.einsum("bnc,pnc->bp", upstream, self._table)
        return found

    @cached_property
    def _table(self) -> np.ndarray | None:
        """The amplitudes of 1 for each number, [P, N, C]; None if they are not linear or many."""
        count = len(self.names)
        size = count * self.grid.samples * len(self.channels)
        if size > MAX_TABLE or not all(envelope.is_linear for envelope, _ in self._listed):
            return None
        return np.stack([self.sample(one) for one in np.eye(count)])

    def _filtered(self, values: np.ndarray) -> np.ndarray:
        return values if self._matrix is None else self._matrix @ values

    def _columns(self, channels: Sequence[ControlChannel]) -> np.ndarray:
        return np.array([self.channels.index(one) for one in channels])

    def _split(self, parameters: ArrayLike) -> list[np.ndarray]:
        counts = [len(envelope.names) for envelope, _ in self._listed]
        reason = f"the envelopes have {sum(counts)} numbers"
        values = checked_values(parameters, (sum(counts),), "parameters", because=reason)
        return np.split(values, np.cumsum(counts)[:-1])
