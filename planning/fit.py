"""Measured steps, and what is fitted to them for the step model: lines, and ratios to the lines."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

DEFAULT_HOST_SECONDS = 5e-3
"""`FitPoint.host_seconds` where it was not measured."""

CALLBACK_SECONDS = 3e-3
"""The host's work of an epoch that a step benchmark does not have: the callbacks of a training, and
what they displace from the caches. About what plans without it lacked, compared with trainings."""


@dataclass(frozen=True)
class FitPoint:
    """A measured configuration. `simulate`, `exchange`, `input` and `other` are seconds per step.

    Attributes:
        family: As in WorkloadAnalysis.
        qubits: Width of the measured circuit.
        operations: Floating-point operations per example.
        workers: Workers that trained together.
        threads: Threads per worker.
        busy_threads: Threads that computed at once on the machine.
        rows: Examples per step of one worker.
        work: WorkloadAnalysis.work of these rows.
        host_seconds: Time of an epoch in addition to its steps: the host's work around
            TensorFlow's calls; 0 where it was not measured.
        spanned: True if spanning states were simulated in place of the examples.
        rss_bytes: Peak resident memory of a worker.
        start_seconds: CPU time from the start of the process until it could build a model.
        build_seconds: Time from then until the end of the first step.
    """

    family: str
    qubits: int
    operations: float
    workers: int
    threads: int
    busy_threads: int
    rows: int
    work: float
    host_seconds: float
    simulate: float
    exchange: float
    input: float
    other: float
    spanned: bool = False
    rss_bytes: int = 0
    start_seconds: float = 0.0
    build_seconds: float = 0.0

    @property
    def step(self) -> float:
        """Seconds per step."""
        return self.simulate + self.exchange + self.input + self.other


@dataclass(frozen=True)
class FitLine:
    """A straight line through measured points: `at_zero + rate * x`, both at least 0."""

    at_zero: float
    rate: float

    def __call__(self, x: float) -> float:
        return self.at_zero + self.rate * x

    @classmethod
    def through(cls, points: Iterable[tuple[float, float]]) -> "FitLine":
        """Fit a line with the least squares of the relative errors."""
        points = [(x, y) for x, y in points if y > 0]
        if not points:
            return cls(0.0, 0.0)
        weight = [1 / (y * y) for _, y in points]
        total = sum(weight)
        mean_x = sum(w * x for w, (x, _) in zip(weight, points, strict=True)) / total
        mean_y = sum(w * y for w, (_, y) in zip(weight, points, strict=True)) / total
        spread = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weight, points, strict=True))
        if spread <= 1e-12 * total * mean_x**2:
            return cls(0.0, mean_y / mean_x) if mean_x else cls(mean_y, 0.0)
        rate = sum(
            w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weight, points, strict=True)
        )
        rate = max(rate / spread, 0.0)
        at_zero = mean_y - rate * mean_x
        if at_zero >= 0:
            return cls(at_zero, rate)
        squares = sum(w * x * x for w, (x, _) in zip(weight, points, strict=True))
        return cls(0.0, sum(w * x * y for w, (x, y) in zip(weight, points, strict=True)) / squares)


@dataclass(frozen=True)
class RowRatios:
    """Measured times over those of a line, by rows. Between rows they are interpolated."""

    by_rows: Mapping[int, float]

    def __call__(self, rows: int) -> float:
        if not self.by_rows:
            return 1.0
        known = sorted(self.by_rows)
        ratios = [self.by_rows[one] for one in known]
        return float(np.interp(math.log(rows), np.log(known), ratios))

    @classmethod
    def of(cls, ratios: Iterable[tuple[int, float]]) -> Self:
        """Return the ratios of measured points; those of equal rows are averaged."""
        found: dict[int, list[float]] = {}
        for rows, ratio in ratios:
            found.setdefault(rows, []).append(ratio)
        return cls({rows: statistics.fmean(those) for rows, those in found.items()})

    def mixed(self, other: "RowRatios", share: float) -> "RowRatios":
        """Return ratios between these and others."""
        every = {*self.by_rows, *other.by_rows}
        return RowRatios(
            {rows: self(rows) * (1 - share) + other(rows) * share for rows in sorted(every)}
        )


@dataclass(frozen=True)
class PartFit:
    """The time of a part of a step: a line, and the ratios of the measured times to it.

    So a step of as many rows as a measured one takes the measured time.
    """

    line: FitLine
    ratios: RowRatios

    def __call__(self, x: float, rows: int) -> float:
        return self.line(x) * self.ratios(rows)

    @classmethod
    def through(cls, points: Iterable[tuple[int, float, float]]) -> Self:
        """Fit a line to points of rows, x and seconds."""
        points = list(points)
        line = FitLine.through((x, y) for _, x, y in points)
        return cls(line, RowRatios.of((rows, y / line(x)) for rows, x, y in points if line(x) > 0))


PartName = Literal["simulate", "exchange", "input", "other"]


@dataclass(frozen=True)
class SizeFit:
    """The parts of a step for one width of the circuit in one setup.

    Attributes:
        simulate: By operations of the busiest thread.
        spanning: The time of spanning states over that of the line of `simulate`.
        exchange: By seconds of `simulate`.
        input: By rows.
        other: By rows.
    """

    simulate: PartFit
    spanning: RowRatios
    exchange: PartFit
    input: PartFit
    other: PartFit


@dataclass(frozen=True)
class SetupFit:
    """Fits for a measured setup: a number of workers with a number of threads each.

    Attributes:
        sizes: Fits by qubits.
        host_seconds: The host's work of an epoch: as in FitPoint, and the callbacks of a training.
    """

    workers: int
    threads: int
    busy_threads: int
    sizes: Mapping[int, SizeFit]
    host_seconds: float

    def part(self, qubits: int, name: PartName) -> PartFit:
        """Return a part for a width, interpolated between the two nearest measured widths."""
        low, high, share = self._nearest(qubits)
        one: PartFit = getattr(low, name)
        other: PartFit = getattr(high, name)
        line = FitLine(
            one.line.at_zero * (1 - share) + other.line.at_zero * share,
            _interpolate_logarithm(one.line.rate, other.line.rate, share),
        )
        return PartFit(line, one.ratios.mixed(other.ratios, share))

    def spanning(self, qubits: int) -> RowRatios:
        """Return `SizeFit.spanning` for a width."""
        low, high, share = self._nearest(qubits)
        return low.spanning.mixed(high.spanning, share)

    def _nearest(self, qubits: int) -> tuple[SizeFit, SizeFit, float]:
        """Return the fits of the measured widths around a width, and its place between them."""
        below = max((n for n in self.sizes if n <= qubits), default=min(self.sizes))
        above = min((n for n in self.sizes if n >= qubits), default=max(self.sizes))
        share = (qubits - below) / (above - below) if below < above else 0.0
        return self.sizes[below], self.sizes[above], share


def fit_setups(points: Sequence[FitPoint]) -> list[SetupFit]:
    """Fit all setups."""
    setups = sorted({(one.workers, one.threads, one.busy_threads) for one in points})
    fits = []
    for setup in setups:
        own = [p for p in points if (p.workers, p.threads, p.busy_threads) == setup]
        measured = [point.host_seconds for point in own if point.host_seconds]
        host_seconds = statistics.median(measured) if measured else DEFAULT_HOST_SECONDS
        fits.append(SetupFit(*setup, dict(_fit_sizes(own)), host_seconds + CALLBACK_SECONDS))
    return fits


def _fit_sizes(points: Sequence[FitPoint]) -> Iterator[tuple[int, SizeFit]]:
    for qubits in sorted({point.qubits for point in points}):
        here = [point for point in points if point.qubits == qubits]
        spanned = [point for point in here if point.spanned]
        direct = [point for point in here if not point.spanned]
        line = FitLine.through((p.work * p.operations, p.simulate) for p in direct or spanned)
        simulate, spanning = (
            RowRatios.of((p.rows, p.simulate / line(p.work * p.operations)) for p in those)
            for those in (direct, spanned)
        )
        yield (
            qubits,
            SizeFit(
                simulate=PartFit(line, simulate),
                spanning=spanning,
                exchange=PartFit.through((p.rows, p.simulate, p.exchange) for p in here),
                input=PartFit.through((p.rows, p.rows, p.input) for p in here),
                other=PartFit.through((p.rows, p.rows, p.other) for p in here),
            ),
        )


def _interpolate_logarithm(low: float, high: float, share: float) -> float:
    if low <= 0 or high <= 0:
        return low * (1 - share) + high * share
    return math.exp(math.log(low) * (1 - share) + math.log(high) * share)
